/* SPDX-License-Identifier: Apache-2.0 */
/* Frames around those that are held: buffers used again at once are copied, and what a reset leaves
 * in a receiver's queue is not believed. */
#include "hold_rig.h"

#define SMALL 16u /* bytes of a piece: a chunk of them is copied */
#define LARGE 65u /* a chunk of them is not */
#define LISTS 8

/* Many pieces, first small ones, with a table of many bytes. */
static uint32_t scattered(tcpx_segment *list, const tcpx_region *imports)
{
	uint32_t n = 0;

	for (; n < 2 * CORE_PIECES_MAX; n++) {
		uint32_t bytes = n < CORE_PIECES_MAX ? SMALL : LARGE;

		list[n] = (tcpx_segment){.local = first.region,
					 .local_offset = n * (LARGE + 1),
					 .remote = imports[n % 2],
					 .remote_offset = n % 2 ? n * 131 : 200000 - n * 67,
					 .length = bytes};
	}
	return n;
}

static void check_scattered(const struct frame *frame, const uint8_t *payload)
{
	uint64_t linear = frame->linear;

	for (uint32_t i = 0; i < frame->payload_bytes; i++, linear++) {
		uint64_t large = linear - CORE_PIECES_MAX * SMALL;
		bool small = linear < CORE_PIECES_MAX * SMALL;
		uint64_t n = small ? linear / SMALL : CORE_PIECES_MAX + large / LARGE;
		uint64_t off = small ? linear % SMALL : large % LARGE;

		assert_int_equal(payload[i], first.bytes[n * (LARGE + 1) + off]);
	}
}

/* Takes and checks what is on channel 1; the payload bytes of it. */
static uint64_t take_scattered(struct reader *reader)
{
	uint8_t *bytes = reader->bytes[1];
	size_t at = 0;
	uint64_t sum = 0;
	ssize_t got;

	while ((got = recv(reader->peer->chan[1].fd, bytes + reader->have[1],
			   READ_MAX - reader->have[1], MSG_DONTWAIT)) > 0)
		reader->have[1] += (size_t)got;
	for (;;) {
		struct frame frame;

		if (reader->have[1] - at < FRAME_HEADER_BYTES)
			break;
		assert_int_equal(wire_frame_decode(bytes + at, &frame), TCPX_OK);
		if (reader->have[1] - at < frame_bytes(&frame))
			break;
		if (frame.seq)
			assert_int_equal(frame.seq, ++reader->frames[1]);
		if (frame.type == FRAME_DATA)
			check_scattered(&frame,
					bytes + at + FRAME_HEADER_BYTES + frame.table_bytes);
		sum += frame.payload_bytes;
		at += frame_bytes(&frame);
	}
	memmove(bytes, bytes + at, reader->have[1] -= at);
	return sum;
}

/* Small frames and tables lie in a buffer that the next ones use; it goes out in front of a payload
 * that is not copied, and may be as large as one. */
static void buffers_are_copied(void **state)
{
	static tcpx_segment list[2 * CORE_PIECES_MAX];
	const uint64_t bytes = (uint64_t)CORE_PIECES_MAX * (SMALL + LARGE);
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	static uint8_t target[2][4096];
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_region imports[2], regions[2];
	tcpx_request requests[LISTS];
	struct reader reader;
	uint64_t sum = 0;
	tcpx_peer peer;
	uint32_t n;

	(void)state;
	connect_as(&raw, "one", &peer);
	raw_drop_channel(&raw, 2); /* everything goes over one */
	(void)await(TCPX_EVENT_CHANNEL_DOWN);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(tcpx_region_register(session, target[i], sizeof(target[i]), &opts,
						      &regions[i]),
				 TCPX_OK);
		assert_int_equal(tcpx_region_export(session, regions[i], token), TCPX_OK);
		assert_int_equal(
			tcpx_region_import(session, peer, token, sizeof(token), &imports[i]),
			TCPX_OK);
	}
	n = scattered(list, imports);
	reader_open(&reader, &raw, &first);
	for (int i = 0; i < LISTS; i++)
		assert_int_equal(tcpx_request_start(session, peer, TCPX_OP_WRITE, list, n, NULL,
						    &requests[i]),
				 TCPX_OK);
	for (int i = 0; sum < LISTS * bytes; i++) {
		/* All is filled: small frames and the large one behind them leave together. */
		mem_slow_settle();
		nap(i);
		sum += take_scattered(&reader);
		say_got(&reader, 1, reader.frames[1]);
	}
	for (int i = 0; i < LISTS; i++) {
		assert_int_equal(tcpx_request_wait(session, requests[i], 20000000000, NULL),
				 TCPX_OK);
		tcpx_request_release(session, requests[i]);
	}
	raw_close(&raw);
	(void)await(TCPX_EVENT_PEER_DOWN);
	await_used(0);
	reader_close(&reader);
}

static void say_chunk(struct raw *peer, uint64_t xfer)
{
	static uint8_t bytes[FRAME_HEADER_BYTES + CHUNK + FRAME_TRAILER_BYTES];
	struct frame_trailer trailer = {.seq = 1, .status = FRAME_VALID};
	struct frame frame = {.type = FRAME_RDATA,
			      .epoch = peer->chan[1].epoch,
			      .seq = 1,
			      .xfer = xfer,
			      .payload_bytes = CHUNK};

	wire_frame_encode(&frame, bytes);
	memset(bytes + FRAME_HEADER_BYTES, 0xee, CHUNK);
	wire_trailer_encode(&trailer, bytes + FRAME_HEADER_BYTES + CHUNK);
	raw_send_bytes(peer, 1, bytes, sizeof(bytes));
}

/* The peer resets a connection: what it held is other bytes by now, and it is not the answer to a
 * READ, though all of it is there to be received. */
static void what_a_reset_leaves_is_not_believed(void **state)
{
	struct engine_session *inside = (struct engine_session *)session;
	static uint8_t target[CHUNK];
	TCPX_OPTS(tcpx_region_opts, opts, .rights = TCPX_RIGHT_READ);
	tcpx_segment piece = {.length = CHUNK};
	struct engine_peer *peer;
	tcpx_request request;
	tcpx_peer accepted;

	(void)state;
	connect_as(&raw, "one", &accepted);
	assert_int_equal(tcpx_region_register(session, target, CHUNK, &opts, &piece.local),
			 TCPX_OK);
	assert_int_equal(
		tcpx_region_import(session, accepted, first.token, TCPX_TOKEN_BYTES, &piece.remote),
		TCPX_OK);
	assert_int_equal(
		tcpx_request_start(session, accepted, TCPX_OP_READ, &piece, 1, NULL, &request),
		TCPX_OK);
	for (int i = 0; !raw.reads.count; i++) {
		raw_drain(&raw);
		nap(i);
	}
	pthread_mutex_lock(&inside->lock);
	peer = LIST_ENTRY(inside->peer_list.prev, struct engine_peer, node);
	pthread_mutex_unlock(&inside->lock);
	pthread_mutex_lock(&peer->link.lock); /* nobody comes beyond a header */
	say_chunk(&raw, raw.reads.at[0].xfer);
	raw_drop_channel(&raw, 1);
	pthread_mutex_unlock(&peer->link.lock);
	(void)await(TCPX_EVENT_CHANNEL_DOWN);
	raw_close(&raw);
	assert_int_not_equal(tcpx_request_wait(session, request, TCPX_WAIT_FOREVER, NULL), TCPX_OK);
	tcpx_request_release(session, request);
	(void)await(TCPX_EVENT_PEER_DOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buffers_are_copied),
		cmocka_unit_test(what_a_reset_leaves_is_not_believed),
	};

	setenv("TCPX_STAGING_BYTES", "8M", 1); /* read once, at the first call */
	return cmocka_run_group_tests(tests, open_all, close_session);
}
