/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded kernels' CPU references for the driver's stand-in: FAKECUDA_KERNELS names it. */
#include "check_abi.h"
#include "fakecuda/fakecuda.h"
#include "mem/copy.h"
#include "perf_layout.h"
#include "perf_pattern.h"

static const struct fakecuda *fake;

__attribute__((visibility("default"))) void fakecuda_kernels(const struct fakecuda *controls);

static void *at(uint64_t addr, uint64_t bytes)
{
	return fake->translate(addr, bytes);
}

static void gather(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	mem_copy_cpu(params[0], 1, at);
}

static void scatter(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	mem_copy_cpu(params[0], 0, at);
}

static void fill(void **params, unsigned grid, unsigned block)
{
	const struct gpu_check_args *a = params[0];
	void *buf = at(a->buf, a->bytes);

	(void)grid;
	(void)block;
	if (a->poison)
		memset(buf, PERF_POISON, a->bytes);
	else
		perf_pattern_fill(buf, a->pos, a->bytes, a->key);
}

static void check(void **params, unsigned grid, unsigned block)
{
	const struct gpu_check_args *a = params[0];
	struct gpu_check_result *result = at(a->result, sizeof(*result));
	const void *buf = at(a->buf, a->bytes);
	size_t first = 0;

	(void)grid;
	(void)block;
	result->wrong += a->poison ? perf_poison_check(buf, a->bytes, &first)
				   : perf_pattern_check(buf, a->pos, a->bytes, a->key, &first);
	if (result->wrong && first < result->first)
		result->first = first;
}

static tcpx_status go_on(const void *arg)
{
	(void)arg;
	return TCPX_OK;
}

static void check_layout(void **params, unsigned grid, unsigned block)
{
	static const struct perf_leave leave = {go_on, NULL};
	const struct gpu_check_layout_args *a = params[0];
	struct gpu_check_result *result = at(a->result, sizeof(*result));
	uint64_t table = a->slots * sizeof(uint32_t);
	struct perf_layout layout = {
		.working_set = a->bytes,
		.piece = a->piece,
		.stride = a->stride,
		.batch = 1,
		.transfers = a->slots,
		.dst_piece = a->dst_piece ? at(a->dst_piece, table) : NULL,
		.src_slot = a->src_slot ? at(a->src_slot, table) : NULL,
	};
	struct perf_wrong wrong;

	(void)grid;
	(void)block;
	if (perf_layout_check(&layout, at(a->buf, a->bytes), a->with_data, a->key, &leave,
			      &wrong) != TCPX_OK)
		return;
	result->wrong += wrong.count;
	if (wrong.count && wrong.first < result->first)
		result->first = wrong.first;
}

void fakecuda_kernels(const struct fakecuda *controls)
{
	static const size_t layout_bytes[] = {sizeof(struct gpu_check_layout_args)};
	static const size_t copy_bytes[] = {sizeof(struct mem_copy_args)};
	static const size_t check_bytes[] = {sizeof(struct gpu_check_args)};

	fake = controls;
	(void)controls->kernel_add("mem_gather", gather, copy_bytes, 1);
	(void)controls->kernel_add("mem_scatter", scatter, copy_bytes, 1);
	(void)controls->kernel_add("perf_fill", fill, check_bytes, 1);
	(void)controls->kernel_add("perf_check", check, check_bytes, 1);
	(void)controls->kernel_add("perf_check_layout", check_layout, layout_bytes, 1);
}
