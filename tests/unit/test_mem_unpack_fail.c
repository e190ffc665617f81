/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking when the driver fails: clean errors, each job ended once, nothing left. */
#include <sched.h>

#include "unpack_rig.h"

static const char *const symbols[] = {
#define FAIL_SYMBOL(name, symbol, since, params) symbol,
	SYS_CUDA_LIST(FAIL_SYMBOL)
#undef FAIL_SYMBOL
};
#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

/* All that an unpacker does; the driver may fail anywhere. Whether everything went well. */
static int session(enum mem_unpack_mode mode, const char *failing)
{
	struct mem_unpack *u = NULL;
	unsigned good = 0;

	if (open_mode(mode, &u) != TCPX_OK) {
		assert_true(error_last()->status < 0 && error_last()->what[0]);
		return 0;
	}
	good += mem_unpack_reach(u, 1) == TCPX_OK;
	make_jobs(memory);
	for (unsigned i = 0; i < JOBS; i++) {
		tcpx_status status = mem_unpack_push(u, &jobs[i]);

		if (i % 2)
			mem_unpack_flush(u);
		if (status == TCPX_ERR_SYSTEM)
			continue; /* broken by one before */
		if (status != TCPX_OK)
			fail_msg("%s: push says %d", failing, status);
		if (i == 3)
			(void)end_of(u, &jobs[0]);
	}
	for (unsigned i = 0; i < JOBS; i++) {
		if (!jobs[i].state)
			continue;
		if (end_of(u, &jobs[i]) == TCPX_OK)
			good++;
		else
			assert_true(error_last()->status < 0 && error_last()->what[0]);
	}
	if (good == 1 + JOBS)
		check_memory(memory);
	mem_unpack_close(u);
	return good == 1 + JOBS;
}

static void every_call_may_fail(void **state)
{
	static const int results[] = {CUDA_ERR_OUT_OF_MEMORY, CUDA_ERR_INVALID_VALUE,
				      CUDA_ERR_LAUNCH_FAILED};
	unsigned failed = 0, survived = 0;
	uint64_t calls[SYMBOLS];
	cuda_ctx now;

	(void)state;
	for (int mode = MODE_FIRST; mode <= MEM_UNPACK_HOST; mode++) {
		for (size_t i = 0; i < SYMBOLS; i++)
			calls[i] = fake.calls(symbols[i]);
		assert_true(session((enum mem_unpack_mode)mode, "none"));
		for (size_t i = 0; i < SYMBOLS; i++) {
			calls[i] = fake.calls(symbols[i]) - calls[i];
			if (calls[i] > 8)
				calls[i] = 8; /* copies: one for each fragment */
		}
		for (size_t i = 0; i < SYMBOLS; i++)
			for (unsigned nth = 1; nth <= calls[i]; nth++)
				for (size_t r = 0; r < 3; r++) {
					fake.fail_call(symbols[i], nth, results[r]);
					if (session((enum mem_unpack_mode)mode, symbols[i]))
						survived++;
					else
						failed++;
					fake.fail_call(symbols[i], 1, 0);
					if (fake.settle(held) != held)
						fail_msg("%s call %u with %d leaves something",
							 symbols[i], nth, results[r]);
					assert_int_equal(api->ctx_current(&now), CUDA_OK);
					assert_null(now);
				}
	}
	print_message("%u failures ended something, %u nothing\n", failed, survived);
	assert_true(failed > 50);
}

/* A job of which a copy failed ends when those before it in the stream have. */
static void a_failed_copy_ends_behind_the_others(void **state)
{
	const struct base_frag two[] = {{0, 64, 0}, {PAGE, 64, 64}};
	struct mem_unpack_job job = {.frags = two,
				     .nfrags = 2,
				     .src = pool,
				     .src_bytes = POOL,
				     .dst = memory,
				     .dst_bytes = 128,
				     .expect = 128};
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(open_mode(MEM_UNPACK_D2D, &u), TCPX_OK);
	fake.hold(1);
	fake.fail_call("cuMemcpyAsync", 2, CUDA_ERR_OUT_OF_MEMORY);
	assert_int_equal(mem_unpack_push(u, &job), TCPX_OK);
	mem_unpack_flush(u);
	for (int i = 0; i < 2000; i++)
		assert_int_equal(mem_unpack_test(u, &job), TCPX_IN_PROGRESS);
	fake.hold(0);
	assert_int_equal(end_of(u, &job), TCPX_ERR_NO_MEMORY);
	assert_int_equal(error_last()->status, TCPX_ERR_NO_MEMORY);
	close_clean(u);
}

static void works_without_stream_writes(void **state)
{
	(void)state;
	fake.fail_call("cuStreamWriteValue32", 0, CUDA_ERR_NOT_SUPPORTED);
	assert_true(session(MEM_UNPACK_D2D, "cuStreamWriteValue32"));
	assert_true(session(MEM_UNPACK_HOST, "cuStreamWriteValue32"));
	fake.fail_call("cuStreamWriteValue32", 0, 0);
}

/* An application that captures a stream is not disturbed. */
static void captures_are_not_disturbed(void **state)
{
	unsigned refused = fake.capture(1);

	(void)state;
	assert_true(session(MODE_FIRST, "none"));
	assert_int_equal(fake.capture(0), refused);
}

/* The driver says that the device is broken, while its stream still works. */
static void what_may_still_move_is_under_way(void **state)
{
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(open_mode(MODE_FIRST, &u), TCPX_OK);
	make_jobs(memory);
	fake.hold(1);
	assert_int_equal(mem_unpack_push(u, &jobs[0]), TCPX_OK);
	mem_unpack_flush(u);
	fake.fail_call(MODE_FIRST == MEM_UNPACK_KERNEL ? "cuLaunchKernel" : "cuMemcpyAsync", 1,
		       CUDA_ERR_LAUNCH_FAILED);
	assert_int_equal(mem_unpack_push(u, &jobs[1]), TCPX_OK);
	mem_unpack_flush(u);
	assert_int_equal(mem_unpack_test(u, &jobs[1]), TCPX_ERR_SYSTEM);
	assert_int_equal(mem_unpack_push(u, &jobs[2]), TCPX_ERR_SYSTEM);
	for (int i = 0; i < 100; i++)
		assert_int_equal(mem_unpack_test(u, &jobs[0]), TCPX_IN_PROGRESS);
	fake.hold(0);
	assert_int_equal(end_of(u, &jobs[0]), TCPX_OK);
	close_clean(u);
}

static unsigned lines;

static void count_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	lines++;
}

static void the_end_of_the_process_is_silent(void **state)
{
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(open_mode(MODE_FIRST, &u), TCPX_OK);
	make_jobs(memory);
	fake.hold(1);
	lines = 0;
	log_sink_set(count_line, NULL, TCPX_LOG_INFO);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		mem_unpack_flush(u);
	}
	fake.deinit(1);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_of(u, &jobs[i]), TCPX_ERR_SYSTEM);
	mem_unpack_close(u);
	assert_int_equal(lines, 0);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
	fake.deinit(0);
	fake.hold(0);
	while (fake.queued()) /* it writes where the next test does */
		sched_yield();
}

/* Last: device 0 is lost for the process. */
static void a_broken_device_ends_all(void **state)
{
	struct mem_unpack *u;

	(void)state;
	assert_int_equal(open_mode(MODE_FIRST, &u), TCPX_OK);
	make_jobs(memory);
	fake.hold_device(0, 1);
	for (unsigned i = 0; i < JOBS; i++) {
		assert_int_equal(mem_unpack_push(u, &jobs[i]), TCPX_OK);
		mem_unpack_flush(u);
	}
	fake.break_device(0, CUDA_ERR_ILLEGAL_ADDRESS);
	lines = 0;
	log_sink_set(count_line, NULL, TCPX_LOG_INFO);
	for (unsigned i = 0; i < JOBS; i++) {
		assert_int_equal(end_of(u, &jobs[i]), TCPX_ERR_SYSTEM);
		assert_int_equal(error_last()->status, TCPX_ERR_SYSTEM);
	}
	assert_int_equal(mem_unpack_push(u, &jobs[0]), TCPX_ERR_SYSTEM);
	assert_int_equal(lines, 1);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
	mem_unpack_close(u);
	fake.hold_device(0, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_call_may_fail),
		cmocka_unit_test(a_failed_copy_ends_behind_the_others),
		cmocka_unit_test(works_without_stream_writes),
		cmocka_unit_test(captures_are_not_disturbed),
		cmocka_unit_test(what_may_still_move_is_under_way),
		cmocka_unit_test(the_end_of_the_process_is_silent),
		cmocka_unit_test(a_broken_device_ends_all),
	};

	return cmocka_run_group_tests(tests, group_begin, NULL);
}
