/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that keeps every rule but its pace: it stops in the middle of a frame, takes nothing. */
#include <pthread.h>

#include "base/clock.h"
#include "raw_rig.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

#define PIECES 1000u
#define READABLE_BYTES 60000u

/* A list that begins in one region and goes on in another: long to look up, and more than the
 * sockets take. */
static void ask_for(uint64_t first, uint64_t others, uint32_t bytes)
{
	static uint8_t table[FRAME_TABLE_MAX];
	struct frame frame = {
		.type = FRAME_READ_REQ, .xfer = 1, .offset = (uint64_t)PIECES * bytes};
	struct wire_table_writer writer;

	wire_table_begin(&writer, table, sizeof(table));
	for (uint32_t i = 0; i < PIECES; i++)
		wire_table_put(&writer, i ? others : first, 0, bytes);
	frame.table_bytes = (uint32_t)wire_table_end(&writer);
	raw_send(&raw, 1, &frame, table, 0, FRAME_VALID, 0);
}

static tcpx_region readable(uint64_t *out_key)
{
	static uint8_t bytes[READABLE_BYTES];
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ);
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_region region;

	assert_int_equal(tcpx_region_register(session, bytes, sizeof(bytes), &opts, &region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(session, region, token), TCPX_OK);
	memcpy(out_key, token + 8, sizeof(*out_key));
	return region;
}

/* A READ of a peer that then takes nothing, at every moment of a deregistration: before, while its
 * list is looked up, after. The region comes back each time. */
static void a_read_does_not_keep_a_region(void **state)
{
	uint64_t key, kept_key;
	tcpx_region region, kept = readable(&kept_key);

	(void)state;
	for (int round = 0; round < 400; round++) {
		int64_t then;

		connect_raw();
		region = readable(&key);
		ask_for(key, kept_key, READABLE_BYTES);
		then = clock_now_ns() + round * 1000;
		while (clock_now_ns() < then)
			;
		assert_int_equal(tcpx_region_deregister(session, region, 5000000000), TCPX_OK);
		raw_close(&raw);
		(void)await(TCPX_EVENT_PEER_DOWN);
	}
	assert_int_equal(tcpx_region_deregister(session, kept, -1), TCPX_OK);
}

#define NOTE_BYTES 60000u
#define NOTE_BEGIN 2000u

/* The header of the next notification of so many bytes, on the prio. */
static size_t note_header(uint8_t *out, uint32_t bytes)
{
	struct raw_chan *prio = &raw.chan[0];
	struct frame frame = {.type = FRAME_NOTIFY,
			      .epoch = prio->epoch,
			      .seq = prio->next_seq++,
			      .key = 1,
			      .xfer = ++raw.note_number,
			      .offset = bytes,
			      .payload_bytes = bytes};

	wire_frame_encode(&frame, out);
	return FRAME_HEADER_BYTES;
}

static void *say_the_rest(void *arg)
{
	static uint8_t rest[NOTE_BYTES - NOTE_BEGIN + FRAME_TRAILER_BYTES];
	struct frame_trailer trailer = {.seq = raw.chan[0].next_seq - 1, .status = FRAME_VALID};
	struct pollfd nothing = {.fd = -1};

	(void)arg;
	/* Time for the one who waits to take the priority channel from its worker; else this
	 * proves less. */
	(void)poll(&nothing, 1, 50);
	wire_trailer_encode(&trailer, rest + NOTE_BYTES - NOTE_BEGIN);
	say(PRIO, rest, sizeof(rest));
	return NULL;
}

static void take_note(int64_t timeout_ns, size_t bytes)
{
	tcpx_notification note = {.sz = sizeof(note)};

	assert_int_equal(tcpx_notify_take(session, timeout_ns, &note), TCPX_OK);
	assert_int_equal(note.bytes, bytes);
	tcpx_notification_release(session, &note);
}

/* The priority channel's worker slept in the middle of a large frame, until much of it would be
 * there; who waits reads the end of it, and then hears what is small. */
static void hear_a_large_frame_and_a_small_one(void)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(session), .events = POLLIN};
	uint8_t bytes[3 * FRAME_HEADER_BYTES + NOTE_BEGIN];
	size_t len;
	pthread_t thread;

	connect_raw();
	len = note_header(bytes, 0);
	len += note_header(bytes + len, NOTE_BYTES);
	memset(bytes + len, 0, NOTE_BEGIN);
	say(PRIO, bytes, len + NOTE_BEGIN);
	assert_int_equal(poll(&pfd, 1, 20000), 1);
	take_note(0, 0);
	assert_int_equal(pthread_create(&thread, NULL, say_the_rest, NULL), 0);
	take_note(20000000000, NOTE_BYTES);
	assert_int_equal(pthread_join(thread, NULL), 0);
	say(PRIO, bytes, note_header(bytes, 0));
	take_note(20000000000, 0); /* a wide guard */
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
}

static void the_lane_is_heard_after_a_large_frame(void **state)
{
	(void)state;
	for (int i = 0; i < 10;
	     i++) /* on a busy machine the priority channel is not always taken in time */
		hear_a_large_frame_and_a_small_one();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_lane_is_heard_after_a_large_frame),
		cmocka_unit_test(a_read_does_not_keep_a_region),
	};

	return cmocka_run_group_tests(tests, open_session, close_session);
}
