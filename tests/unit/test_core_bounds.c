/* SPDX-License-Identifier: Apache-2.0 */
/* The core alone: what a peer that breaks the rules can make us keep ends, what it cannot have is
 * not published, and calls of the transport that end another way than they began. */
#include "core_rig.h"

#define NOTE_BYTES 100

static struct frame part(uint64_t linear, uint32_t bytes)
{
	return (struct frame){.type = FRAME_NOTIFY,
			      .xfer = 1,
			      .linear = linear,
			      .offset = NOTE_BYTES,
			      .payload_bytes = bytes};
}

static void test_answers_nobody_takes(void **state)
{
	struct frame cts = {.type = FRAME_CTS, .xfer = 77, .key = 1, .offset = 1};
	struct world *w = world_open();
	uint64_t kept;

	(void)state;
	for (uint32_t i = 0; i < CORE_CTL_MAX; i++)
		assert_int_equal(receive(w, 0, cts, TCPX_OK), TCPX_OK);
	assert_int_equal(w->failed, TCPX_OK);
	kept = w->memory;
	for (uint32_t i = 0; i < 10; i++)
		(void)receive(w, 0, cts, TCPX_OK);
	assert_int_equal(w->failed, TCPX_ERR_PROTOCOL);
	assert_int_equal(w->memory, kept);
	world_close(w);
}

static void test_refusals_nobody_takes(void **state)
{
	struct frame data = {.type = FRAME_DATA, .payload_bytes = 1};
	struct world *w = world_open();
	uint64_t kept;

	(void)state;
	for (uint32_t i = 0; i < CORE_NACKS_MAX; i++)
		assert_int_equal(receive(w, 1, data, TCPX_ERR_REMOTE_KEY), TCPX_OK);
	assert_int_equal(w->failed, TCPX_OK);
	kept = w->memory;
	for (uint32_t i = 0; i < 10; i++)
		(void)receive(w, 1, data, TCPX_ERR_REMOTE_KEY);
	assert_int_equal(w->failed, TCPX_ERR_PROTOCOL);
	assert_int_equal(w->memory, kept);
	world_close(w);
}

/* Chunks are refused in whatever order their commits end. Told are they from the first on, when all
 * before them are through: others would fill the places that full rings have for it, and nothing
 * would be acknowledged any more. */
static void test_refusals_are_told_in_order(void **state)
{
	enum { COUNT = 40 };
	struct frame data = {.type = FRAME_DATA, .payload_bytes = 1};
	struct world *w = world_open();
	uint32_t epoch = w->link.chan[1].epoch;
	uint64_t seq = 1;
	struct core_tx tx;

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(receive(w, 1, data, TCPX_IN_PROGRESS), TCPX_OK);
	for (uint64_t i = COUNT; i > 1; i--) {
		core_rx_committed(&w->link, 1, epoch, i, 0, 1, 0, TCPX_ERR_CORRUPT);
		assert_int_equal(core_tx_next(&w->link, 1, &tx), 0);
	}
	core_rx_committed(&w->link, 1, epoch, 1, 0, 1, 0, TCPX_OK);
	while (core_tx_next(&w->link, 1, &tx)) {
		if (tx.frame.type == FRAME_NACK)
			assert_int_equal(tx.frame.linear, ++seq);
		core_tx_sent(&w->link, 1, true);
	}
	assert_int_equal(seq, COUNT);
	world_close(w);
}

/* A SEND that ends unannounced leaves its number to be told; nobody takes them: there is an end. */
static void test_cancelled_sends_nobody_takes(void **state)
{
	struct world *w = world_open();
	struct core_seg end = {0};
	struct core_segs segs = {.seg = &end};
	struct core_xfer send = {.op = TCPX_OP_SEND, .segs = &segs};

	(void)state;
	for (uint32_t i = 0; i < CORE_CANCELLED_MAX; i++) {
		assert_int_equal(core_xfer_post(&w->link, &send), TCPX_OK);
		assert_int_equal(core_xfer_cancel(&w->link, &send, TCPX_ERR_CANCELLED), TCPX_OK);
	}
	assert_int_equal(core_xfer_post(&w->link, &send), TCPX_ERR_AGAIN);
	world_close(w);
}

/* They leave in the order of their numbers, each paid for. */
static void test_cancelled_sends_are_told(void **state)
{
	static const uint32_t order[] = {3, 0, 2, 1};
	struct world *w = world_open();
	struct core_seg end = {0};
	struct core_segs segs = {.seg = &end};
	struct core_xfer sends[5];
	struct core_tx tx;

	(void)state;
	memset(sends, 0, sizeof(sends));
	for (uint32_t i = 0; i < 5; i++) {
		sends[i].op = TCPX_OP_SEND;
		sends[i].segs = &segs;
		assert_int_equal(core_xfer_post(&w->link, &sends[i]), TCPX_OK);
	}
	for (uint32_t i = 0; i < 4; i++)
		assert_int_equal(core_xfer_cancel(&w->link, &sends[order[i]], TCPX_ERR_CANCELLED),
				 TCPX_OK);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(core_tx_next(&w->link, 0, &tx), 1);
		assert_int_equal(tx.frame.type, i < 4 ? FRAME_CANCEL : FRAME_SEND);
		assert_int_equal(tx.frame.linear, i + 1);
		assert_int_equal(tx.frame.offset, 0);
		core_tx_sent(&w->link, 0, true);
	}
	assert_int_equal(w->link.credit[FRAME_CREDIT_EAGER].used, 5 * CORE_NOTE_COST);
	world_close(w);
}

static void test_note_of_parts(void **state)
{
	struct world *w = world_open();

	(void)state;
	assert_int_equal(receive(w, 1, part(60, 40), TCPX_OK), TCPX_OK);
	assert_int_equal(receive(w, 2, part(0, 10), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 0);
	assert_int_equal(receive(w, 1, part(10, 50), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 1);
	world_close(w);
}

/* The sum is right, and some bytes were never written. */
static void test_note_with_a_hole(void **state)
{
	struct world *w = world_open();

	(void)state;
	assert_int_equal(receive(w, 1, part(0, 50), TCPX_OK), TCPX_OK);
	assert_int_equal(receive(w, 2, part(0, 50), TCPX_OK), TCPX_ERR_PROTOCOL);
	assert_int_equal(w->notes, 0);
	world_close(w);
}

/* The same part on two channels at once: the first to end publishes nothing the other writes. */
static void test_note_part_twice_at_once(void **state)
{
	struct world *w = world_open();

	(void)state;
	assert_int_equal(begin(w, 1, part(0, NOTE_BYTES)), TCPX_OK);
	assert_int_equal(begin(w, 2, part(0, NOTE_BYTES)), TCPX_ERR_PROTOCOL);
	assert_int_equal(begin(w, 0, part(0, 0)), TCPX_ERR_PROTOCOL);
	assert_int_equal(core_rx_end(&w->link, 1, true, TCPX_OK, ""), TCPX_OK);
	assert_int_equal(w->notes, 1);
	world_close(w);
}

/* A part that was lost with its channel may come again. */
static void test_note_part_lost(void **state)
{
	struct world *w = world_open();

	(void)state;
	assert_int_equal(begin(w, 1, part(0, NOTE_BYTES)), TCPX_OK);
	core_chan_lost(&w->link, 1);
	assert_int_equal(receive(w, 2, part(0, NOTE_BYTES), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 1);
	world_close(w);
}

/* An acknowledgement may overtake the end of the call that sends the frame. */
static void test_note_acknowledged_in_its_call(void **state)
{
	struct world *w = world_open();
	struct frame ack = {.type = FRAME_ACK, .linear = 1, .key = 1, .epoch = 1};
	struct core_rx rx;
	struct core_tx tx;
	uint64_t kept;

	(void)state;
	assert_int_equal(core_note_send(&w->link, "hello", 5), TCPX_OK);
	kept = w->memory;
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 1);
	assert_int_equal(core_rx_begin(&w->link, 0, &ack, &rx), TCPX_OK);
	assert_int_equal(core_rx_end(&w->link, 0, true, TCPX_OK, ""), TCPX_OK);
	assert_int_equal(w->memory, kept);
	assert_memory_equal(tx.bytes, "hello", 5);
	core_tx_sent(&w->link, 0, true);
	assert_true(w->memory < kept);
	world_close(w);
}

/* A frame that is refused half-way leaves its call open; its transfer ends all the same. */
static void test_fail_within_a_call(void **state)
{
	struct world *w = world_open();
	struct core_seg seg[2] = {{0}, {.linear = 10}};
	uint64_t key = 1;
	struct core_segs segs = {
		.total = 10, .nseg = 1, .seg = seg, .remote = &key, .nlocal = 1, .nremote = 1};
	struct core_xfer write = {.op = TCPX_OP_WRITE, .segs = &segs};
	struct core_tx tx;

	(void)state;
	assert_int_equal(core_xfer_post(&w->link, &write), TCPX_OK);
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 1);
	core_link_fail(&w->link, TCPX_ERR_PROTOCOL);
	assert_int_equal(write.state, CORE_FINAL);
	assert_int_equal(write.status, TCPX_ERR_PROTOCOL);
	world_close(w);
}

/* A channel is lost with a frame that was lent: what of it was taken back unread goes again, though
 * the peer, which looks at the frame's length alone, counts it as received. */
static void test_lent_frame_taken_back(void **state)
{
	struct core_seg seg[2] = {{0}, {.linear = 3 * 4096}};
	uint64_t key = 1;
	struct core_segs segs = {.total = 3 * 4096,
				 .nseg = 1,
				 .seg = seg,
				 .remote = &key,
				 .nlocal = 1,
				 .nremote = 1};
	struct core_xfer write = {.op = TCPX_OP_WRITE, .segs = &segs};
	struct world *w = world_open();
	struct core_tx first, tx;

	(void)state;
	w->link.cfg.small_bytes = 1;
	assert_int_equal(core_xfer_post(&w->link, &write), TCPX_OK);
	assert_int_equal(core_tx_next(&w->link, 1, &tx), 1);
	core_tx_sent(&w->link, 1, true);
	assert_int_equal(core_tx_next(&w->link, 1, &first), 1);
	core_tx_unread(&w->link, 1);
	core_chan_lost(&w->link, 1);
	assert_int_equal(core_chan_fence(&w->link, 1, 1, 2, NULL, 0), TCPX_OK);
	assert_int_equal(w->link.count.resent, 1);
	assert_int_equal(core_tx_next(&w->link, 2, &tx), 1);
	assert_int_equal(tx.frame.linear, first.frame.linear);
	assert_int_equal(tx.frame.payload_bytes, first.frame.payload_bytes);
	core_tx_sent(&w->link, 2, true);
	assert_int_equal(write.state, CORE_ACTIVE);
	world_close(w);
	assert_int_equal(write.state, CORE_FINAL);
}

/* Who has a frame's memory lent is told to come back for it, and the transfer ends when he did. */
static void test_cancel_calls_the_lender_back(void **state)
{
	struct core_seg seg[2] = {{0}, {.linear = 4096}};
	uint64_t key = 1;
	struct core_segs segs = {
		.total = 4096, .nseg = 1, .seg = seg, .remote = &key, .nlocal = 1, .nremote = 1};
	struct core_xfer write = {.op = TCPX_OP_WRITE, .segs = &segs};
	struct world *w = world_open();
	uint32_t before[3];
	struct core_tx tx;

	(void)state;
	w->link.cfg.small_bytes = 1;
	assert_int_equal(core_xfer_post(&w->link, &write), TCPX_OK);
	assert_int_equal(core_tx_next(&w->link, 1, &tx), 1);
	memcpy(before, w->kicks, sizeof(before));
	assert_int_equal(core_xfer_cancel(&w->link, &write, TCPX_ERR_CANCELLED), TCPX_OK);
	assert_int_equal(w->kicks[1], before[1] + 1);
	assert_int_not_equal(write.state, CORE_FINAL); /* the call has its memory */
	core_tx_sent(&w->link, 1, true);
	assert_int_equal(write.state, CORE_FINAL);
	assert_int_equal(write.status, TCPX_ERR_CANCELLED);
	world_close(w);
}

/* How a READ may want its answer. */
static void test_a_request_of_no_known_way(void **state)
{
	struct frame request = {.type = FRAME_READ_REQ, .xfer = 1, .offset = 1, .table_bytes = 9};
	struct world *w = world_open();

	(void)state;
	for (request.key = 0; request.key <= FRAME_READ_BY_PRIO; request.key++)
		assert_int_equal(receive(w, 0, request, TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 0, request), TCPX_ERR_PROTOCOL);
	world_close(w);
}

/* A CTS that comes again sends nothing again, whatever the receiver calls its side. */
static void test_a_send_is_cleared_once(void **state)
{
	for (uint64_t key = 0; key < 2; key++) {
		struct core_seg seg[2] = {{0}, {.linear = 1 << 16}};
		void *region = seg; /* looked at by nobody here */
		struct core_segs segs = {
			.seg = seg, .nseg = 1, .total = 1 << 16, .local = &region, .nlocal = 1};
		struct core_xfer send = {.op = TCPX_OP_SEND, .segs = &segs};
		struct frame cts = {.type = FRAME_CTS, .key = key, .offset = segs.total};
		struct world *w = world_open();
		uint64_t sent = 0;
		struct core_tx tx;

		(void)state;
		assert_int_equal(core_xfer_post(&w->link, &send), TCPX_OK);
		cts.xfer = send.id;
		for (int again = 0; again < 3; again++) {
			for (uint32_t chan = 0; chan < 3; chan++)
				while (core_tx_next(&w->link, chan, &tx)) {
					sent += tx.frame.type == FRAME_SDATA
							? tx.frame.payload_bytes
							: 0;
					core_tx_sent(&w->link, chan, true);
				}
			assert_int_equal(sent, again ? segs.total : 0);
			assert_int_equal(receive(w, 0, cts, TCPX_OK), TCPX_OK);
		}
		world_close(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers_nobody_takes),
		cmocka_unit_test(test_refusals_nobody_takes),
		cmocka_unit_test(test_refusals_are_told_in_order),
		cmocka_unit_test(test_cancelled_sends_nobody_takes),
		cmocka_unit_test(test_cancelled_sends_are_told),
		cmocka_unit_test(test_note_of_parts),
		cmocka_unit_test(test_note_with_a_hole),
		cmocka_unit_test(test_note_part_twice_at_once),
		cmocka_unit_test(test_note_part_lost),
		cmocka_unit_test(test_note_acknowledged_in_its_call),
		cmocka_unit_test(test_fail_within_a_call),
		cmocka_unit_test(test_lent_frame_taken_back),
		cmocka_unit_test(test_cancel_calls_the_lender_back),
		cmocka_unit_test(test_a_request_of_no_known_way),
		cmocka_unit_test(test_a_send_is_cleared_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
