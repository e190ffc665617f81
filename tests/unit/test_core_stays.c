/* SPDX-License-Identifier: Apache-2.0 */
/* A link fails while a call of the transport is under way, which keeps the memory that it uses. */
#include "core_rig.h"

#define BYTES 3000

/* The link fails while the priority channel sends a notification: what is allocated then. */
static uint64_t fail_while_sending(struct world *w)
{
	char data[BYTES] = {1};
	struct core_tx tx;

	assert_int_equal(core_note_send(&w->link, data, sizeof(data)), TCPX_OK);
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 1);
	assert_int_equal(tx.frame.type, FRAME_NOTIFY);
	core_chan_stays(&w->link, 0, true, false);
	core_link_fail(&w->link, TCPX_ERR_DISCONNECTED);
	assert_true(w->memory >= BYTES);
	return w->memory;
}

static void a_sending_call_keeps_its_notification(void **state)
{
	struct world *w = world_open();
	uint64_t held = fail_while_sending(w);

	(void)state;
	core_tx_sent(&w->link, 0, true);
	assert_int_equal(held - w->memory, sizeof(struct core_note) + BYTES);
	core_chan_left(&w->link, 0);
	world_close(w);
}

/* The frame is never sent to its end: the channel is torn down first. */
static void a_torn_call_lets_it_go(void **state)
{
	struct world *w = world_open();
	uint64_t held = fail_while_sending(w);

	(void)state;
	core_chan_left(&w->link, 0);
	assert_int_equal(held - w->memory, sizeof(struct core_note) + BYTES);
	world_close(w);
}

static void a_receiving_call_keeps_its_message(void **state)
{
	struct world *w = world_open();
	struct frame part = {.type = FRAME_NOTIFY,
			     .xfer = 1,
			     .key = FRAME_NOTE_ALONE,
			     .offset = 2 * BYTES,
			     .payload_bytes = BYTES};
	uint64_t held;

	(void)state;
	assert_int_equal(begin(w, 1, part), TCPX_OK);
	core_chan_stays(&w->link, 1, false, true);
	core_link_fail(&w->link, TCPX_ERR_DISCONNECTED);
	held = w->memory;
	assert_true(held >= 2 * BYTES);
	assert_int_equal(core_rx_end(&w->link, 1, true, TCPX_OK, ""), TCPX_ERR_DISCONNECTED);
	core_chan_left(&w->link, 1);
	assert_true(held - w->memory >= 2 * BYTES);
	assert_int_equal(w->notes, 0);
	world_close(w);
}

/* While the link lives nothing changes: the call ends as any other. */
static void a_live_link_goes_on(void **state)
{
	struct world *w = world_open();
	struct core_tx tx;

	(void)state;
	assert_int_equal(core_note_send(&w->link, "x", 1), TCPX_OK);
	assert_int_equal(core_tx_next(&w->link, 0, &tx), 1);
	core_chan_stays(&w->link, 0, true, false);
	core_tx_sent(&w->link, 0, true);
	core_chan_left(&w->link, 0);
	core_chan_lost(&w->link, 0);
	assert_int_equal(w->link.chan[0].state, CORE_CHAN_FENCING);
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_sending_call_keeps_its_notification),
		cmocka_unit_test(a_torn_call_lets_it_go),
		cmocka_unit_test(a_receiving_call_keeps_its_message),
		cmocka_unit_test(a_live_link_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
