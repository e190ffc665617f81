/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "cuda" when the driver fails: clean errors, each copy ended once, nothing left. */
#include "cuda_rig.h"

#define COPIES 6
#define BYTES 4096u

static cuda_ptr memory; /* on device 0, of a context that the test retained itself */
static unsigned retained;

static int setup(void **state)
{
	cuda_device device;
	cuda_ctx ctx;

	(void)state;
	assert_int_equal(api->device_get(&device, 0), CUDA_OK);
	assert_int_equal(api->ctx_retain(&ctx, device), CUDA_OK);
	memory = rig_alloc(0, COPIES * BYTES);
	retained = fake.live(NULL);
	return 0;
}

static int teardown(void **state)
{
	cuda_device device;

	(void)state;
	rig_free(0, memory);
	assert_int_equal(api->device_get(&device, 0), CUDA_OK);
	assert_int_equal(api->ctx_release(device), CUDA_OK);
	return 0;
}

/* Copies every second of which is a neighbour of the one before. Returns how many ended well. */
static unsigned copy_all(uint8_t *slot, int to_slot, const char *failing)
{
	struct rig_copy jobs[COPIES];
	uint32_t accepted = 0, good = 0;

	rig_ended = 0;
	for (unsigned i = 0; i < COPIES; i++) {
		unsigned at = i / 2 * 2 % (COPIES / 2) * 2 + i % 2;
		tcpx_status status;

		rig_init(&jobs[i], 0, slot + at * BYTES, memory + at * BYTES, BYTES);
		status = (to_slot ? cuda->fill : cuda->commit)(&jobs[i].copy);
		accepted += status == TCPX_OK;
		if (status)
			assert_int_equal(error_last()->status, status);
	}
	rig_wait(accepted);
	for (unsigned i = 0; i < COPIES; i++) {
		if (jobs[i].ends > 1)
			fail_msg("%s: ended %u times", failing, jobs[i].ends);
		good += jobs[i].ends && jobs[i].status == TCPX_OK;
	}
	return good;
}

/* A copy of so many pieces that a kernel does it where there is one: there and back. */
static unsigned copy_scattered(uint8_t *slot)
{
	struct rig_copy job;
	unsigned good = 0;

	for (int to_slot = 0; to_slot < 2; to_slot++) {
		rig_init(&job, 0, slot, 0, 0);
		for (uint32_t i = 0; i < RIG_PIECES; i++)
			job.pieces[i] = (struct mem_piece){
				(void *)(uintptr_t)(memory + (RIG_PIECES - i) * 100), 50};
		job.copy.npieces = RIG_PIECES;
		rig_ended = 0;
		if ((to_slot ? cuda->fill : cuda->commit)(&job.copy) == TCPX_OK) {
			rig_wait(1);
			assert_int_equal(job.ends, 1);
			good += job.status == TCPX_OK;
		}
	}
	return good;
}

/* All that a session does; the driver may fail anywhere. Returns whether everything went well. */
static int session(const char *failing)
{
	void *addr = (void *)(uintptr_t)memory;
	uint8_t *slot, *heap = NULL;
	unsigned good = 0;
	uint64_t id = 0;

	if (cuda->probe(addr, COPIES * BYTES, 0, &id) == TCPX_OK)
		good += (unsigned)cuda->same(addr, COPIES * BYTES, 0, id);
	else
		assert_true(error_last()->status < 0 && error_last()->what[0]);
	slot = cuda->slot_alloc(COPIES * BYTES, 0);
	if (slot)
		good++;
	else
		heap = calloc(COPIES, BYTES);
	assert_true(slot || heap);
	memset(slot ? slot : heap, 0x5a, COPIES * BYTES);
	good += copy_all(slot ? slot : heap, 0, failing);
	memset(slot ? slot : heap, 0, COPIES * BYTES);
	good += copy_all(slot ? slot : heap, 1, failing);
	good += copy_scattered(slot ? slot : heap);
	if (good == 4 + 2 * COPIES)
		for (unsigned i = 0; i < COPIES * BYTES; i++)
			assert_int_equal((slot ? slot : heap)[i], 0x5a);
	if (slot)
		cuda->slot_free(slot, COPIES * BYTES, 0);
	free(heap);
	mem_kinds_stop();
	return good == 4 + 2 * COPIES;
}

/* Each call of a session once, with a failure that passes and with one that does not. */
static void every_call_may_fail(void **state)
{
	static const int results[] = {CUDA_ERR_OUT_OF_MEMORY, CUDA_ERR_INVALID_VALUE,
				      CUDA_ERR_LAUNCH_FAILED};
	uint64_t calls[RIG_SYMBOLS];
	unsigned failed = 0, survived = 0;
	cuda_ctx now;

	(void)state;
	for (size_t i = 0; i < RIG_SYMBOLS; i++)
		calls[i] = fake.calls(rig_symbols[i]);
	assert_true(session("none"));
	for (size_t i = 0; i < RIG_SYMBOLS; i++)
		calls[i] = fake.calls(rig_symbols[i]) - calls[i];
	for (size_t i = 0; i < RIG_SYMBOLS; i++)
		for (unsigned nth = 1; nth <= calls[i]; nth++)
			for (size_t r = 0; r < sizeof(results) / sizeof(results[0]); r++) {
				if (fake.fail_call(rig_symbols[i], nth, results[r]))
					fail_msg("%s is unknown", rig_symbols[i]);
				if (session(rig_symbols[i]))
					survived++;
				else
					failed++;
				fake.fail_call(rig_symbols[i], 1, 0);
				if (fake.settle(retained) != retained)
					fail_msg("%s call %u with %d leaves %u", rig_symbols[i],
						 nth, results[r], fake.live(NULL) - retained);
				assert_int_equal(api->ctx_current(&now), CUDA_OK);
				if (now)
					fail_msg("%s leaves a context current", rig_symbols[i]);
			}
	print_message("%u failures ended something, %u nothing\n", failed, survived);
	assert_true(failed > 0);
	assert_true(session("none"));
	assert_int_equal(fake.settle(retained), retained);
}

/* Four copies in one group, none beside the other: the one whose call fails fails alone. */
static void a_failed_copy_fails_alone(void **state)
{
	struct rig_copy jobs[2 + 4];
	uint8_t *slot = cuda->slot_alloc(16 * BYTES, 0);
	cuda_ptr gpu = rig_alloc(0, 16 * BYTES);
	uint64_t calls = fake.calls("cuMemcpyAsync");

	(void)state;
	rig_ended = 0;
	fake.hold(1);
	for (unsigned i = 0; i < 6; i++) {
		rig_init(&jobs[i], 0, slot + 2 * i * BYTES, gpu + 2 * i * BYTES, BYTES);
		assert_int_equal(cuda->commit(&jobs[i].copy), TCPX_OK);
		if (i < 2)
			rig_calls("cuMemcpyAsync", calls + i + 1);
	}
	fake.fail_call("cuMemcpyAsync", 2, CUDA_ERR_OUT_OF_MEMORY);
	fake.hold(0);
	rig_wait(6);
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(jobs[i].ends, 1);
		assert_int_equal(jobs[i].place, i);
		assert_int_equal(jobs[i].status, i == 3 ? TCPX_ERR_NO_MEMORY : TCPX_OK);
	}
	rig_free(0, gpu);
	cuda->slot_free(slot, 16 * BYTES, 0);
}

/* Neighbours by address that are allocations of their own: no call may cross, each copy may. */
static void a_refused_merger_goes_one_by_one(void **state)
{
	struct rig_copy jobs[2 + 4];
	uint8_t *slot = cuda->slot_alloc(6 * BYTES, 0);
	cuda_ptr gpu = rig_alloc(0, 6 * BYTES);
	uint64_t calls = fake.calls("cuMemcpyAsync");
	uint8_t back[6 * BYTES];

	(void)state;
	memset(slot, 0x77, 6 * BYTES);
	rig_ended = 0;
	fake.hold(1);
	for (unsigned i = 0; i < 6; i++) {
		rig_init(&jobs[i], 0, slot + i * BYTES, gpu + i * BYTES, BYTES);
		assert_int_equal(cuda->commit(&jobs[i].copy), TCPX_OK);
		if (i < 2)
			rig_calls("cuMemcpyAsync", calls + i + 1);
	}
	fake.fail_call("cuMemcpyAsync", 1, CUDA_ERR_INVALID_VALUE);
	fake.hold(0);
	rig_wait(6);
	assert_int_equal(fake.calls("cuMemcpyAsync"), calls + 2 + 1 + 4);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(jobs[i].status, TCPX_OK);
	assert_int_equal(fake.read(gpu, back, sizeof(back)), 0);
	assert_memory_equal(back, slot, sizeof(back));
	rig_free(0, gpu);
	cuda->slot_free(slot, 6 * BYTES, 0);
}

/* A driver without stream writes is asked for the end of copies. */
static void works_without_stream_writes(void **state)
{
	(void)state;
	mem_kinds_stop();
	fake.fail_call("cuStreamWriteValue32", 0, CUDA_ERR_NOT_SUPPORTED);
	assert_true(session("cuStreamWriteValue32"));
	fake.fail_call("cuStreamWriteValue32", 0, 0);
}

/* An error that says the device is broken, while its stream still works: what is queued ends, what
 * is in the stream only when that is over. */
static void a_broken_device_may_still_move_bytes(void **state)
{
	struct rig_copy jobs[3];
	uint8_t *slot = cuda->slot_alloc(6 * BYTES, 0);
	cuda_ptr gpu = rig_alloc(0, 6 * BYTES);
	uint64_t calls = fake.calls("cuMemcpyAsync");

	(void)state;
	rig_ended = 0;
	fake.hold(1);
	for (unsigned i = 0; i < 3; i++) {
		rig_init(&jobs[i], 0, slot + 2 * i * BYTES, gpu + 2 * i * BYTES, BYTES);
		assert_int_equal(cuda->fill(&jobs[i].copy), TCPX_OK);
		if (i < 2)
			rig_calls("cuMemcpyAsync", calls + i + 1);
	}
	fake.fail_call("cuStreamQuery", 1, CUDA_ERR_LAUNCH_FAILED); /* asked after 100 ms */
	rig_wait(1);
	assert_int_equal(jobs[2].ends, 1);
	assert_int_equal(jobs[2].place, 0);
	assert_int_equal(jobs[2].status, TCPX_ERR_SYSTEM);
	fake.hold(0);
	rig_wait(3);
	assert_int_equal(jobs[0].status, TCPX_OK);
	assert_int_equal(jobs[1].status, TCPX_OK);
	mem_kinds_stop();
	rig_free(0, gpu);
	cuda->slot_free(slot, 6 * BYTES, 0);
}

static unsigned lines;

static void count_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	lines++;
}

/* Queues on device 1, whose streams stand still; what then happens ends all of it with an error. */
static void broken_under_way(void (*happens)(void), uint8_t *slot, cuda_ptr gpu)
{
	struct rig_copy jobs[8];

	rig_ended = 0;
	fake.hold_device(1, 1);
	for (unsigned i = 0; i < 8; i++) {
		rig_init(&jobs[i], 1, slot + i * BYTES, gpu + i * BYTES, BYTES);
		assert_int_equal((i % 2 ? cuda->fill : cuda->commit)(&jobs[i].copy), TCPX_OK);
	}
	happens();
	rig_wait(8);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(jobs[i].ends, 1);
		assert_int_equal(jobs[i].status, TCPX_ERR_SYSTEM);
	}
	rig_init(&jobs[0], 1, slot, gpu, BYTES);
	assert_int_equal(cuda->fill(&jobs[0].copy), TCPX_ERR_SYSTEM);
	assert_int_equal(error_last()->status, TCPX_ERR_SYSTEM);
	assert_int_equal(jobs[0].ends, 0);
}

static void driver_goes(void)
{
	fake.deinit(1);
}

static void the_end_of_the_process_is_silent(void **state)
{
	uint8_t *slot = cuda->slot_alloc(8 * BYTES, 1);
	cuda_ptr gpu = rig_alloc(1, 8 * BYTES);

	(void)state;
	lines = 0;
	log_sink_set(count_line, NULL, TCPX_LOG_INFO);
	broken_under_way(driver_goes, slot, gpu);
	cuda->slot_free(slot, 8 * BYTES, 1);
	mem_kinds_stop();
	assert_int_equal(lines, 0);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
	fake.deinit(0);
	fake.hold_device(1, 0);
	while (fake.queued()) /* it uses the memory that the next test may get */
		sched_yield();
}

static void kernel_faults(void)
{
	fake.break_device(1, CUDA_ERR_ILLEGAL_ADDRESS);
}

/* Last: device 1 is lost for the process. */
static void a_broken_device_leaves_the_others(void **state)
{
	uint8_t *slot;
	cuda_ptr gpu;
	uint64_t id;

	(void)state;
	slot = cuda->slot_alloc(8 * BYTES, 1);
	gpu = rig_alloc(1, 8 * BYTES);
	lines = 0;
	log_sink_set(count_line, NULL, TCPX_LOG_ERROR);
	broken_under_way(kernel_faults, slot, gpu);
	assert_int_equal(lines, 1);
	log_sink_set(NULL, NULL, TCPX_LOG_WARN);
	fake.hold_device(1, 0);
	assert_int_equal(cuda->probe((void *)(uintptr_t)gpu, BYTES, 1, &id), TCPX_ERR_SYSTEM);
	assert_true(session("none")); /* device 0; stops both */
	assert_int_equal(cuda->probe((void *)(uintptr_t)gpu, BYTES, 1, &id), TCPX_ERR_SYSTEM);
	cuda->slot_free(slot, 8 * BYTES, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_call_may_fail, setup, teardown),
		cmocka_unit_test(a_failed_copy_fails_alone),
		cmocka_unit_test(a_refused_merger_goes_one_by_one),
		cmocka_unit_test_setup_teardown(works_without_stream_writes, setup, teardown),
		cmocka_unit_test(a_broken_device_may_still_move_bytes),
		cmocka_unit_test(the_end_of_the_process_is_silent),
		cmocka_unit_test_setup_teardown(a_broken_device_leaves_the_others, setup, teardown),
	};

	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
