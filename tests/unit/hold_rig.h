/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of held frames share: staged sources of a session, and a raw peer that looks at every
 * byte and takes none before it is told to. */
#ifndef UNIT_HOLD_RIG_H
#define UNIT_HOLD_RIG_H

#include <errno.h>

#include "base/clock.h"
#include "engine/session/calls.h"
#include "raw_rig.h"
#include "parts/slow.h"
#include "mem/staging.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

#define CHUNK 65536u
#define WINDOW (CORE_FILLED_CHUNKS * CHUNK) /* of one channel */
#define ALL ((RAW_CHANNELS - 1) * WINDOW)   /* what goes out and is not taken */

struct source {
	uint8_t bytes[2 * ALL];
	tcpx_region region;
	uint64_t key;
	uint8_t token[TCPX_TOKEN_BYTES];
};

static struct source first, second;
static struct mem_staging *pool;

static inline void source_open(struct source *source, unsigned salt)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = MEM_KIND_TEST, .rights = TCPX_RIGHT_READ);

	for (uint32_t i = 0; i < sizeof(source->bytes); i++)
		source->bytes[i] = (uint8_t)(i * 7 + i / 1021 + salt);
	assert_int_equal(tcpx_region_register(session, source->bytes, sizeof(source->bytes), &opts,
					      &source->region),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(session, source->region, source->token), TCPX_OK);
	memcpy(&source->key, source->token + 8, sizeof(source->key));
}

static inline int open_all(void **state)
{
	if (open_session(state))
		return -1;
	source_open(&first, 1);
	source_open(&second, 101);
	pool = mem_staging_get(MEM_KIND_TEST, 0, MEM_OUT);
	return pool ? 0 : -1;
}

static inline void connect_as(struct raw *peer, const char *name, tcpx_peer *out_peer)
{
	*peer = (struct raw){.name = name, .secret = raw.secret, .secret_bytes = raw.secret_bytes};
	raw_connect(peer, port);
	assert_int_equal(tcpx_session_accept(session, 20000000000, out_peer), TCPX_OK);
	(void)await(TCPX_EVENT_PEER_UP);
}

static inline void ask_for(struct raw *peer, const struct source *source, uint32_t bytes)
{
	uint8_t table[64];
	struct frame frame = {.type = FRAME_READ_REQ, .xfer = 1, .offset = bytes};
	struct wire_table_writer writer;

	wire_table_begin(&writer, table, sizeof(table));
	wire_table_put(&writer, source->key, 0, bytes);
	frame.table_bytes = (uint32_t)wire_table_end(&writer);
	raw_send(peer, 0, &frame, table, 0, FRAME_VALID, 0);
}

static inline void nap(int i)
{
	struct pollfd nothing = {.fd = -1};

	assert_true(i < 20000); /* a wide guard */
	(void)poll(&nothing, 1, 1);
}

static inline uint64_t sent_now(void)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	assert_int_equal(tcpx_session_counters(session, &counters), TCPX_OK);
	return counters.tx_bytes;
}

/* So many bytes of payload are with the sockets. */
static inline void await_sent(uint64_t bytes)
{
	for (int i = 0; sent_now() < bytes; i++)
		nap(i);
}

static inline void await_used(uint64_t bytes)
{
	for (int i = 0; mem_staging_used(pool) != bytes; i++)
		nap(i);
}

/* ---- a peer that looks at every byte ---- */

struct reader {
	struct raw *peer;
	const uint8_t *source;
	uint8_t *bytes[RAW_CHANNELS]; /* not parsed yet */
	size_t have[RAW_CHANNELS];
	uint64_t frames[RAW_CHANNELS]; /* with a sequence */
	uint8_t seen[2 * ALL / CHUNK];
	uint64_t payload;
	bool over[RAW_CHANNELS], reset[RAW_CHANNELS];
};

#define READ_MAX (4u << 20)

static inline void reader_open(struct reader *reader, struct raw *peer, const struct source *source)
{
	*reader = (struct reader){.peer = peer, .source = source->bytes};
	for (uint32_t i = 0; i < RAW_CHANNELS; i++) {
		reader->bytes[i] = malloc(READ_MAX);
		assert_non_null(reader->bytes[i]);
	}
}

static inline void reader_close(struct reader *reader)
{
	for (uint32_t i = 0; i < RAW_CHANNELS; i++)
		free(reader->bytes[i]);
}

static inline size_t frame_bytes(const struct frame *frame)
{
	return FRAME_HEADER_BYTES + frame->table_bytes +
	       (frame->payload_bytes ? frame->payload_bytes + FRAME_TRAILER_BYTES : 0);
}

static inline void check_frame(struct reader *reader, const struct frame *frame,
			       const uint8_t *bytes)
{
	struct frame_trailer trailer;

	if (frame->type != FRAME_RDATA)
		return;
	assert_int_equal(frame->payload_bytes, CHUNK);
	assert_memory_equal(bytes + FRAME_HEADER_BYTES, reader->source + frame->linear, CHUNK);
	assert_int_equal(
		wire_trailer_decode(bytes + FRAME_HEADER_BYTES + CHUNK, frame->seq, &trailer),
		TCPX_OK);
	assert_int_equal(trailer.status, FRAME_VALID);
	reader->seen[frame->linear / CHUNK]++;
	reader->payload += CHUNK;
}

/* Takes what is there of one channel; what may not be believed is dropped. */
static inline void read_channel(struct reader *reader, uint32_t channel)
{
	struct pollfd pfd = {.fd = reader->peer->chan[channel].fd};
	uint8_t *bytes = reader->bytes[channel];
	size_t *have = &reader->have[channel], at = 0;
	struct frame frame;
	ssize_t got;

	while (!reader->over[channel]) {
		got = recv(pfd.fd, bytes + *have, READ_MAX - *have, MSG_DONTWAIT);
		if (got < 0 && errno == EAGAIN)
			break;
		(void)poll(&pfd, 1, 0);
		reader->reset[channel] = pfd.revents & (POLLERR | POLLHUP);
		if (got <= 0 || reader->reset[channel])
			reader->over[channel] = true;
		else
			*have += (size_t)got;
	}
	while (*have - at >= FRAME_HEADER_BYTES) {
		assert_int_equal(wire_frame_decode(bytes + at, &frame), TCPX_OK);
		if (*have - at < frame_bytes(&frame))
			break;
		if (frame.seq)
			assert_int_equal(frame.seq, ++reader->frames[channel]);
		check_frame(reader, &frame, bytes + at);
		at += frame_bytes(&frame);
	}
	memmove(bytes, bytes + at, *have -= at);
}

static inline void say_got(struct reader *reader, uint32_t channel, uint64_t applied)
{
	struct frame ack = {.type = FRAME_ACK, .linear = applied, .key = reader->frames[channel]};

	raw_send(reader->peer, channel, &ack, NULL, 0, FRAME_VALID, 0);
}

/* Reads until so many bytes of payload were right. acknowledge: on its way. */
static inline void read_until(struct reader *reader, uint64_t payload, bool acknowledge)
{
	for (int n = 0; reader->payload < payload; n++) {
		for (uint32_t i = 0; i < RAW_CHANNELS; i++) {
			uint64_t before = reader->frames[i];

			read_channel(reader, i);
			if (acknowledge && reader->frames[i] > before)
				say_got(reader, i, reader->frames[i]);
		}
		if (reader->payload < payload)
			nap(n);
	}
}

/* All of it is with the sockets, and nobody has taken it. */
static inline void send_untaken(struct raw *peer, struct reader *reader,
				const struct source *source, uint32_t bytes)
{
	uint64_t before = sent_now();

	reader_open(reader, peer, source);
	ask_for(peer, source, bytes);
	await_sent(before + (bytes < ALL ? bytes : ALL));
}

#endif
