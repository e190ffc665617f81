/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of a channel over a transport that takes exactly the bytes it is told to. */
#include <stdlib.h>

#include "engine/session/calls.h"
#include "unit.h"
#include "wire/frame_codec.h"

#define PAYLOAD_BYTES (64u << 10)
#define CHANNEL 1u
#define SOURCE 0x5a

/* A transport that keeps what it took. */
struct sink {
	struct net_chan base; /* first */
	uint64_t allow;	      /* bytes it still takes; then: no room */
	uint64_t bytes;
	void (*inside)(void *arg); /* runs in the next call, before it takes anything; or NULL */
	void *arg;
	uint8_t taken[PAYLOAD_BYTES * 2];
};

static tcpx_status sink_send(struct net_chan *base, const struct iovec *iov, int niov,
			     size_t *out_bytes)
{
	struct sink *sink = (struct sink *)base;
	void (*inside)(void *arg) = sink->inside;
	size_t moved = 0;

	sink->inside = NULL;
	if (inside)
		inside(sink->arg);
	for (int i = 0; i < niov && sink->allow; i++) {
		size_t take = iov[i].iov_len < sink->allow ? iov[i].iov_len : sink->allow;

		assert_true(sink->bytes + take <= sizeof(sink->taken));
		memcpy(sink->taken + sink->bytes, iov[i].iov_base, take);
		sink->bytes += take;
		sink->allow -= take;
		moved += take;
	}
	*out_bytes = moved;
	return moved ? TCPX_OK : TCPX_IN_PROGRESS;
}

static int sink_arm(struct net_chan *base, int want_recv, int want_send, uint32_t *out_events)
{
	(void)base;
	(void)want_recv;
	(void)want_send;
	*out_events = 0;
	return 0; /* the test runs the sender again when it gave room */
}

static const struct net_ops sink_ops = {.name = "sink", .send = sink_send, .arm = sink_arm};

static void on_ended(void *arg, struct core_xfer *xfer)
{
	(void)xfer;
	++*(unsigned *)arg;
}

static void on_kick(void *arg, uint32_t channel)
{
	(void)arg;
	(void)channel;
}

static void *on_alloc(void *arg, size_t bytes)
{
	(void)arg;
	return malloc(bytes);
}

static void on_free(void *arg, void *ptr, size_t bytes)
{
	(void)arg;
	(void)bytes;
	free(ptr);
}

static void on_stage_give(void *arg, uint64_t bytes)
{
	(void)arg;
	assert_int_equal(bytes, 0);
}

static void on_note_give(void *arg, uint64_t bytes)
{
	(void)arg;
	(void)bytes;
}

static const struct core_ops core_ops = {.ended = on_ended,
					 .kick = on_kick,
					 .stage_give = on_stage_give,
					 .note_give = on_note_give,
					 .alloc = on_alloc,
					 .free = on_free};

/* One channel that sends, and a WRITE of one chunk for it. */
struct world {
	struct engine_peer peer;
	struct engine_chan chan;
	struct sink sink;
	unsigned ended;
	uint8_t source[PAYLOAD_BYTES];
	struct mem_region region;
	void *local[1];
	uint64_t remote[1];
	struct core_seg seg[2];
	struct core_segs segs;
	struct core_xfer xfer;
	uint64_t head_bytes; /* of the frame before its payload */
};

static void world_open(struct world *w)
{
	struct core_config cfg = {
		.chunk_bytes = PAYLOAD_BYTES,
		.bulk_channels = 1,
		.credit_out = {1 << 20, 1 << 20, 4, 0},
		.credit_in = {1 << 20, 1 << 20, 4, 0},
		.ops = &core_ops,
		.arg = &w->ended,
	};

	memset(w, 0, sizeof(*w));
	pthread_mutex_init(&w->peer.link.lock, NULL);
	assert_int_equal(core_link_init(&w->peer.link.core, &cfg), TCPX_OK);
	for (uint32_t i = 0; i <= CHANNEL; i++)
		assert_int_equal(core_chan_up(&w->peer.link.core, i, 1), TCPX_OK);
	w->sink.base.ops = &sink_ops;
	w->chan = (struct engine_chan){.peer = &w->peer, .index = CHANNEL, .net = &w->sink.base};
	pthread_mutex_init(&w->chan.poll.lock, NULL);
	w->chan.tx.buf = malloc(ENGINE_TX_BUFFER);
	w->chan.tx.iov = calloc(CORE_PIECES_MAX + 2, sizeof(struct iovec));
	assert_true(w->chan.tx.buf && w->chan.tx.iov);

	memset(w->source, SOURCE, sizeof(w->source));
	w->region = (struct mem_region){.kind = mem_kind_get(TCPX_MEM_HOST),
					.base = w->source,
					.length = sizeof(w->source)};
	w->local[0] = &w->region;
	w->seg[1].linear = PAYLOAD_BYTES;
	w->segs = (struct core_segs){.total = PAYLOAD_BYTES,
				     .nseg = 1,
				     .seg = w->seg,
				     .local = w->local,
				     .remote = w->remote,
				     .nlocal = 1,
				     .nremote = 1};
	w->xfer = (struct core_xfer){.op = TCPX_OP_WRITE, .segs = &w->segs};
}

static void world_close(struct world *w)
{
	core_link_fail(&w->peer.link.core, TCPX_ERR_DISCONNECTED);
	core_link_fini(&w->peer.link.core);
	assert_int_equal(w->ended, 1); /* exactly once, whatever was cut */
	free(w->chan.tx.buf);
	free(w->chan.tx.iov);
	pthread_mutex_destroy(&w->peer.link.lock);
	pthread_mutex_destroy(&w->chan.poll.lock);
}

/* Lets so many bytes more leave. */
static void send_bytes(struct world *w, uint64_t bytes)
{
	w->sink.allow = bytes;
	chan_tx_run(&w->chan, UINT64_MAX);
}

/* Posts the WRITE and sends its first bytes, so that the length of the header is known. */
static void begin(struct world *w)
{
	struct frame frame;

	assert_int_equal(core_xfer_post(&w->peer.link.core, &w->xfer), TCPX_OK);
	send_bytes(w, FRAME_HEADER_BYTES);
	assert_int_equal(wire_frame_decode(w->sink.taken, &frame), TCPX_OK);
	assert_int_equal(frame.type, FRAME_DATA);
	assert_int_equal(frame.payload_bytes, PAYLOAD_BYTES);
	w->head_bytes = FRAME_HEADER_BYTES + frame.table_bytes;
}

static uint32_t trailer_status(const struct world *w)
{
	struct frame_trailer trailer;

	assert_true(w->sink.bytes >= w->head_bytes + PAYLOAD_BYTES + FRAME_TRAILER_BYTES);
	assert_int_equal(
		wire_trailer_decode(w->sink.taken + w->head_bytes + PAYLOAD_BYTES, 1, &trailer),
		TCPX_OK);
	return trailer.status;
}

/* The memory is taken away in the middle of the payload; then the transport is short of room when
 * part of the trailer has left. The chunk is an aborted one all the way: on the wire and in our own
 * books, or a WRITE with zeros in it would count as done. */
static void test_aborted_stays_aborted(void **state)
{
	static struct world w;

	(void)state;
	for (uint32_t part = 0; part < FRAME_TRAILER_BYTES; part++) {
		world_open(&w);
		begin(&w);
		send_bytes(&w, w.head_bytes - FRAME_HEADER_BYTES + PAYLOAD_BYTES / 2);
		assert_int_equal(core_xfer_cancel(&w.peer.link.core, &w.xfer, TCPX_ERR_CANCELLED),
				 TCPX_OK);
		assert_int_equal(w.ended, 1);
		memset(w.source, 0xee, sizeof(w.source)); /* it is the caller's again */
		send_bytes(&w, PAYLOAD_BYTES / 2 + part);
		assert_int_equal(w.peer.link.core.count.aborted, 0); /* not through yet */
		send_bytes(&w, PAYLOAD_BYTES);
		assert_int_equal(trailer_status(&w), FRAME_ABORTED);
		assert_int_equal(w.peer.link.core.count.aborted, 1);
		assert_int_equal(w.peer.link.core.count.tx_bytes, 0);
		for (uint32_t i = 0; i < PAYLOAD_BYTES; i++)
			assert_int_equal(w.sink.taken[w.head_bytes + i],
					 i < PAYLOAD_BYTES / 2 ? SOURCE : 0);
		world_close(&w);
	}
}

static void cancel_inside(void *arg)
{
	struct world *w = arg;

	assert_int_equal(core_xfer_cancel(&w->peer.link.core, &w->xfer, TCPX_ERR_CANCELLED),
			 TCPX_OK);
	assert_int_equal(w->ended, 0); /* a call reads the memory */
}

/* The cancel comes while a call has the memory: the transfer ends when the call does, and the
 * memory is not read again. */
static void test_cancel_inside_a_call(void **state)
{
	static const uint64_t steps[] = {1, PAYLOAD_BYTES / 2, PAYLOAD_BYTES - 1};
	static struct world w;

	(void)state;
	for (unsigned n = 0; n < sizeof(steps) / sizeof(*steps); n++) {
		world_open(&w);
		begin(&w);
		w.sink.inside = cancel_inside;
		w.sink.arg = &w;
		send_bytes(&w, w.head_bytes - FRAME_HEADER_BYTES + steps[n]);
		assert_int_equal(w.ended, 1);
		memset(w.source, 0xee, sizeof(w.source)); /* it is the caller's again */
		send_bytes(&w, PAYLOAD_BYTES * 2);
		assert_int_equal(trailer_status(&w), FRAME_ABORTED);
		assert_int_equal(w.peer.link.core.count.aborted, 1);
		for (uint32_t i = 0; i < PAYLOAD_BYTES; i++)
			assert_int_equal(w.sink.taken[w.head_bytes + i], i < steps[n] ? SOURCE : 0);
		world_close(&w);
	}
}

/* The memory is taken away when the payload has left whole: the chunk stays valid, and its books
 * say what its trailer says. */
static void test_whole_stays_valid(void **state)
{
	static struct world w;

	(void)state;
	for (uint32_t part = 0; part < FRAME_TRAILER_BYTES; part++) {
		world_open(&w);
		begin(&w);
		send_bytes(&w, w.head_bytes - FRAME_HEADER_BYTES + PAYLOAD_BYTES + part);
		assert_int_equal(core_xfer_cancel(&w.peer.link.core, &w.xfer, TCPX_ERR_CANCELLED),
				 TCPX_OK);
		memset(w.source, 0xee, sizeof(w.source));
		send_bytes(&w, PAYLOAD_BYTES);
		assert_int_equal(trailer_status(&w), FRAME_VALID);
		assert_int_equal(w.peer.link.core.count.aborted, 0);
		for (uint32_t i = 0; i < PAYLOAD_BYTES; i++)
			assert_int_equal(w.sink.taken[w.head_bytes + i], SOURCE);
		world_close(&w);
	}
}

/* Cut anywhere, without a cancel: the same bytes. */
static void test_short_calls(void **state)
{
	static const uint32_t steps[] = {1, 7, 4096, PAYLOAD_BYTES - 1, PAYLOAD_BYTES * 2};
	static struct world w;

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
		world_open(&w);
		begin(&w);
		while (w.sink.bytes < w.head_bytes + PAYLOAD_BYTES + FRAME_TRAILER_BYTES)
			send_bytes(&w, steps[i]);
		assert_int_equal(trailer_status(&w), FRAME_VALID);
		assert_memory_equal(w.sink.taken + w.head_bytes, w.source, PAYLOAD_BYTES);
		assert_int_equal(w.peer.link.core.count.tx_bytes, PAYLOAD_BYTES);
		world_close(&w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_aborted_stays_aborted),
		cmocka_unit_test(test_cancel_inside_a_call),
		cmocka_unit_test(test_whole_stays_valid),
		cmocka_unit_test(test_short_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
