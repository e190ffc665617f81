/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded kernels' CPU references for the driver's stand-in: FAKECUDA_KERNELS names it. */
#include "check_kernel.h"
#include "fakecuda/fakecuda.h"
#include "mem/copy.h"

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
	(void)grid;
	(void)block;
	check_kernel_fill(params[0], at);
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

static void check_layout(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	(void)check_kernel_layout(params[0], at);
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
