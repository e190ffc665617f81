/* SPDX-License-Identifier: Apache-2.0 */
/* Memory kinds: host is direct, slow ends copies late, out of order and exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "parts/slow.h"
#include "sys/futex.h"

#define COPIES 200

struct job {
	struct mem_copy copy;
	struct mem_piece pieces[3];
	uint8_t memory[3][100];
	uint8_t slot[300];
	_Atomic int ends;
	unsigned place; /* in the order of ends */
};

static _Atomic uint32_t ended;

static void job_done(struct mem_copy *copy, tcpx_status status)
{
	struct job *job = copy->owner;

	if (status)
		abort();
	job->ends++;
	job->place = ended;
	ended++;
	sys_futex_wake(&ended, 1);
}

static void job_init(struct job *job, int salt)
{
	static const uint64_t lengths[3] = {100, 1, 57};

	memset(job, 0, sizeof(*job));
	for (int i = 0; i < 3; i++) {
		job->pieces[i] = (struct mem_piece){job->memory[i], lengths[i]};
		memset(job->memory[i], salt + i, sizeof(job->memory[i]));
	}
	job->copy = (struct mem_copy){.slot = job->slot,
				      .pieces = job->pieces,
				      .npieces = 3,
				      .done = job_done,
				      .owner = job};
}

static void wait_ended(uint32_t count)
{
	uint32_t now;

	while ((now = ended) < count)
		sys_futex_wait(&ended, now, -1);
}

static void check_slot(const struct job *job, int salt)
{
	assert_int_equal(job->slot[0], (uint8_t)salt);
	assert_int_equal(job->slot[99], (uint8_t)salt);
	assert_int_equal(job->slot[100], (uint8_t)(salt + 1));
	assert_int_equal(job->slot[101], (uint8_t)(salt + 2));
	assert_int_equal(job->slot[157], (uint8_t)(salt + 2));
	assert_int_equal(job->slot[158], 0);
}

static void host_is_direct(void **state)
{
	const struct mem_kind *kind = mem_kind_get(TCPX_MEM_HOST);
	uint64_t id = 7;
	struct job job;
	int word;

	(void)state;
	assert_int_equal(kind->staged, 0);
	assert_int_equal(kind->probe(&word, sizeof(word), 0, &id), TCPX_OK);
	assert_int_equal(id, 0);
	assert_int_equal(kind->probe(&word, sizeof(word), 1, &id), TCPX_ERR_INVALID);
	job_init(&job, 7);
	ended = 0;
	assert_int_equal(kind->fill(&job.copy), TCPX_OK);
	assert_int_equal(job.ends, 1);
	check_slot(&job, 7);
}

static void unknown_kind_is_absent(void **state)
{
	(void)state;
	assert_null(mem_kind_get((enum tcpx_mem_kind)77));
}

static void slow_ends_each_copy_once_out_of_order(void **state)
{
	const struct mem_kind *kind = mem_kind_get(MEM_KIND_TEST);
	struct job *jobs = calloc(COPIES, sizeof(*jobs));
	unsigned swapped = 0;

	(void)state;
	assert_non_null(jobs);
	assert_int_equal(kind->staged, 1);
	ended = 0;
	for (int i = 0; i < COPIES; i++) {
		job_init(&jobs[i], i);
		assert_int_equal(kind->fill(&jobs[i].copy), TCPX_OK);
	}
	wait_ended(COPIES);
	for (int i = 0; i < COPIES; i++) {
		assert_int_equal(jobs[i].ends, 1);
		check_slot(&jobs[i], i);
		swapped += i && jobs[i].place < jobs[i - 1].place;
	}
	assert_true(swapped > 0);

	ended = 0;
	for (int i = 0; i < COPIES; i++) {
		memset(jobs[i].memory, 0, sizeof(jobs[i].memory));
		assert_int_equal(kind->commit(&jobs[i].copy), TCPX_OK);
	}
	wait_ended(COPIES);
	for (int i = 0; i < COPIES; i++) {
		assert_int_equal(jobs[i].ends, 2);
		assert_int_equal(jobs[i].memory[0][99], (uint8_t)i);
		assert_int_equal(jobs[i].memory[1][0], (uint8_t)(i + 1));
		assert_int_equal(jobs[i].memory[1][1], 0);
		assert_int_equal(jobs[i].memory[2][56], (uint8_t)(i + 2));
		assert_int_equal(jobs[i].memory[2][57], 0);
	}
	free(jobs);
}

static void slow_hold_freezes(void **state)
{
	const struct mem_kind *kind = mem_kind_get(MEM_KIND_TEST);
	struct job job, other;

	(void)state;
	ended = 0;
	job_init(&job, 3);
	job_init(&other, 4);
	mem_slow_hold(1);
	assert_int_equal(kind->fill(&job.copy), TCPX_OK);
	assert_int_equal(kind->fill(&other.copy), TCPX_OK);
	assert_true(mem_slow_pending() >= 2);
	/* Longer than any delay: were the hold not there, the copies would end in this time. */
	for (int64_t until = 0; until < 20; until++) {
		_Atomic uint32_t never = 0;
		struct timespec now;

		clock_gettime(CLOCK_MONOTONIC, &now);
		sys_futex_wait(&never, 0, now.tv_sec * 1000000000ll + now.tv_nsec + 50000);
	}
	assert_int_equal(ended, 0);
	assert_int_equal(job.slot[0], 0);
	mem_slow_hold(0);
	wait_ended(2);
	check_slot(&job, 3);
	check_slot(&other, 4);
}

static void slots_are_page_aligned(void **state)
{
	const struct mem_kind *kind = mem_kind_get(MEM_KIND_TEST);
	void *slot = kind->slot_alloc(100000, 0);

	(void)state;
	assert_non_null(slot);
	assert_int_equal((uintptr_t)slot % 4096, 0);
	memset(slot, 1, 100000);
	kind->slot_free(slot, 100000, 0);
	(void)error_set(TCPX_ERR_TIMED_OUT, 0, "another error, from before");
	assert_null(kind->slot_alloc(SIZE_MAX, 0));
	assert_int_equal(error_last()->status, TCPX_ERR_NO_MEMORY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(host_is_direct),
		cmocka_unit_test(unknown_kind_is_absent),
		cmocka_unit_test(slow_ends_each_copy_once_out_of_order),
		cmocka_unit_test(slow_hold_freezes),
		cmocka_unit_test(slots_are_page_aligned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
