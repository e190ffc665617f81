/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of unpacking on the stand-in for a GPU share: memory of two devices, jobs, ends. */
#ifndef UNIT_UNPACK_RIG_H
#define UNIT_UNPACK_RIG_H

#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"
#include "fakecuda/fakecuda.h"
#include "mem/unpack.h"
#include "sys/cuda.h"
#include "unit.h"
#include "unpack_lists.h"

#define PAGE 8192u
#define PAGES 32u
#define POOL ((uint64_t)PAGES * PAGE)
#define MEMORY 262144u
#define JOBS 6u
#define FRAGS 40u

#define MODE_FIRST MEM_UNPACK_KERNEL

static struct fakecuda fake;
static const struct sys_cuda *api;
static struct sys_cuda_gpu *gpus[2];
static cuda_ptr pool, memory, far; /* far: on device 1 */
static uint8_t pool_image[POOL], want[MEMORY], have[MEMORY];
static struct base_frag lists[JOBS][FRAGS];
static struct mem_unpack_job jobs[JOBS];
static struct rng rng;
static unsigned held;

static inline cuda_ptr gpu_alloc(struct sys_cuda_gpu *gpu, size_t bytes)
{
	struct sys_cuda_scope scope;
	cuda_ptr ptr = 0;

	if (sys_cuda_push(gpu, &scope) != TCPX_OK)
		return 0;
	(void)api->mem_alloc(&ptr, bytes);
	sys_cuda_pop(&scope);
	return ptr;
}

static inline int group_begin(void **state)
{
	(void)state;
	if (setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1) || fakecuda_open(FAKECUDA, &fake))
		return -1;
	api = sys_cuda_driver();
	if (!api || sys_cuda_get(0, &gpus[0]) || sys_cuda_get(1, &gpus[1]))
		return -1;
	pool = gpu_alloc(gpus[0], POOL);
	memory = gpu_alloc(gpus[0], MEMORY);
	far = gpu_alloc(gpus[1], MEMORY);
	rng_seed(&rng, 9);
	rng_fill(&rng, pool_image, POOL);
	held = fake.live(NULL);
	return pool && memory && far ? fake.write(pool, pool_image, POOL) : -1;
}

static inline tcpx_status open_mode(enum mem_unpack_mode mode, struct mem_unpack **out)
{
	const struct mem_unpack_opts opts = {.mode = mode, .device = 0, .job_bytes = MEMORY};

	return mem_unpack_open(&opts, out);
}

/* Job after job at odd places of the destination, which is poisoned; want is what it becomes. */
static inline void make_jobs(cuda_ptr to)
{
	uint64_t at = 0;

	memset(want, 0xa5, MEMORY);
	for (unsigned i = 0; i < JOBS; i++) {
		struct unpack_shape shape = {.count = (uint32_t)rng_range(&rng, 1, FRAGS),
					     .most = (uint32_t)rng_range(&rng, 1, 900),
					     .gaps = rng_one_in(&rng, 3),
					     .shuffled = rng_one_in(&rng, 3),
					     .skew = 50};
		uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, PAGE, lists[i], &span);

		at += rng_below(&rng, 30);
		jobs[i] = (struct mem_unpack_job){.frags = lists[i],
						  .nfrags = shape.count,
						  .src = pool,
						  .src_bytes = POOL,
						  .dst = to + at,
						  .dst_bytes = span,
						  .expect = sum};
		mem_unpack_frags(lists[i], shape.count, pool_image, want + at);
		at += span;
		assert_true(at <= MEMORY);
	}
	memset(have, 0xa5, MEMORY);
	assert_int_equal(fake.write(to, have, MEMORY), 0);
}

static inline void check_memory(cuda_ptr at)
{
	assert_int_equal(fake.read(at, have, MEMORY), 0);
	assert_memory_equal(have, want, MEMORY);
}

static inline tcpx_status end_of(struct mem_unpack *u, struct mem_unpack_job *job)
{
	tcpx_status status;

	while ((status = mem_unpack_test(u, job)) == TCPX_IN_PROGRESS)
		;
	assert_int_equal(mem_unpack_test(u, job), status);
	assert_int_equal(job->moved, status == TCPX_OK);
	return status;
}

static inline void close_clean(struct mem_unpack *u)
{
	cuda_ctx now;

	mem_unpack_close(u);
	assert_int_equal(fake.settle(held), held);
	assert_int_equal(api->ctx_current(&now), CUDA_OK);
	assert_null(now);
}

#endif
