/* SPDX-License-Identifier: Apache-2.0 */
/* The core alone: into which chunks a transfer is cut. This depends on the channel that carries it
 * and on what else there is to send. */
#define RIG_BULK 4
#include "core_rig.h"

#define TOTAL 10000u /* two chunks of the rig's 4096 bytes, and a rest */
#define CHUNK (4 * CORE_FIRST_CHUNK)
#define FIRSTS (2 * RIG_BULK + 1) /* frames of frames_are() */

static void post_bytes(struct world *w, struct core_xfer *write, bool by_prio, uint64_t bytes)
{
	w->link.cfg.small_bytes = 0; /* no WRITE is short enough for the priority channel */
	*write = (struct core_xfer){.op = TCPX_OP_WRITE,
				    .segs = one_piece(bytes),
				    .notify = "note",
				    .notify_bytes = 4,
				    .has_notify = true,
				    .by_prio = by_prio};
	assert_int_equal(core_xfer_post(&w->link, write), TCPX_OK);
}

static void post(struct world *w, struct core_xfer *write, bool by_prio)
{
	post_bytes(w, write, by_prio, TOTAL);
}

/* Takes the channel's next frame, and says that it was sent. */
static struct frame send_next(struct world *w, uint32_t channel)
{
	struct core_tx tx;

	assert_int_equal(core_tx_next(&w->link, channel, &tx), 1);
	core_tx_sent(&w->link, channel, true);
	return tx.frame;
}

/* On the priority channel a WRITE is one chunk, so its notification leaves right after it. */
static void one_chunk_on_the_priority_channel(void **state)
{
	struct world *w = world_open();
	struct core_xfer write;
	struct frame frame;

	(void)state;
	post(w, &write, true);
	frame = send_next(w, 0);
	assert_int_equal(frame.type, FRAME_DATA);
	assert_int_equal(frame.payload_bytes, TOTAL);
	frame = send_next(w, 0);
	assert_int_equal(frame.type, FRAME_NOTIFY);
	assert_int_equal(frame.key, FRAME_NOTE_PIGGYBACK);
	world_close(w);
}

/* The other channels share the bytes, so the notification waits until all are acknowledged. */
static void several_chunks_on_the_others(void **state)
{
	static const uint32_t bytes[] = {4096, 4096, TOTAL - 2 * 4096};
	struct world *w = world_open();
	struct core_xfer write;
	struct core_tx tx;

	(void)state;
	post(w, &write, false);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(send_next(w, 1 + i % 2).payload_bytes, bytes[i]);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(core_tx_next(&w->link, i, &tx), 0);
	world_close(w);
}

static struct world *world_of_chunks(uint32_t chunk)
{
	struct world *w = world_open();
	struct core_tx tx;

	w->link.cfg.chunk_bytes = chunk;
	for (uint32_t i = 0; i <= RIG_BULK; i++) /* a channel without work is idle afterwards */
		assert_int_equal(core_tx_next(&w->link, i, &tx), 0);
	return w;
}

/* Takes the next frames of the bulk channels in turns, and compares their lengths: of the first
 * frames of all channels, of their second ones, and of one more. */
static void frames_are(struct world *w, uint32_t first, uint32_t second, uint32_t third)
{
	const uint32_t bytes[] = {first, second, third};

	for (uint32_t i = 0; i < FIRSTS; i++)
		assert_int_equal(send_next(w, 1 + i % RIG_BULK).payload_bytes, bytes[i / RIG_BULK]);
}

static uint32_t channels_kicked(const struct world *w)
{
	uint32_t n = 0;

	for (uint32_t i = 1; i <= RIG_BULK; i++)
		n += w->kicks[i] > 0;
	return n;
}

/* A WRITE that is alone begins with small chunks, so that all channels begin early: one of a
 * quarter and one of half the size for each. No chunk is smaller than CORE_FIRST_CHUNK. */
static void alone_begins_with_small_chunks(void **state)
{
	struct world *w = world_of_chunks(CHUNK);
	struct core_xfer write;

	(void)state;
	post_bytes(w, &write, false, 8 * CHUNK);
	frames_are(w, CHUNK / 4, CHUNK / 2, CHUNK);
	world_close(w);

	w = world_of_chunks(CHUNK / 2);
	post_bytes(w, &write, false, 8 * CHUNK);
	frames_are(w, CHUNK / 4, CHUNK / 2, CHUNK / 2);
	world_close(w);
}

static void answer(struct world *w, struct core_resp *resp, bool fills)
{
	bool due;

	memset(resp, 0, sizeof(*resp));
	resp->segs = *one_piece(8 * CHUNK);
	resp->job.fills = fills;
	assert_true(core_credit_charge(&w->link.credit[FRAME_CREDIT_READ], 1, &due));
	w->resps++;
	core_resp_start(&w->link, resp);
}

/* The answer to a READ does so, too, if it is the only one, and even if its source is staged: then
 * it is filled in such pieces. */
static void one_answer_begins_with_small_chunks(void **state)
{
	struct core_resp resp[2];
	struct core_fill fill;
	struct world *w = world_of_chunks(CHUNK);

	(void)state;
	answer(w, &resp[0], false);
	frames_are(w, CHUNK / 4, CHUNK / 2, CHUNK);
	world_close(w);

	w = world_of_chunks(CHUNK);
	for (uint32_t i = 0; i < 2; i++) {
		answer(w, &resp[i], true);
		assert_true(core_fill_next(&w->link, &fill));
		assert_int_equal(fill.bytes, i ? CHUNK / 2 : CHUNK / 4);
		list_remove(&resp[i].job.fill.node);
	}
	world_close(w);
}

/* A WRITE that is a little longer than one chunk of the usual size wakes all channels, because the
 * first chunks are small. */
static void each_small_chunk_has_a_channel(void **state)
{
	struct world *w = world_of_chunks(CHUNK);
	struct core_xfer write;

	(void)state;
	memset(w->kicks, 0, sizeof(w->kicks));
	post_bytes(w, &write, false, CHUNK + 1);
	assert_int_equal(channels_kicked(w), RIG_BULK);
	world_close(w);
}

/* While something else is sent, or waits, chunks have their usual size. */
static void company_is_cut_as_usual(void **state)
{
	struct core_xfer write[2];
	struct world *w = world_of_chunks(CHUNK);

	(void)state;
	/* The channel has sent a whole WRITE and its notification, but is not idle yet. */
	post_bytes(w, &write[0], false, CHUNK);
	assert_int_equal(send_next(w, 1).payload_bytes, CHUNK);
	assert_int_equal(send_next(w, 1).type, FRAME_NOTIFY);
	post_bytes(w, &write[1], false, 16 * CHUNK);
	frames_are(w, CHUNK, CHUNK, CHUNK);
	world_close(w);

	w = world_of_chunks(CHUNK);
	post_bytes(w, &write[0], false, 8 * CHUNK);
	assert_int_equal(send_next(w, 1).payload_bytes, CHUNK / 4);
	post_bytes(w, &write[1], false, 16 * CHUNK);
	assert_int_equal(send_next(w, 1).payload_bytes, CHUNK - CHUNK / 4);
	assert_int_equal(send_next(w, 1).payload_bytes, CHUNK);
	world_close(w);
}

/* A WRITE of one chunk stays whole, so its notification leaves right after it. */
static void one_chunk_is_not_divided(void **state)
{
	struct world *w = world_of_chunks(CHUNK);
	struct core_xfer write;
	struct frame frame;

	(void)state;
	post_bytes(w, &write, false, CHUNK);
	assert_int_equal(send_next(w, 1).payload_bytes, CHUNK);
	frame = send_next(w, 1);
	assert_int_equal(frame.type, FRAME_NOTIFY);
	assert_int_equal(frame.key, FRAME_NOTE_PIGGYBACK);
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_chunk_on_the_priority_channel),
		cmocka_unit_test(several_chunks_on_the_others),
		cmocka_unit_test(alone_begins_with_small_chunks),
		cmocka_unit_test(one_answer_begins_with_small_chunks),
		cmocka_unit_test(each_small_chunk_has_a_channel),
		cmocka_unit_test(company_is_cut_as_usual),
		cmocka_unit_test(one_chunk_is_not_divided),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
