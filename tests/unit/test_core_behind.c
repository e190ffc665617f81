/* SPDX-License-Identifier: Apache-2.0 */
/* The core alone: a notification right behind its WRITE. What a peer that breaks the rules can not
 * have published or kept, and moments that a network meets seldom. */
#include "core_rig.h"

#define XFER 77u
#define NOTE 100u
#define COST (NOTE + CORE_NOTE_COST)

static struct frame data(uint64_t xfer)
{
	return (struct frame){.type = FRAME_DATA, .xfer = xfer, .payload_bytes = 8};
}

static struct frame note(uint64_t xfer, uint32_t bytes)
{
	return (struct frame){.type = FRAME_NOTIFY,
			      .key = FRAME_NOTE_PIGGYBACK,
			      .xfer = xfer,
			      .offset = bytes,
			      .payload_bytes = bytes};
}

static void lead(struct world *w, uint32_t channel, tcpx_status verdict)
{
	assert_int_equal(receive(w, channel, data(XFER), verdict), TCPX_OK);
}

static uint64_t kept(const struct world *w)
{
	return w->link.credit[FRAME_CREDIT_NOTIFY].taken -
	       w->link.credit[FRAME_CREDIT_NOTIFY].given;
}

static void test_published_behind_its_bytes(void **state)
{
	struct world *w = world_open();

	(void)state;
	lead(w, 1, TCPX_OK);
	assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 1);
	assert_int_equal(kept(w), COST);
	lead(w, 0, TCPX_OK);
	assert_int_equal(receive(w, 0, note(XFER, 0), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 2);
	world_close(w);
}

/* The bytes are fetched from where they lie: applied when that is over. */
static void test_behind_a_reference(void **state)
{
	struct frame ref = data(XFER);
	struct world *w = world_open();

	(void)state;
	ref.flags = FRAME_F_REF;
	ref.table_bytes = ref.follows = 9;
	assert_int_equal(receive(w, 1, ref, TCPX_IN_PROGRESS), TCPX_OK);
	assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 0);
	core_rx_committed(&w->link, 1, 1, 1, 0, 8, 0, TCPX_OK);
	assert_int_equal(w->notes, 1);
	ref.linear = 8;
	assert_int_equal(receive(w, 1, ref, TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	world_close(w);
}

/* Each of these ends the link, and nothing is kept of it. */
static void test_behind_nothing(void **state)
{
	struct frame rest = data(XFER), more = data(XFER), nop = {.type = FRAME_NOP};
	struct frame wrong[] = {note(XFER + 1, NOTE), note(XFER, NOTE), note(XFER, NOTE)};
	struct world *w = world_open();
	uint64_t memory = w->memory;

	(void)state;
	rest.linear = 8;
	more.follows = 1;
	wrong[1].linear = 1;
	wrong[2].offset = NOTE + 1;
	/* the first frame of its channel */
	assert_int_equal(begin(w, 1, note(0, NOTE)), TCPX_ERR_PROTOCOL);
	/* behind the last of several chunks, the first of several, another frame */
	assert_int_equal(receive(w, 1, rest, TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	assert_int_equal(receive(w, 1, more, TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	lead(w, 1, TCPX_OK);
	assert_int_equal(receive(w, 1, nop, TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	/* on another channel */
	lead(w, 1, TCPX_OK);
	assert_int_equal(begin(w, 2, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	/* of another transfer; not whole */
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(begin(w, 1, wrong[i]), TCPX_ERR_PROTOCOL);
	/* twice */
	assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	assert_int_equal(w->notes, 1);
	assert_int_equal(w->memory, memory);
	world_close(w);
}

/* What lay before it in the last epoch does not count. */
static void test_first_of_an_epoch(void **state)
{
	struct frame first = note(XFER, NOTE);
	struct world *w = world_open();
	struct core_rx rx;

	(void)state;
	lead(w, 1, TCPX_OK);
	core_chan_lost(&w->link, 1);
	assert_int_equal(core_chan_fence(&w->link, 1, 1, 0, NULL, 0), TCPX_OK);
	assert_int_equal(core_chan_up(&w->link, 1, 2), TCPX_OK);
	first.epoch = 2;
	first.seq = 1;
	assert_int_equal(core_rx_begin(&w->link, 1, &first, &rx), TCPX_ERR_PROTOCOL);
	world_close(w);
}

static void test_not_paid_for(void **state)
{
	struct world *w = world_open();
	uint64_t budget = w->link.cfg.credit_in[FRAME_CREDIT_NOTIFY], memory = w->memory;

	(void)state;
	w->link.credit[FRAME_CREDIT_NOTIFY].taken = budget - COST + 1;
	lead(w, 1, TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_ERR_PROTOCOL);
	assert_int_equal(w->memory, memory);
	w->link.credit[FRAME_CREDIT_NOTIFY].taken--;
	assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	world_close(w);
}

/* Dropped where its bytes do not count; acknowledged, and its budget is given back. */
static void test_dropped(void **state)
{
	struct world *w = world_open();
	uint64_t given = w->link.credit[FRAME_CREDIT_NOTIFY].given, memory;

	(void)state;
	lead(w, 1, TCPX_ERR_REMOTE_KEY);
	memory = w->memory;
	assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	assert_int_equal(w->link.credit[FRAME_CREDIT_NOTIFY].given - given, COST);
	assert_int_equal(w->link.chan[1].rxseq.applied, 2);
	assert_int_equal(begin(w, 2, data(XFER)), TCPX_OK);
	assert_int_equal(core_rx_end(&w->link, 2, false, TCPX_OK, ""), TCPX_OK);
	assert_int_equal(receive(w, 2, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	/* its own frame was aborted */
	lead(w, 2, TCPX_OK);
	assert_int_equal(begin(w, 2, note(XFER, NOTE)), TCPX_OK);
	assert_int_equal(core_rx_end(&w->link, 2, false, TCPX_OK, ""), TCPX_OK);
	assert_int_equal(w->link.chan[2].rxseq.applied, 4);
	assert_int_equal(kept(w), 0);
	assert_int_equal(w->notes, 0);
	assert_int_equal(w->memory, memory);
	world_close(w);
}

/* Commits end in any order; each publishes, or drops, what is behind its own chunk. */
static void test_commits_in_any_order(void **state)
{
	static const uint64_t order[] = {3, 1, 5};
	struct world *w = world_open();

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(receive(w, 1, data(XFER), TCPX_IN_PROGRESS), TCPX_OK);
		assert_int_equal(receive(w, 1, note(XFER, NOTE), TCPX_OK), TCPX_OK);
	}
	assert_int_equal(w->notes, 0);
	for (uint32_t i = 0; i < 3; i++) {
		core_rx_committed(&w->link, 1, 1, order[i], 0, 8, 0,
				  i == 1 ? TCPX_ERR_CORRUPT : TCPX_OK);
		assert_int_equal(w->notes, i == 0 ? 1 : i);
		assert_int_equal(w->link.chan[1].rxseq.applied, i == 0 ? 0 : 2 * (i + 1));
	}
	assert_int_equal(kept(w), 2 * COST);
	world_close(w);
}

/* The commit ends while the notification arrives: it is published when it is whole. */
static void test_commit_ends_in_between(void **state)
{
	struct world *w = world_open();

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		tcpx_status end = i ? TCPX_ERR_CORRUPT : TCPX_OK;

		assert_int_equal(receive(w, 1, data(XFER), TCPX_IN_PROGRESS), TCPX_OK);
		assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_OK);
		core_rx_committed(&w->link, 1, 1, 1 + 2 * i, 0, 8, 0, end);
		assert_int_equal(w->notes, i);
		assert_int_equal(core_rx_end(&w->link, 1, true, TCPX_OK, ""), TCPX_OK);
		assert_int_equal(w->notes, 1);
		assert_int_equal(w->link.chan[1].rxseq.applied, 2 + 2 * i);
	}
	world_close(w);
}

/* Half of it came, then the channel is lost: it is as if it never began. */
static void test_lost_half_way(void **state)
{
	struct world *w = world_open();
	uint64_t memory = w->memory;

	(void)state;
	lead(w, 1, TCPX_OK);
	assert_int_equal(begin(w, 1, note(XFER, NOTE)), TCPX_OK);
	assert_true(w->memory > memory);
	core_chan_lost(&w->link, 1);
	assert_int_equal(w->memory, memory);
	assert_int_equal(kept(w), 0);
	lead(w, 2, TCPX_OK);
	assert_int_equal(begin(w, 2, note(XFER, NOTE)), TCPX_OK);
	world_close(w); /* and with its link */
}

/* --- the sender --- */

static void post(struct world *w, struct core_xfer *write, uint32_t bytes)
{
	static const char text[CORE_PIGGYBACK_BYTES + 1];

	*write = (struct core_xfer){.op = TCPX_OP_WRITE,
				    .segs = one_piece(8),
				    .notify = text,
				    .notify_bytes = bytes,
				    .has_notify = true};
	assert_int_equal(core_xfer_post(&w->link, write), TCPX_OK);
}

static struct frame next(struct world *w, uint32_t channel)
{
	struct core_tx tx;

	assert_int_equal(core_tx_next(&w->link, channel, &tx), 1);
	return tx.frame;
}

static void acknowledge(struct world *w, uint32_t channel, uint64_t seq)
{
	struct frame ack = {.type = FRAME_ACK, .linear = seq, .key = seq, .epoch = 1};
	struct core_rx rx;

	assert_int_equal(core_rx_begin(&w->link, channel, &ack, &rx), TCPX_OK);
	assert_int_equal(core_rx_end(&w->link, channel, true, TCPX_OK, ""), TCPX_OK);
}

static void check_behind(struct frame frame, const struct core_xfer *write)
{
	assert_int_equal(frame.type, FRAME_NOTIFY);
	assert_int_equal(frame.key, FRAME_NOTE_PIGGYBACK);
	assert_int_equal(frame.xfer, write->id);
}

/* Whatever else waits: refusals, acknowledgements, credits. One acknowledgement is asked for. */
static void test_nothing_comes_between(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	struct frame frame;

	(void)state;
	post(w, &write, NOTE);
	frame = next(w, 0);
	assert_int_equal(frame.type, FRAME_DATA);
	assert_false(frame.flags & FRAME_F_ACK);
	lead(w, 0, TCPX_ERR_REMOTE_KEY);
	core_note_consumed(&w->link, 1 << 19, true);
	core_tx_sent(&w->link, 0, true);
	frame = next(w, 0);
	check_behind(frame, &write);
	assert_int_equal(frame.seq, 2);
	assert_true(frame.flags & FRAME_F_ACK);
	core_tx_sent(&w->link, 0, true);
	assert_int_equal(w->notifying, 0);
	acknowledge(w, 0, 1);
	assert_int_equal(w->notifying, 1);
	acknowledge(w, 0, 2);
	assert_int_equal(w->notifying, 1);
	assert_int_equal(write.state, CORE_FINAL);
	assert_int_equal(write.status, TCPX_OK);
	world_close(w);
}

/* What is lent is asked for by the notification, and where that does not leave, by a frame of its
 * own: the request waits for it. */
static void test_lent_and_cancelled(void **state)
{
	struct core_xfer write = {.op = TCPX_OP_WRITE,
				  .segs = one_piece(8),
				  .notify = "note",
				  .notify_bytes = 4,
				  .has_notify = true,
				  .path = CORE_PATH_REFERENCE};
	struct world *w = world_open();

	(void)state;
	for (uint64_t i = 0; i < 2; i++) {
		bool cancel = i;
		struct frame frame;

		assert_int_equal(core_xfer_post(&w->link, &write), TCPX_OK);
		frame = next(w, 0);
		assert_true(frame.flags & FRAME_F_REF);
		assert_false(frame.flags & FRAME_F_ACK);
		if (cancel)
			(void)core_xfer_cancel(&w->link, &write, TCPX_ERR_CANCELLED);
		core_tx_sent(&w->link, 0, true);
		frame = next(w, 0);
		assert_true(frame.flags & FRAME_F_ACK);
		if (cancel)
			assert_int_equal(frame.type, FRAME_NOP);
		else
			check_behind(frame, &write);
		core_tx_sent(&w->link, 0, true);
		assert_int_not_equal(write.state, CORE_FINAL);
		acknowledge(w, 0, 2 * i + 2);
		assert_int_equal(write.status, cancel ? TCPX_ERR_CANCELLED : TCPX_OK);
		assert_int_equal(write.state, CORE_FINAL);
	}
	world_close(w);
}

/* Larger ones wait for the bytes, and ask for their own acknowledgement. */
static void test_large_ones_wait(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	struct core_tx tx;

	(void)state;
	w->link.cfg.chunk_bytes = 2 * CORE_PIGGYBACK_BYTES;
	post(w, &write, CORE_PIGGYBACK_BYTES + 1);
	assert_true(next(w, 0).flags & FRAME_F_ACK);
	core_tx_sent(&w->link, 0, true);
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 0);
	acknowledge(w, 0, 1);
	assert_int_equal(next(w, 0).key, FRAME_NOTE_ATTACHED);
	core_tx_sent(&w->link, 0, true);
	acknowledge(w, 0, 2);
	assert_int_equal(write.status, TCPX_OK);
	post(w, &write, CORE_PIGGYBACK_BYTES);
	assert_int_equal(next(w, 0).type, FRAME_DATA);
	core_tx_sent(&w->link, 0, true);
	check_behind(next(w, 0), &write);
	world_close(w);
}

/* The bytes are acknowledged before their call is over, since somebody else asked: the notification
 * goes by itself, once. */
static void test_acknowledged_in_its_call(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	struct core_tx tx;

	(void)state;
	post(w, &write, NOTE);
	assert_int_equal(next(w, 0).type, FRAME_DATA);
	acknowledge(w, 0, 1);
	core_tx_sent(&w->link, 0, true);
	assert_int_equal(next(w, 0).key, FRAME_NOTE_ATTACHED);
	core_tx_sent(&w->link, 0, true);
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 0);
	assert_int_equal(write.state, CORE_NOTIFYING);
	acknowledge(w, 0, 2);
	assert_int_equal(write.status, TCPX_OK);
	world_close(w);
}

/* The notification is acknowledged within its call: its bytes stay until that is over. */
static void test_notification_acknowledged_in_its_call(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	uint64_t memory;

	(void)state;
	post(w, &write, NOTE);
	memory = w->memory;
	(void)next(w, 0);
	core_tx_sent(&w->link, 0, true);
	check_behind(next(w, 0), &write);
	acknowledge(w, 0, 2);
	assert_int_equal(w->memory, memory);
	core_tx_sent(&w->link, 0, true);
	assert_true(w->memory < memory);
	assert_int_equal(write.status, TCPX_OK);
	world_close(w);
}

/* Bytes whose source is still being read are acknowledged with their notification: it ends when
 * that is over. */
static void test_acknowledged_while_it_is_read(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	struct core_io read = {.xfer = &write, .refs = &write.refs};

	(void)state;
	post(w, &write, NOTE);
	write.refs++; /* as of a fill that was taken back */
	(void)next(w, 0);
	core_tx_sent(&w->link, 0, true);
	check_behind(next(w, 0), &write);
	core_tx_sent(&w->link, 0, true);
	acknowledge(w, 0, 2);
	assert_int_equal(write.state, CORE_ACTIVE);
	core_io_drop(&w->link, &read);
	assert_int_equal(write.state, CORE_FINAL);
	assert_int_equal(write.status, TCPX_OK);
	world_close(w);
}

static void lose(struct world *w, uint64_t applied, const struct core_nack *nack)
{
	core_chan_lost(&w->link, 0);
	assert_int_equal(core_chan_fence(&w->link, 0, 1, applied, nack, nack != NULL), TCPX_OK);
}

/* What the fence says decides what goes again, and how. */
static void test_fences(void **state)
{
	static const struct core_nack refused = {.seq = 1, .status = TCPX_ERR_REMOTE_KEY};
	struct core_xfer write;

	(void)state;
	for (uint64_t applied = 0; applied < 4; applied++) {
		struct world *w = world_open();
		uint64_t used = w->link.credit[FRAME_CREDIT_NOTIFY].used;
		struct core_tx tx;

		post(w, &write, NOTE);
		(void)next(w, 0);
		core_tx_sent(&w->link, 0, true);
		check_behind(next(w, 0), &write);
		core_tx_sent(&w->link, 0, true);
		lose(w, applied == 3 ? 1 : applied, applied == 3 ? &refused : NULL);
		switch (applied) {
		case 0: /* neither */
			assert_int_equal(next(w, 1).type, FRAME_DATA);
			core_tx_sent(&w->link, 1, true);
			check_behind(next(w, 1), &write);
			break;
		case 1: /* the bytes alone */
			assert_int_equal(write.state, CORE_NOTIFYING);
			assert_int_equal(next(w, 1).key, FRAME_NOTE_ATTACHED);
			core_tx_sent(&w->link, 1, true);
			acknowledge(w, 1, 1);
			assert_int_equal(write.status, TCPX_OK);
			break;
		case 2: /* both */
			assert_int_equal(write.status, TCPX_OK);
			break;
		default: /* the bytes were refused */
			assert_int_equal(write.status, TCPX_ERR_REMOTE_KEY);
			assert_int_equal(core_tx_next(&w->link, 1, &tx), 0);
			assert_int_equal(w->link.credit[FRAME_CREDIT_NOTIFY].used, used);
			assert_true(list_empty(&w->link.notify.notes));
			break;
		}
		world_close(w);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published_behind_its_bytes),
		cmocka_unit_test(test_behind_a_reference),
		cmocka_unit_test(test_behind_nothing),
		cmocka_unit_test(test_first_of_an_epoch),
		cmocka_unit_test(test_not_paid_for),
		cmocka_unit_test(test_dropped),
		cmocka_unit_test(test_commits_in_any_order),
		cmocka_unit_test(test_commit_ends_in_between),
		cmocka_unit_test(test_lost_half_way),
		cmocka_unit_test(test_nothing_comes_between),
		cmocka_unit_test(test_lent_and_cancelled),
		cmocka_unit_test(test_large_ones_wait),
		cmocka_unit_test(test_acknowledged_in_its_call),
		cmocka_unit_test(test_notification_acknowledged_in_its_call),
		cmocka_unit_test(test_acknowledged_while_it_is_read),
		cmocka_unit_test(test_fences),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
