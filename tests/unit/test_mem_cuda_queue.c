/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of one direction of a GPU: which copies go together, and that none is left behind. */
#include <stdlib.h>

#include "base/rng.h"
#include "mem/cuda_queue.h"
#include "unit.h"

#define GROUP (4ull << 20)
#define SLICE (512u << 10)
#define MANY 8192u
#define BASE 0x10000000ull

struct job {
	struct mem_copy copy;
	uint32_t age, group; /* counted from 1; 0: not yet */
};

static void job_push(struct cuda_queue *queue, struct job *job, uint64_t at, uint64_t bytes,
		     uint32_t pieces)
{
	job->copy.slot = (void *)(uintptr_t)(BASE + at);
	job->copy.bytes = bytes;
	job->copy.npieces = pieces;
	job->copy.owner = job;
	mem_queue_push(queue, &job->copy);
}

static struct job *job_of(struct mem_copy *copy)
{
	return copy->owner;
}

/* Two blocks of 8 slices that arrived in turns and out of order: each is one group. */
static void blocks_come_out_whole(void **state)
{
	static const uint8_t order[16] = {11, 3, 9, 1, 14, 0, 7, 12, 2, 15, 5, 8, 4, 13, 6, 10};
	struct cuda_queue queue = {NULL};
	struct job jobs[16] = {0};

	(void)state;
	for (unsigned i = 0; i < 16; i++)
		job_push(&queue, &jobs[i], order[i] * (uint64_t)SLICE + order[i] / 8 * GROUP, SLICE,
			 1);
	mem_queue_take(&queue);
	for (unsigned block = 2; block-- > 0;) {
		struct mem_copy *copy = mem_queue_group(&queue, GROUP, 32);

		for (unsigned i = 0; i < 8; i++, copy = copy->next)
			assert_int_equal((uintptr_t)copy->slot - BASE,
					 (block * 8 + i) * SLICE + block * GROUP);
		assert_null(copy);
	}
	assert_null(queue.first);
	assert_null(queue.last);
}

/* A block that is there goes before a slice that is older; in its turn the slice goes as well. */
static void longest_goes_first(void **state)
{
	enum { BLOCKS = 6, COUNT = 1 + BLOCKS * 8 };
	struct cuda_queue queue = {NULL};
	struct job jobs[COUNT] = {0};
	unsigned groups = 0, lone = 0;

	(void)state;
	job_push(&queue, &jobs[0], 2 * BLOCKS * (uint64_t)GROUP, SLICE, 1);
	for (unsigned i = 1; i < COUNT; i++)
		job_push(&queue, &jobs[i],
			 (i - 1) / 8 * 2ull * GROUP + (i - 1) % 8 * (uint64_t)SLICE, SLICE, 1);
	mem_queue_take(&queue);
	while (queue.first) {
		struct mem_copy *copy = mem_queue_group(&queue, GROUP, 32);

		groups++;
		for (; copy; copy = copy->next)
			if (job_of(copy) == &jobs[0])
				lone = groups;
	}
	assert_int_equal(lone, 5);
}

/* A stream's slices in two stretches, of which the later one is longer: they go in their order. */
static void long_stretches_go_by_age(void **state)
{
	enum { FIRST = 8, COUNT = FIRST + 16 };
	struct cuda_queue queue = {NULL};
	struct job jobs[COUNT] = {0};
	unsigned next = 0;

	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		job_push(&queue, &jobs[i], (i < FIRST ? 2 * COUNT + i : i) * (uint64_t)SLICE, SLICE,
			 1);
	mem_queue_take(&queue);
	while (queue.first) {
		struct mem_copy *copy = mem_queue_group(&queue, GROUP, 32);

		for (; copy; copy = copy->next)
			assert_ptr_equal(job_of(copy), &jobs[next++]);
	}
	assert_int_equal(next, COUNT);
}

static void one_that_is_too_large_goes_alone(void **state)
{
	struct cuda_queue queue = {NULL};
	struct job jobs[3] = {0};

	(void)state;
	job_push(&queue, &jobs[0], 0, 3 * GROUP, 1);
	job_push(&queue, &jobs[1], 3 * GROUP, 16, 100);
	job_push(&queue, &jobs[2], 3 * GROUP + 16, 16, 1);
	mem_queue_take(&queue);
	for (unsigned i = 0; i < 3; i++) {
		struct mem_copy *copy = mem_queue_group(&queue, GROUP, 32);

		assert_ptr_equal(job_of(copy), &jobs[i]);
		assert_null(copy->next);
	}
	assert_null(queue.first);
}

/* Small ones: as many as there is room for, in the order of their slots. */
static void small_ones_fill_a_group(void **state)
{
	enum { COUNT = 1000 };
	static struct job jobs[COUNT];
	struct cuda_queue queue = {NULL};
	struct mem_copy *copy;

	(void)state;
	memset(jobs, 0, sizeof(jobs));
	for (unsigned i = 0; i < COUNT; i++)
		job_push(&queue, &jobs[i], i * 7919 % COUNT * 4096ull, 4096, 1);
	mem_queue_take(&queue);
	copy = mem_queue_group(&queue, GROUP, MANY);
	for (unsigned i = 0; i < COUNT; i++, copy = copy->next)
		assert_int_equal((uintptr_t)copy->slot - BASE, i * 4096);
	assert_null(copy);
	assert_null(queue.first);
}

/* Random copies, pushed now and then: each comes out once, groups have their limits and their
 * order, and the oldest waits for four others at most. */
static void random_groups(void **state, uint64_t seed)
{
	enum { COUNT = 600 };
	struct job *jobs = calloc(COUNT, sizeof(*jobs));
	struct cuda_queue queue = {NULL};
	uint32_t pushed = 0, out = 0, oldest = 0, group = 0, passed = 0;
	uint32_t most;
	struct rng rng;

	(void)state;
	assert_non_null(jobs);
	rng_seed(&rng, seed);
	most = rng_one_in(&rng, 2) ? 32 : MANY;
	while (out < COUNT) {
		uint64_t bytes = 0, pieces = 0, slot = 0;
		struct mem_copy *copy;
		uint32_t n = 0;

		for (uint64_t more = rng_below(&rng, 120); more && pushed < COUNT; more--) {
			struct job *job = &jobs[pushed];
			uint64_t grain = rng_one_in(&rng, 2) ? SLICE : 4096;

			job->age = pushed++;
			job_push(&queue, job, rng_below(&rng, 100) * grain,
				 rng_one_in(&rng, 50) ? 2 * GROUP : grain,
				 (uint32_t)rng_range(&rng, 1, 40));
		}
		mem_queue_take(&queue);
		if (!queue.first)
			continue;
		group++;
		for (copy = mem_queue_group(&queue, GROUP, most); copy; copy = copy->next) {
			assert_int_equal(job_of(copy)->group, 0);
			job_of(copy)->group = group;
			assert_true((uintptr_t)copy->slot >= slot);
			slot = (uintptr_t)copy->slot;
			bytes += copy->bytes;
			pieces += copy->npieces;
			n++;
		}
		out += n;
		assert_true(n == 1 || (n && bytes <= GROUP && pieces <= most));
		passed = jobs[oldest].group ? 0 : passed + 1;
		assert_true(passed <= 4);
		while (oldest < pushed && jobs[oldest].group)
			oldest++;
	}
	assert_null(queue.first);
	free(jobs);
}

static void random_copies_come_out_once(void **state)
{
	for (uint64_t seed = 1; seed <= 200; seed++)
		random_groups(state, seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_come_out_whole),
		cmocka_unit_test(longest_goes_first),
		cmocka_unit_test(long_stretches_go_by_age),
		cmocka_unit_test(one_that_is_too_large_goes_alone),
		cmocka_unit_test(small_ones_fill_a_group),
		cmocka_unit_test(random_copies_come_out_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
