/* SPDX-License-Identifier: Apache-2.0 */
/* Frames in flight on a channel, without a channel: when one must ask, and what was taken. */
#include "core/inflight.h"
#include "unit.h"

static struct core_chunk memory[CORE_RING];

static struct core_inflight opened(void)
{
	struct core_inflight inflight = {.chunks = memory};

	core_inflight_open(&inflight);
	return inflight;
}

/* Enters a frame as core_chunk_add does, with a payload from staging if it is filled. */
static void send(struct core_inflight *inflight, uint32_t bytes, bool filled)
{
	*core_inflight_at(inflight, inflight->next_seq++) =
		(struct core_chunk){.bytes = bytes, .filled = filled};
	inflight->unasked_bytes += bytes;
	if (filled)
		inflight->filled_bytes += bytes;
}

static void test_a_new_epoch_is_empty(void **state)
{
	struct core_inflight inflight = opened();

	(void)state;
	send(&inflight, 100, true);
	assert_int_equal(core_inflight_count(&inflight), 1);
	core_inflight_open(&inflight);
	assert_int_equal(core_inflight_count(&inflight), 0);
	assert_int_equal(inflight.next_seq, 1);
	assert_int_equal(inflight.filled_bytes, 0);
	assert_ptr_equal(inflight.chunks, memory);
}

static void test_bytes_without_an_acknowledgement_must_ask(void **state)
{
	struct core_inflight inflight = opened();

	(void)state;
	send(&inflight, CORE_ACK_BYTES - 1, false);
	assert_false(core_inflight_must_ask(&inflight));
	send(&inflight, 1, false);
	assert_true(core_inflight_must_ask(&inflight));
	core_inflight_ask(&inflight);
	assert_int_equal(inflight.asked_seq, 2);
	assert_false(core_inflight_must_ask(&inflight));
}

static void test_frames_without_an_acknowledgement_must_ask(void **state)
{
	struct core_inflight inflight = opened();

	(void)state;
	for (int i = 1; i < CORE_RING / 4; i++)
		send(&inflight, 0, false);
	assert_false(core_inflight_must_ask(&inflight));
	send(&inflight, 0, false);
	assert_true(core_inflight_must_ask(&inflight));
	inflight.acked_seq = 1; /* unasked: the peer acknowledged by itself */
	assert_false(core_inflight_must_ask(&inflight));
}

static void test_asking_answers_the_need(void **state)
{
	struct core_inflight inflight = opened();

	(void)state;
	send(&inflight, 1, false);
	inflight.ack_needed = true;
	core_inflight_ask(&inflight);
	assert_false(inflight.ack_needed);
}

static void test_taken_frames_make_room_once(void **state)
{
	struct core_inflight inflight = opened();

	(void)state;
	send(&inflight, 100, true);
	send(&inflight, 10, false);
	send(&inflight, 1000, true);
	assert_int_equal(inflight.filled_bytes, 1100);
	core_inflight_taken(&inflight, 2);
	assert_int_equal(inflight.filled_bytes, 1000);
	core_inflight_taken(&inflight, 1); /* an older word */
	assert_int_equal(inflight.taken_seq, 2);
	core_inflight_taken(&inflight, 3);
	core_inflight_taken(&inflight, 3);
	assert_int_equal(inflight.filled_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_new_epoch_is_empty),
		cmocka_unit_test(test_bytes_without_an_acknowledgement_must_ask),
		cmocka_unit_test(test_frames_without_an_acknowledgement_must_ask),
		cmocka_unit_test(test_asking_answers_the_need),
		cmocka_unit_test(test_taken_frames_make_room_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
