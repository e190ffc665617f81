/* SPDX-License-Identifier: Apache-2.0 */
/* The core alone: into which chunks a WRITE is cut, depending on the channel that carries it. */
#include "core_rig.h"

#define TOTAL 10000u /* two chunks of the rig's 4096 bytes, and a rest */

static void post(struct world *w, struct core_xfer *write, bool by_prio)
{
	w->link.cfg.small_bytes = 0; /* no WRITE is short enough for the priority channel */
	*write = (struct core_xfer){.op = TCPX_OP_WRITE,
				    .segs = one_piece(TOTAL),
				    .notify = "note",
				    .notify_bytes = 4,
				    .has_notify = true,
				    .by_prio = by_prio};
	assert_int_equal(core_xfer_post(&w->link, write), TCPX_OK);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_chunk_on_the_priority_channel),
		cmocka_unit_test(several_chunks_on_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
