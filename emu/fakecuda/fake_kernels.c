/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CPU references of this project's kernels, which the stand-in for the CUDA driver runs in
 * their place: a library of its own, which it finds in its folder.
 */
#include <time.h>

#include "check_kernel.h"
#include "fakecuda.h"
#include "mem/copy.h"
#include "mem/move.h"
#include "mem/unpack.h"

static const struct fakecuda *fake;

__attribute__((visibility("default"))) void fakecuda_kernels(const struct fakecuda *controls);

static void *at(uint64_t addr, uint64_t bytes)
{
	return fake->translate(addr, bytes);
}

/* One SM is room enough for all the blocks of a launch, one after the other. A kernel that waits
 * for room has no event to wait for. */
static void sm_take(void)
{
	const struct timespec ts = {0, 100000};

	while (!fake->sm_take())
		nanosleep(&ts, NULL);
}

static void copy(void **params, int to_slot)
{
	sm_take();
	mem_copy_cpu(params[0], to_slot, at);
	fake->sm_give(1);
}

static void gather(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	copy(params, 1);
}

static void scatter(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	copy(params, 0);
}

static void move(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	sm_take();
	mem_move_cpu(params[0], at);
	fake->sm_give(1);
}

static void unpack(const struct mem_unpack_args *args, const struct base_frag *pieces)
{
	sm_take();
	mem_unpack_cpu(args, pieces, at);
	fake->sm_give(1);
}

static void unpack_list(void **params, unsigned grid, unsigned block)
{
	const struct mem_unpack_args *args = params[0];

	(void)grid;
	(void)block;
	unpack(args, at(args->pieces, args->count * sizeof(struct base_frag)));
}

static void unpack_inline(void **params, unsigned grid, unsigned block)
{
	const struct mem_unpack_inline_args *whole = params[0];

	(void)grid;
	(void)block;
	unpack(&whole->args, whole->pieces);
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
	static const size_t move_bytes[] = {sizeof(struct mem_move_args)};
	static const size_t inline_bytes[] = {sizeof(struct mem_unpack_inline_args)};
	static const size_t list_bytes[] = {sizeof(struct mem_unpack_args)};
	static const size_t check_bytes[] = {sizeof(struct gpu_check_args)};

	fake = controls;
	(void)controls->kernel_add("mem_gather", gather, copy_bytes, 1);
	(void)controls->kernel_add("mem_scatter", scatter, copy_bytes, 1);
	(void)controls->kernel_add("mem_move", move, move_bytes, 1);
	(void)controls->kernel_add("mem_unpack_inline", unpack_inline, inline_bytes, 1);
	(void)controls->kernel_add("mem_unpack_list", unpack_list, list_bytes, 1);
	(void)controls->kernel_add("perf_fill", fill, check_bytes, 1);
	(void)controls->kernel_add("perf_check", check, check_bytes, 1);
	(void)controls->kernel_add("perf_check_layout", check_layout, layout_bytes, 1);
}
