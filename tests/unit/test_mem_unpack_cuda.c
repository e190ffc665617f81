/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking on the stand-in for a GPU: modes, fusing, ends, refusals, relay. */
#include "unpack_rig.h"

static void every_mode_moves_right_bytes_alone(void **state)
{
	(void)state;
	for (int mode = MODE_FIRST; mode <= MEM_UNPACK_HOST; mode++) {
		struct mem_unpack *u;

		assert_int_equal(open_mode((enum mem_unpack_mode)mode, &u), TCPX_OK);
		for (int round = 0; round < 60; round++) {
			make_jobs(memory);
			for (unsigned i = 0; i < JOBS; i++) {
				assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
				memset(lists[i], 0xff, sizeof(lists[i])); /* the plugin's again */
				if (rng_one_in(&rng, 2))
					mem_unpack_flush(u);
			}
			for (unsigned i = 0; i < JOBS; i++)
				assert_int_equal(end_of(u, &jobs[i]), TCPX_OK);
			check_memory(memory);
		}
		close_clean(u);
	}
}

/* Few pieces travel in the launch, many in a list; a fragment longer than a warp's step is cut. */
static void lists_of_every_length(void **state)
{
	static const uint32_t counts[] = {1, 247, 248, 249, 1000, 2047};
	static struct base_frag many[MEM_UNPACK_FRAGS];
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(open_mode(MEM_UNPACK_KERNEL, &u), TCPX_OK);
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct unpack_shape shape = {
			.count = counts[i], .most = i ? 120 : 8000, .exactly = 1, .shuffled = 1};
		uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, PAGE, many, &span);

		for (uint32_t k = 0; i == 3 && k < 8; k++) { /* 8 of two steps each */
			sum += 6000 - many[k].len;
			many[k] = (struct base_frag){k * PAGE, 6000, span};
			span += 6000;
		}
		jobs[0] = (struct mem_unpack_job){.frags = many,
						  .nfrags = counts[i],
						  .src = pool,
						  .src_bytes = POOL,
						  .dst = memory + 7,
						  .dst_bytes = span,
						  .expect = sum};
		memset(want, 0xa5, MEMORY);
		assert_int_equal(fake.write(memory, want, MEMORY), 0);
		mem_unpack_frags(many, counts[i], pool_image, want + 7);
		assert_int_equal(mem_unpack_push(u, &jobs[0]), TCPX_OK);
		assert_int_equal(end_of(u, &jobs[0]), TCPX_OK);
		check_memory(memory);
	}
	close_clean(u);
}

/* The list of a launch that the GPU has not come to is not written to. */
static void lists_under_way_are_left_alone(void **state)
{
	static struct base_frag many[3][300];
	const struct unpack_shape shape = {.count = 300, .most = 80, .shuffled = 1, .skew = 9};
	struct mem_unpack *u;
	uint64_t at = 0;

	(void)state;
	assert_int_equal(open_mode(MEM_UNPACK_KERNEL, &u), TCPX_OK);
	memset(want, 0xa5, MEMORY);
	assert_int_equal(fake.write(memory, want, MEMORY), 0);
	fake.hold(1);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, PAGE, many[i], &span);

		jobs[i] = (struct mem_unpack_job){.frags = many[i],
						  .nfrags = 300,
						  .src = pool,
						  .src_bytes = POOL,
						  .dst = memory + at,
						  .dst_bytes = span,
						  .expect = sum};
		mem_unpack_frags(many[i], 300, pool_image, want + at);
		at += span;
		assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		mem_unpack_flush(u);
	}
	fake.hold(0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_of(u, &jobs[i]), TCPX_OK);
	check_memory(memory);
	close_clean(u);
}

/* While two launches are under way, what is pushed waits and then goes as one. */
static void what_waits_goes_as_one(void **state)
{
	struct mem_unpack_counts counts;
	struct mem_unpack *u;
	uint64_t launches;

	(void)state;
	assert_int_equal(open_mode(MEM_UNPACK_KERNEL, &u), TCPX_OK);
	make_jobs(memory);
	launches = fake.calls("cuLaunchKernel");
	fake.hold(1);
	for (unsigned i = 0; i < JOBS; i++) {
		assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		mem_unpack_flush(u);
	}
	assert_int_equal(fake.calls("cuLaunchKernel"), launches + 2);
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(mem_unpack_test(u, &jobs[i]), TCPX_IN_PROGRESS);
	fake.hold(0);
	for (unsigned i = JOBS; i-- > 0;)
		assert_int_equal(end_of(u, &jobs[i]), TCPX_OK);
	assert_int_equal(fake.calls("cuLaunchKernel"), launches + 3);
	mem_unpack_counts(u, &counts);
	assert_int_equal(counts.jobs, JOBS);
	assert_int_equal(counts.launches, 3);
	check_memory(memory);
	close_clean(u);
}

/* A driver without its compiler takes no PTX: said with what to do, and nothing is left behind. */
static void a_driver_may_not_compile(void **state)
{
	static const struct {
		int result;
		const char *words;
	} rows[] = {{CUDA_ERR_JIT_NOT_FOUND, "does not compile their PTX"},
		    {CUDA_ERR_JIT_DISABLED, "does not compile their PTX"},
		    {CUDA_ERR_UNSUPPORTED_PTX_VERSION, "no unpack kernel in this build runs on"},
		    {CUDA_ERR_NO_BINARY_FOR_GPU, "no unpack kernel in this build runs on"}};
	struct mem_unpack *u;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(fake.fail_call("cuModuleLoadData", 1, rows[i].result), 0);
		assert_int_equal(open_mode(MEM_UNPACK_KERNEL, &u), TCPX_ERR_UNSUPPORTED);
		assert_non_null(strstr(error_last()->what, rows[i].words));
		assert_int_equal(fake.settle(held), held);
	}
}

/* No room: said so, and room again when an older launch is over. */
static void no_room_is_said(void **state)
{
	static struct base_frag many[MEM_UNPACK_FRAGS];
	static struct mem_unpack_job all[24];
	struct mem_unpack *u;
	tcpx_status status;
	unsigned n = 0;

	(void)state;
	for (uint32_t i = 0; i < MEM_UNPACK_FRAGS; i++)
		many[i] = (struct base_frag){i, 1, i};
	assert_int_equal(open_mode(MODE_FIRST, &u), TCPX_OK);
	fake.hold(1);
	do { /* launches write beside each other */
		assert_true(n < 23 && (n + 1) * MEM_UNPACK_FRAGS <= MEMORY);
		all[n] = (struct mem_unpack_job){.frags = many,
						 .nfrags = MEM_UNPACK_FRAGS,
						 .src = pool,
						 .src_bytes = POOL,
						 .dst = memory + n * MEM_UNPACK_FRAGS,
						 .dst_bytes = MEM_UNPACK_FRAGS,
						 .expect = MEM_UNPACK_FRAGS};
		status = mem_unpack_push(u, &all[n++]);
	} while (status == TCPX_OK);
	assert_int_equal(status, TCPX_ERR_AGAIN);
	assert_int_equal(n, 3 * 4 + 1); /* three launches of 8192 pieces */
	fake.hold(0);
	assert_int_equal(end_of(u, &all[0]), TCPX_OK);
	mem_unpack_flush(u);
	assert_int_equal(mem_unpack_push(u, &all[n - 1]), TCPX_OK);
	for (unsigned i = 1; i < n; i++)
		assert_int_equal(end_of(u, &all[i]), TCPX_OK);
	close_clean(u);
}

/* Done is said only when the stream is behind the job: pages that are given back are written. */
static void done_means_behind_the_stream(void **state)
{
	(void)state;
	for (int mode = MODE_FIRST; mode <= MEM_UNPACK_HOST; mode++) {
		struct mem_unpack *u;

		assert_int_equal(open_mode((enum mem_unpack_mode)mode, &u), TCPX_OK);
		make_jobs(memory);
		fake.hold(1);
		for (unsigned i = 0; i < JOBS; i++)
			assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		mem_unpack_flush(u);
		for (unsigned i = 0; i < 20000; i++)
			assert_int_equal(mem_unpack_test(u, &jobs[i % JOBS]), TCPX_IN_PROGRESS);
		fake.hold(0);
		assert_int_equal(end_of(u, &jobs[JOBS - 1]), TCPX_OK);
		check_memory(memory); /* one launch: all of it, without another test */
		close_clean(u);
	}
}

static uint64_t work_calls(void)
{
	return fake.calls("cuLaunchKernel") + fake.calls("cuMemcpyAsync") +
	       fake.calls("cuStreamWriteValue32");
}

static void bad_lists_never_reach_the_gpu(void **state)
{
	static const struct base_frag bad[][2] = {
		{{0, 100, 0}, {0, 100, 99}},			/* overlap */
		{{0, 100, 50}, {0, 100, 0}},			/* overlap, the later one first */
		{{0, 100, 0}, {(uint32_t)POOL - 99, 100, 100}}, /* out of the pool */
		{{0, 100, 0}, {UINT32_MAX, 100, 100}},
		{{0, 100, 0}, {0, 100, 101}},		  /* out of what was posted */
		{{0, 100, 0}, {0, 100, UINT64_MAX - 49}}, /* its end wraps */
		{{0, 100, 0}, {0, 99, 100}},		  /* too little */
		{{0, 100, 0}, {0, UINT32_MAX, 100}},
	};

	(void)state;
	for (int mode = MODE_FIRST; mode <= MEM_UNPACK_HOST; mode++) {
		struct mem_unpack *u;
		uint64_t calls;

		assert_int_equal(open_mode((enum mem_unpack_mode)mode, &u), TCPX_OK);
		calls = work_calls();
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			struct mem_unpack_job job = {.frags = bad[i],
						     .nfrags = 2,
						     .src = pool,
						     .src_bytes = POOL,
						     .dst = memory,
						     .dst_bytes = 200,
						     .expect = 200};

			assert_int_equal(mem_unpack_push(u, &job), TCPX_ERR_CORRUPT);
			mem_unpack_flush(u);
		}
		assert_int_equal(work_calls(), calls);
		close_clean(u);
	}
}

/* The pool is one GPU's, the destination another's. */
static void relay_writes_to_a_peer(void **state)
{
	(void)state;
	for (int mode = MODE_FIRST; mode <= MEM_UNPACK_HOST; mode++) {
		struct mem_unpack *u;

		assert_int_equal(open_mode((enum mem_unpack_mode)mode, &u), TCPX_OK);
		assert_int_equal(mem_unpack_reach(u, 0), TCPX_OK);
		fake.fail_call("cuCtxEnablePeerAccess", 1, CUDA_ERR_PEER_ACCESS_UNSUPPORTED);
		assert_int_equal(mem_unpack_reach(u, 1), TCPX_ERR_UNSUPPORTED);
		assert_int_equal(mem_unpack_reach(u, 1), TCPX_OK);
		assert_int_equal(mem_unpack_reach(u, 1), TCPX_OK);
		assert_int_equal(mem_unpack_reach(u, 7), TCPX_ERR_INVALID);
		assert_int_equal(mem_unpack_reach(u, 700), TCPX_ERR_INVALID);
		make_jobs(far);
		for (unsigned i = 0; i < JOBS; i++)
			assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		for (unsigned i = 0; i < JOBS; i++)
			assert_int_equal(end_of(u, &jobs[i]), TCPX_OK);
		check_memory(far);
		close_clean(u);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mode_moves_right_bytes_alone),
		cmocka_unit_test(lists_of_every_length),
		cmocka_unit_test(lists_under_way_are_left_alone),
		cmocka_unit_test(what_waits_goes_as_one),
		cmocka_unit_test(a_driver_may_not_compile),
		cmocka_unit_test(no_room_is_said),
		cmocka_unit_test(done_means_behind_the_stream),
		cmocka_unit_test(bad_lists_never_reach_the_gpu),
		cmocka_unit_test(relay_writes_to_a_peer),
	};

	return cmocka_run_group_tests(tests, group_begin, NULL);
}
