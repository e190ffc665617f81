/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Buffers of perf in GPU memory and the rates of copy engines, over the stand-in for the driver:
 * wrong bytes are found whoever compares, every call that fails ends cleanly, nothing is left.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "ceiling_gpu.h"
#include "fakecuda/check_kernel.h"
#include "cli_gpu.h"
#include "fakecuda/fakecuda.h"
#include "perf_gpu.h"
#include "sys/cuda.h"
#include "unit.h"

#define KEY 0x1234567890abcdefull
#define WORKING_SET (1u << 20)

static struct fakecuda fake;

static const struct perf_leave leave = {check_kernel_go_on, NULL};

static void *at(uint64_t addr, uint64_t bytes)
{
	return fake.translate(addr, bytes);
}

static void kernel_fill(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	check_kernel_fill(params[0], at);
}

static void kernel_check_layout(void **params, unsigned grid, unsigned block)
{
	const struct gpu_check_layout_args *a = params[0];
	const struct gpu_check_result *result = at(a->result, sizeof(*result));

	(void)grid;
	(void)block;
	if (result && at(a->buf, a->bytes)) { /* NULL: let go after a wait that was made to fail */
		assert_int_equal(result->wrong, 0);
		assert_int_equal(result->first, UINT64_MAX);
	}
	assert_int_equal(check_kernel_layout(a, at), TCPX_OK);
}

static void kernel_none(void **params, unsigned grid, unsigned block)
{
	(void)params;
	(void)grid;
	(void)block;
}

static void add_kernels(void)
{
	static const size_t one = sizeof(struct gpu_check_args);
	static const size_t layout = sizeof(struct gpu_check_layout_args);

	assert_int_equal(fake.kernel_add("perf_fill", kernel_fill, &one, 1), 0);
	assert_int_equal(fake.kernel_add("perf_check", kernel_none, &one, 1), 0);
	assert_int_equal(fake.kernel_add("perf_check_layout", kernel_check_layout, &layout, 1), 0);
}

/* The transfers of a window, by the test's own hands. */
static void apply(const struct perf_layout *layout, const void *src, void *dst, uint32_t used)
{
	uint8_t *piece = malloc(layout->piece);

	assert_non_null(piece);
	for (uint32_t p = 0; p < used * layout->batch; p++) {
		assert_int_equal(fake.read((uintptr_t)src + perf_layout_src(layout, p), piece,
					   layout->piece),
				 0);
		assert_int_equal(fake.write((uintptr_t)dst + perf_layout_dst(layout, p), piece,
					    layout->piece),
				 0);
	}
	free(piece);
}

static void check_case(struct perf_gpu *gpu, uint64_t size, uint32_t batch)
{
	struct perf_wrong wrong = {0};
	struct perf_layout layout;
	void *src, *dst;
	uint64_t at;

	assert_int_equal(perf_layout_init(&layout, WORKING_SET, size, batch, 7), 0);
	assert_int_equal(perf_gpu_alloc(gpu, WORKING_SET, &src), TCPX_OK);
	assert_int_equal(perf_gpu_alloc(gpu, WORKING_SET, &dst), TCPX_OK);
	assert_int_equal(perf_gpu_fill(gpu, src, dst, WORKING_SET, KEY, &leave), TCPX_OK);
	apply(&layout, src, dst, layout.transfers - 1);
	assert_int_equal(
		perf_gpu_check(gpu, &layout, dst, layout.transfers - 1, KEY, &leave, &wrong),
		TCPX_OK);
	assert_int_equal(wrong.count, 0);
	at = perf_layout_dst(&layout, 0) + 1;
	assert_int_equal(perf_gpu_flip(gpu, (uint8_t *)dst + at), TCPX_OK);
	assert_int_equal(perf_gpu_flip(gpu, (uint8_t *)dst + WORKING_SET - 1), TCPX_OK);
	assert_int_equal(
		perf_gpu_check(gpu, &layout, dst, layout.transfers - 1, KEY, &leave, &wrong),
		TCPX_OK);
	assert_int_equal(wrong.count, 2);
	assert_int_equal(wrong.first, at);
	perf_gpu_free(gpu, src);
	perf_gpu_free(gpu, dst);
	perf_layout_fini(&layout);
}

static void check_all(void)
{
	struct perf_gpu *gpu;

	assert_int_equal(perf_gpu_open(1, &gpu), TCPX_OK);
	assert_int_equal(perf_gpu_device(gpu), 1);
	check_case(gpu, 100000, 1);
	check_case(gpu, 65536, 16);
	check_case(gpu, 3000, 3);
	perf_gpu_close(gpu);
	assert_int_equal(fake.settle(0), 0);
}

static void the_cpu_finds_every_wrong_byte(void **state)
{
	(void)state;
	check_all();
}

static void kernels_get_the_layout_as_it_is(void **state)
{
	(void)state;
	add_kernels();
	check_all();
}

static void what_is_not_there_is_named(void **state)
{
	struct perf_gpu *gpu;
	struct cli_gpu facts;
	uint32_t ordinal;
	void *addr;

	(void)state;
	assert_int_equal(perf_gpu_open(2, &gpu), TCPX_ERR_INVALID);
	assert_int_equal(cli_gpu_get(2, &facts), TCPX_ERR_INVALID);
	assert_non_null(strstr(error_last()->what, "sees 2"));
	assert_int_equal(cli_gpu_get(1, &facts), TCPX_OK);
	assert_int_equal(cli_gpu_find(facts.uuid, &ordinal), 0);
	assert_int_equal(ordinal, 1);
	facts.uuid[0] ^= 1;
	assert_int_equal(cli_gpu_find(facts.uuid, &ordinal), -1);
	assert_int_equal(perf_gpu_open(0, &gpu), TCPX_OK);
	assert_int_equal(perf_gpu_alloc(gpu, 1ull << 40, &addr), TCPX_ERR_NO_MEMORY);
	assert_non_null(strstr(error_last()->what, "1 TiB"));
	assert_non_null(strstr(error_last()->what, "free"));
	perf_gpu_close(gpu);
	assert_int_equal(error_last()->status, TCPX_ERR_NO_MEMORY);
	assert_int_equal(fake.settle(0), 0);
}

static void engines_have_rates(void **state)
{
	uint64_t rate = 0;

	(void)state;
	assert_int_equal(ceiling_gpu_copy(0, CEILING_D2H, &rate), TCPX_OK);
	assert_true(rate > 0);
	rate = 0;
	assert_int_equal(ceiling_gpu_copy(1, CEILING_H2D, &rate), TCPX_OK);
	assert_true(rate > 0);
	rate = 0;
	assert_int_equal(ceiling_gpu_peer(0, 1, &rate), TCPX_OK);
	assert_true(rate > 0);
	assert_int_equal(ceiling_gpu_copy(7, CEILING_H2D, &rate), TCPX_ERR_INVALID);
	assert_int_equal(ceiling_gpu_peer(0, 7, &rate), TCPX_ERR_INVALID);
	assert_int_equal(fake.settle(0), 0);
}

static uint64_t entered(void)
{
	return fake.calls("cuCtxPushCurrent");
}

/*
 * What perf does with its GPU, once; the first failure. out_entered: how often it enters the
 * context before it lets go of what it has.
 */
static tcpx_status use_all(uint64_t *out_entered)
{
	uint64_t before = entered();
	struct perf_wrong wrong = {0};
	struct perf_layout layout;
	struct perf_gpu *gpu;
	void *memory = NULL;
	tcpx_status status = perf_gpu_open(0, &gpu);

	if (status != TCPX_OK)
		return status;
	assert_int_equal(perf_layout_init(&layout, 4096, 4096, 4, 7), 0);
	status = perf_gpu_alloc(gpu, 4096, &memory);
	if (status == TCPX_OK)
		status = perf_gpu_fill(gpu, memory, NULL, 4096, KEY, &leave);
	if (status == TCPX_OK)
		status = perf_gpu_fill(gpu, NULL, memory, 4096, KEY, &leave);
	if (status == TCPX_OK)
		status = perf_gpu_flip(gpu, memory);
	if (status == TCPX_OK)
		status = perf_gpu_check(gpu, &layout, memory, 0, KEY, &leave, &wrong);
	if (status == TCPX_OK)
		assert_int_equal(wrong.count, 1);
	*out_entered = entered() - before;
	if (memory)
		perf_gpu_free(gpu, memory);
	perf_gpu_close(gpu);
	perf_layout_fini(&layout);
	return status;
}

/*
 * With every call failing once: an error or, where it can do without, none; nothing is left. The
 * context can always be entered to let go of things: what is in a context that refuses even that is
 * freed by the driver at the last release, which the stand-in counts as a leak.
 */
static void every_failure_ends_cleanly(void **state)
{
	static const char *const symbols[] = {"cuDevicePrimaryCtxRetain",
					      "cuCtxPushCurrent",
					      "cuMemHostAlloc",
					      "cuStreamCreateWithPriority",
					      "cuModuleLoadData",
					      "cuModuleGetFunction",
					      "cuMemAlloc",
					      "cuMemcpyAsync",
					      "cuMemsetD8Async",
					      "cuLaunchKernel",
					      "cuStreamSynchronize",
					      "cuDeviceGetName",
					      "cuDeviceGetPCIBusId"};
	uint64_t entries, used;
	unsigned failed = 0;

	(void)state;
	assert_int_equal(use_all(&entries), TCPX_OK);
	for (unsigned i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		bool enters = !strcmp(symbols[i], "cuCtxPushCurrent");

		for (unsigned nth = 1; nth <= 8 && (!enters || nth <= entries); nth++) {
			tcpx_status status;

			assert_int_equal(fake.fail_call(symbols[i], nth, CUDA_ERR_UNKNOWN), 0);
			status = use_all(&used);
			failed += status != TCPX_OK;
			if (status != TCPX_OK && error_last()->status != status)
				fail_msg("%s %u: the last error is another", symbols[i], nth);
			if (fake.live(NULL))
				fail_msg("%s %u: something is left", symbols[i], nth);
			fake.fail_call(symbols[i], nth, CUDA_OK);
		}
	}
	assert_true(failed > 20);
}

static tcpx_status copy_once(void)
{
	uint64_t rate;

	return ceiling_gpu_copy(0, CEILING_D2H, &rate);
}

static tcpx_status peer_once(void)
{
	uint64_t rate;

	return ceiling_gpu_peer(0, 1, &rate);
}

static void engines_fail_cleanly(void **state)
{
	static const struct {
		const char *symbol;
		unsigned nth;
		tcpx_status (*once)(void);
	} cases[] = {
		{"cuMemHostAlloc", 1, copy_once},
		{"cuMemAlloc", 1, copy_once},
		{"cuMemcpyAsync", 2, copy_once},
		{"cuStreamCreateWithPriority", 1, copy_once},
		{"cuStreamSynchronize", 1, copy_once},
		{"cuCtxPushCurrent", 1, copy_once},
		{"cuMemAlloc", 1, peer_once},
		{"cuMemAlloc", 2, peer_once},
		{"cuMemcpyPeerAsync", 1, peer_once},
		{"cuStreamCreateWithPriority", 1, peer_once},
		{"cuStreamSynchronize", 1, peer_once},
		{"cuCtxEnablePeerAccess", 1, peer_once},
		{"cuDevicePrimaryCtxRetain", 2, peer_once},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		tcpx_status status;

		assert_int_equal(fake.fail_call(cases[i].symbol, cases[i].nth, CUDA_ERR_UNKNOWN),
				 0);
		status = cases[i].once();
		fake.fail_call(cases[i].symbol, 1, CUDA_OK);
		if (status == TCPX_OK || error_last()->status != status)
			fail_msg("%s %u: not told", cases[i].symbol, cases[i].nth);
		if (fake.live(NULL))
			fail_msg("%s %u: something is left", cases[i].symbol, cases[i].nth);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_not_there_is_named),
		cmocka_unit_test(the_cpu_finds_every_wrong_byte),
		cmocka_unit_test(kernels_get_the_layout_as_it_is),
		cmocka_unit_test(every_failure_ends_cleanly),
		cmocka_unit_test(engines_have_rates),
		cmocka_unit_test(engines_fail_cleanly),
	};

	if (setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1) || fakecuda_open(FAKECUDA, &fake))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
