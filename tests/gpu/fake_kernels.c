/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded kernels' CPU references for the driver's stand-in: FAKECUDA_KERNELS names it. */
#include <stdatomic.h>
#include <time.h>

#include "beside_abi.h"
#include "check_kernel.h"
#include "fakecuda/fakecuda.h"
#include "mem/copy.h"
#include "mem/unpack.h"

#define DEVICES 16
#define SMS 132 /* as the stand-in says */

static const struct fakecuda *fake;
static _Atomic int taken[DEVICES]; /* SMs, each held as a whole */

__attribute__((visibility("default"))) void fakecuda_kernels(const struct fakecuda *controls);

static void *at(uint64_t addr, uint64_t bytes)
{
	return fake->translate(addr, bytes);
}

/* A kernel that waits has no event to wait for; here it leaves the CPU to others. */
static void nap(void)
{
	const struct timespec ts = {0, 100000};

	nanosleep(&ts, NULL);
}

static int sm_take(void)
{
	_Atomic int *sms = &taken[fake->device() % DEVICES];
	int now = atomic_load(sms);

	while (now < SMS)
		if (atomic_compare_exchange_weak(sms, &now, now + 1))
			return 1;
	return 0;
}

static void sm_give(int count)
{
	atomic_fetch_sub(&taken[fake->device() % DEVICES], count);
}

/* One SM is room enough for all the blocks of a launch, one after the other. */
static void copy(void **params, int to_slot)
{
	while (!sm_take())
		nap();
	mem_copy_cpu(params[0], to_slot, at);
	sm_give(1);
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

/* As a copy: one SM does all. */
static void unpack(const struct mem_unpack_args *args, const struct base_frag *pieces)
{
	while (!sm_take())
		nap();
	mem_unpack_cpu(args, pieces, at);
	sm_give(1);
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

/* beside_meet: each block has an SM to itself. */
static void meet(void **params, unsigned grid, unsigned block)
{
	const struct beside_args *args = params[0];
	struct beside_mark *mark = at(args->mark, sizeof(*mark));
	unsigned here = 0;

	(void)block;
	while (!atomic_load(&mark->stop) && (args->stay || here < grid)) {
		if (here == grid || !sm_take()) {
			nap();
			continue;
		}
		atomic_store(&mark->here[here++], 1);
		if (here == grid)
			atomic_store(&mark->all, 1);
	}
	sm_give((int)here);
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
	static const size_t inline_bytes[] = {sizeof(struct mem_unpack_inline_args)};
	static const size_t list_bytes[] = {sizeof(struct mem_unpack_args)};
	static const size_t check_bytes[] = {sizeof(struct gpu_check_args)};
	static const size_t meet_bytes[] = {sizeof(struct beside_args)};

	fake = controls;
	(void)controls->kernel_add("mem_gather", gather, copy_bytes, 1);
	(void)controls->kernel_add("mem_scatter", scatter, copy_bytes, 1);
	(void)controls->kernel_add("mem_unpack_inline", unpack_inline, inline_bytes, 1);
	(void)controls->kernel_add("mem_unpack_list", unpack_list, list_bytes, 1);
	(void)controls->kernel_add("beside_meet", meet, meet_bytes, 1);
	(void)controls->kernel_add("perf_fill", fill, check_bytes, 1);
	(void)controls->kernel_add("perf_check", check, check_bytes, 1);
	(void)controls->kernel_add("perf_check_layout", check_layout, layout_bytes, 1);
}
