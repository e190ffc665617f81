/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking by the CPU: what is checked before anything moves, and that right bytes move alone. */
#include "base/error.h"
#include "mem/unpack.h"
#include "unit.h"
#include "unpack_lists.h"

#define PAGE 8192u
#define PAGES 64u
#define POOL ((uint64_t)PAGES * PAGE)
#define POSTED 100000u
#define GUARD 64u

static _Alignas(16) uint8_t pool[POOL];
static uint8_t memory[GUARD + POSTED + GUARD], want[sizeof(memory)];
static struct base_frag frags[MEM_UNPACK_FRAGS + 1];

static struct mem_unpack *open_mode(enum mem_unpack_mode mode)
{
	const struct mem_unpack_opts opts = {.mode = mode, .job_bytes = MEM_UNPACK_JOB_MAX};
	struct mem_unpack *u = NULL;

	assert_int_equal(mem_unpack_open(&opts, &u), TCPX_OK);
	return u;
}

static int group_begin(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	rng_fill(&rng, pool, sizeof(pool));
	return 0;
}

static struct mem_unpack_job job_of(const struct base_frag *list, uint32_t count, uint64_t expect,
				    uint32_t align)
{
	return (struct mem_unpack_job){
		.frags = list,
		.nfrags = count,
		.src = (uintptr_t)pool,
		.src_bytes = POOL,
		.dst = (uintptr_t)memory + GUARD + align,
		.dst_bytes = POSTED - align,
		.expect = expect,
	};
}

static void fresh(void)
{
	memset(memory, 0xa5, sizeof(memory));
	memset(want, 0xa5, sizeof(want));
}

static void expect_status(struct mem_unpack *u, struct mem_unpack_job *job, tcpx_status status)
{
	assert_int_equal(mem_unpack_push(u, job), status);
	if (status != TCPX_OK) {
		assert_int_equal(error_last()->status, status);
		assert_true(error_last()->what[0]);
		return;
	}
	assert_int_equal(mem_unpack_test(u, job), TCPX_OK);
}

static struct unpack_shape random_shape(struct rng *rng)
{
	struct unpack_shape shape = {
		.count = (uint32_t)rng_range(rng, 1, rng_one_in(rng, 3) ? 3 : 300),
		.gaps = rng_one_in(rng, 3),
		.shuffled = rng_one_in(rng, 3),
		.exactly = rng_one_in(rng, 3),
		.skew = rng_one_in(rng, 3) ? 0 : 100,
	};
	uint32_t most = POSTED / 2 / shape.count;

	shape.most = (uint32_t)rng_range(rng, 1, most < 5000 ? most : 5000);
	return shape;
}

static void right_bytes_move_alone(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (int round = 0; round < 200; round++) {
		struct unpack_shape shape = random_shape(&rng);
		uint32_t align = (uint32_t)rng_below(&rng, 16);
		uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, PAGE, frags, &span);
		struct mem_unpack_job job = job_of(frags, shape.count, sum, align);

		fresh();
		mem_unpack_frags(frags, shape.count, pool, want + GUARD + align);
		job.dst_bytes = span;
		expect_status(u, &job, TCPX_OK);
		assert_int_equal(job.moved, 1);
		assert_memory_equal(memory, want, sizeof(memory));
	}
	mem_unpack_close(u);
}

/* Independent of how the engine does it: each byte of the posted memory is counted. */
static int list_good(const struct base_frag *list, uint32_t count, uint64_t posted, uint64_t expect)
{
	static uint8_t hit[4096];
	uint64_t sum = 0;

	memset(hit, 0, sizeof(hit));
	for (uint32_t i = 0; i < count; i++) {
		uint64_t end = list[i].dst + list[i].len;

		if ((uint64_t)list[i].src + list[i].len > POOL || end < list[i].dst || end > posted)
			return 0;
		for (uint64_t k = list[i].dst; k < end; k++)
			if (hit[k]++)
				return 0;
		sum += list[i].len;
	}
	return sum == expect;
}

/* Lists of which about half are good; the verdict is that of a count of every byte. */
static void every_verdict_is_right(void **state)
{
	static const uint64_t far[] = {UINT64_MAX, UINT64_MAX - 7, 1ull << 63, 1ull << 32, 4000};
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	unsigned good = 0, bad = 0;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	for (int round = 0; round < 6000; round++) {
		struct unpack_shape shape = {.count = (uint32_t)rng_range(&rng, 1, 12),
					     .most = 60,
					     .gaps = rng_one_in(&rng, 2),
					     .shuffled = rng_one_in(&rng, 2)};
		uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, PAGE, frags, &span);
		uint64_t posted = span;
		struct base_frag *f = &frags[rng_below(&rng, shape.count)];
		struct mem_unpack_job job;

		switch (rng_below(&rng, 12)) {
		case 0:
			f->dst += rng_below(&rng, 3) - 1; /* by one, to either side */
			break;
		case 1:
			f->dst = far[rng_below(&rng, 5)];
			break;
		case 2:
			f->src = (uint32_t)((rng_one_in(&rng, 2) ? POOL : UINT32_MAX) -
					    rng_below(&rng, 61));
			break;
		case 3:
			f->len = rng_one_in(&rng, 2) ? UINT32_MAX : f->len + 1;
			break;
		case 4:
			sum += rng_below(&rng, 3) - 1;
			break;
		case 5:
			posted -= rng_below(&rng, 3);
			break;
		case 6:
			sum -= f->len;
			f->len = 0;
			break;
		}
		job = job_of(frags, shape.count, sum, 0);
		job.dst_bytes = posted;
		fresh();
		if (list_good(frags, shape.count, posted, sum)) {
			mem_unpack_frags(frags, shape.count, pool, want + GUARD);
			expect_status(u, &job, TCPX_OK);
			good++;
		} else {
			expect_status(u, &job,
				      sum > MEM_UNPACK_JOB_MAX ? TCPX_ERR_LIMIT : TCPX_ERR_CORRUPT);
			bad++;
		}
		assert_memory_equal(memory, want, sizeof(memory));
	}
	print_message("%u good, %u bad\n", good, bad);
	assert_true(good > 2000 && bad > 1000);
	mem_unpack_close(u);
}

static void limits_are_kept(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	struct mem_unpack_job job;

	(void)state;
	for (uint32_t i = 0; i <= MEM_UNPACK_FRAGS; i++)
		frags[i] = (struct base_frag){i, 1, i};
	job = job_of(frags, MEM_UNPACK_FRAGS + 1, MEM_UNPACK_FRAGS + 1, 0);
	expect_status(u, &job, TCPX_ERR_LIMIT);
	job.nfrags = (1ull << 32) + 1; /* the plugin's count has 64 bits */
	expect_status(u, &job, TCPX_ERR_LIMIT);
	job = job_of(frags, MEM_UNPACK_FRAGS, MEM_UNPACK_FRAGS, 0);
	expect_status(u, &job, TCPX_OK);
	job = job_of(frags, 1, MEM_UNPACK_JOB_MAX + 1, 0);
	expect_status(u, &job, TCPX_ERR_LIMIT);
	job = job_of(frags, 1, 1, 0);
	job.src += 8;
	expect_status(u, &job, TCPX_ERR_INVALID);
	job = job_of(frags, 1, 1, 0);
	job.dst = UINT64_MAX - 3;
	job.dst_bytes = 5;
	expect_status(u, &job, TCPX_ERR_INVALID);
	job = job_of(frags, 1, 1, 0);
	job.src_bytes = UINT64_MAX;
	expect_status(u, &job, TCPX_ERR_INVALID);
	job = job_of(NULL, 1, 1, 0);
	expect_status(u, &job, TCPX_ERR_INVALID);
	mem_unpack_close(u);
}

static void bad_options_are_refused(void **state)
{
	struct mem_unpack_opts opts = {.mode = MEM_UNPACK_CPU};
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(mem_unpack_open(&opts, &u), TCPX_ERR_INVALID);
	opts.job_bytes = MEM_UNPACK_JOB_MAX + 1;
	assert_int_equal(mem_unpack_open(&opts, &u), TCPX_ERR_INVALID);
	opts.job_bytes = 1;
	opts.mode = (enum mem_unpack_mode)9;
	assert_int_equal(mem_unpack_open(&opts, &u), TCPX_ERR_INVALID);
	mem_unpack_close(NULL);
}

/* What lies in the plugin's memory after the check is not what runs. */
static void a_list_is_looked_at_once(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	struct base_frag list[2] = {{0, 100, 0}, {PAGE, 50, 100}};
	struct mem_unpack_job job = job_of(list, 2, 150, 0);

	(void)state;
	fresh();
	mem_unpack_frags(list, 2, pool, want + GUARD);
	assert_int_equal(mem_unpack_push(u, &job), TCPX_OK);
	memset(list, 0xff, sizeof(list));
	assert_int_equal(mem_unpack_test(u, &job), TCPX_OK);
	assert_memory_equal(memory, want, sizeof(memory));
	mem_unpack_close(u);
}

/* A refused job leaves nothing in the launch that others wait for. */
static void a_refused_job_is_not_in_the_way(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	const struct base_frag one[] = {{0, 100, 0}}, two[] = {{PAGE, 100, 100}};
	const struct base_frag bad[] = {{0, 60, 1000}, {100, 60, 1030}};
	struct mem_unpack_job jobs[] = {job_of(one, 1, 100, 0), job_of(bad, 2, 120, 0),
					job_of(two, 1, 100, 0)};
	struct mem_unpack_counts counts;

	(void)state;
	fresh();
	mem_unpack_frags(one, 1, pool, want + GUARD);
	mem_unpack_frags(two, 1, pool, want + GUARD);
	assert_int_equal(mem_unpack_push(u, &jobs[0]), TCPX_OK);
	assert_int_equal(mem_unpack_push(u, &jobs[1]), TCPX_ERR_CORRUPT);
	assert_int_equal(mem_unpack_push(u, &jobs[2]), TCPX_OK);
	mem_unpack_flush(u);
	assert_int_equal(mem_unpack_test(u, &jobs[2]), TCPX_OK);
	assert_int_equal(mem_unpack_test(u, &jobs[0]), TCPX_OK);
	assert_memory_equal(memory, want, sizeof(memory));
	mem_unpack_counts(u, &counts);
	assert_int_equal(counts.jobs, 2);
	assert_int_equal(counts.launches, 1);
	assert_int_equal(counts.bytes, 200);
	mem_unpack_close(u);
}

static void empty_messages_end_at_once(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	const struct base_frag nothing = {0, 0, 0};
	struct mem_unpack_job none = job_of(NULL, 0, 0, 0), zero = job_of(&nothing, 1, 0, 0);
	struct mem_unpack_counts counts;

	(void)state;
	expect_status(u, &none, TCPX_OK);
	expect_status(u, &zero, TCPX_OK);
	assert_int_equal(mem_unpack_test(u, &none), TCPX_OK);
	mem_unpack_counts(u, &counts);
	assert_int_equal(counts.launches, 0);
	none.expect = 1;
	expect_status(u, &none, TCPX_ERR_CORRUPT);
	mem_unpack_close(u);
}

static void mode_none_checks_and_says_so(void **state)
{
	struct mem_unpack *u = open_mode(MEM_UNPACK_NONE);
	const struct base_frag one = {0, 100, 0};
	struct mem_unpack_job job = job_of(&one, 1, 100, 0);

	(void)state;
	fresh();
	expect_status(u, &job, TCPX_OK);
	assert_int_equal(job.moved, 0);
	assert_memory_equal(memory, want, sizeof(memory));
	job.expect = 99;
	expect_status(u, &job, TCPX_ERR_CORRUPT);
	mem_unpack_close(u);
}

/* More than a launch has room for: the first ones go ahead by themselves. */
static void a_full_launch_goes_by_itself(void **state)
{
	static struct mem_unpack_job jobs[6];
	struct mem_unpack *u = open_mode(MEM_UNPACK_CPU);
	struct mem_unpack_counts counts;

	(void)state;
	for (uint32_t i = 0; i < MEM_UNPACK_FRAGS; i++)
		frags[i] = (struct base_frag){i, 1, i};
	for (int i = 0; i < 6; i++) {
		jobs[i] = job_of(frags, MEM_UNPACK_FRAGS, MEM_UNPACK_FRAGS, 0);
		jobs[i].dst += (uint64_t)i * MEM_UNPACK_FRAGS;
		jobs[i].dst_bytes = MEM_UNPACK_FRAGS;
		assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
	}
	for (int i = 5; i >= 0; i--)
		assert_int_equal(mem_unpack_test(u, &jobs[i]), TCPX_OK);
	for (uint32_t i = 0; i < 6 * MEM_UNPACK_FRAGS; i++)
		assert_int_equal(memory[GUARD + i], pool[i % MEM_UNPACK_FRAGS]);
	mem_unpack_counts(u, &counts);
	assert_int_equal(counts.launches, 2); /* 4 and 2: 8192 pieces are the most */
	mem_unpack_close(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_bytes_move_alone),
		cmocka_unit_test(every_verdict_is_right),
		cmocka_unit_test(limits_are_kept),
		cmocka_unit_test(bad_options_are_refused),
		cmocka_unit_test(a_list_is_looked_at_once),
		cmocka_unit_test(a_refused_job_is_not_in_the_way),
		cmocka_unit_test(empty_messages_end_at_once),
		cmocka_unit_test(mode_none_checks_and_says_so),
		cmocka_unit_test(a_full_launch_goes_by_itself),
	};

	return cmocka_run_group_tests(tests, group_begin, NULL);
}
