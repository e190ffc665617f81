/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications as far as the receiver's account covers them: what is charged, what is granted and
 * taken back, in which order the sender goes on, and what a look-up costs. */
#include "core_rig.h"

#define SHARE (4u << 10)
#define LARGE (64u << 10)
#define AHEAD (CORE_COVER_AHEAD * SHARE)
#define COST(bytes) ((bytes) + CORE_NOTE_COST)

static struct frame part_of(uint64_t number, uint64_t total, uint64_t linear, uint32_t bytes)
{
	return (struct frame){.type = FRAME_NOTIFY,
			      .xfer = number,
			      .key = FRAME_NOTE_ALONE,
			      .linear = linear,
			      .offset = total,
			      .payload_bytes = bytes};
}

static struct world *covered(uint64_t room)
{
	struct world *w = world_open();
	struct core_config cfg = w->link.cfg;

	world_close(w);
	cfg.cover_in = cfg.cover_out = SHARE;
	w->room = room;
	w->taken = 0;
	assert_int_equal(core_link_init(&w->link, &cfg), TCPX_OK);
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(core_chan_up(&w->link, i, 1), TCPX_OK);
	return w;
}

static void put(struct world *w, struct frame frame)
{
	struct core_rx rx;

	frame.epoch = 1;
	assert_int_equal(core_rx_begin(&w->link, 0, &frame, &rx), TCPX_OK);
	assert_int_equal(core_rx_end(&w->link, 0, true, TCPX_OK, ""), TCPX_OK);
}

static void wish(struct world *w, uint64_t upto, uint64_t least)
{
	put(w, (struct frame){.type = FRAME_CREDIT,
			      .key = FRAME_CREDIT_COVER,
			      .linear = upto,
			      .offset = least});
}

/* The next frame of that type and key on the priority channel; all others are sent, too. */
static bool says(struct world *w, uint8_t type, uint64_t key, struct frame *out_frame)
{
	bool found = false;
	struct core_tx tx;

	while (core_tx_next(&w->link, 0, &tx)) {
		if (tx.frame.type == type && tx.frame.key == key) {
			*out_frame = tx.frame;
			found = true;
		}
		core_tx_sent(&w->link, 0, true);
	}
	return found;
}

/* Parts in any order, on any channel: charged is what is in place, not what was announced. */
static void charged_when_it_arrives(void **state)
{
	struct world *w = covered(LARGE * 2);

	(void)state;
	wish(w, COST(LARGE), COST(LARGE));
	assert_int_equal(w->taken, COST(LARGE) - SHARE);
	assert_int_equal(begin(w, 1, part_of(1, LARGE, LARGE - 10, 10)), TCPX_OK);
	assert_int_equal(w->arrived, sizeof(struct core_notify_in));
	assert_int_equal(core_rx_end(&w->link, 1, true, TCPX_OK, ""), TCPX_OK);
	assert_int_equal(w->arrived, sizeof(struct core_notify_in) + 10);
	assert_int_equal(begin(w, 2, part_of(1, LARGE, 100, 1000)), TCPX_OK);
	core_chan_lost(&w->link, 2); /* it did not come */
	assert_int_equal(w->arrived, sizeof(struct core_notify_in) + 10);
	assert_int_equal(receive(w, 1, part_of(1, LARGE, 100, LARGE - 110), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 0);
	assert_int_equal(receive(w, 1, part_of(1, LARGE, 0, 100), TCPX_OK), TCPX_OK);
	assert_int_equal(w->notes, 1);
	assert_int_equal(w->published, LARGE);
	assert_int_equal(w->arrived, 0);
	world_close(w);
}

/* Announced beyond what was granted: refused before anything is kept. */
static void the_share_and_no_more(void **state)
{
	struct world *w = covered(0);
	uint64_t kept = w->memory;

	(void)state;
	assert_int_equal(begin(w, 1, part_of(1, SHARE, 0, 1)), TCPX_ERR_PROTOCOL);
	assert_int_equal(begin(w, 1, part_of(1, 64u << 20, 0, 1)), TCPX_ERR_PROTOCOL);
	assert_int_equal(w->memory, kept);
	assert_int_equal(receive(w, 1, part_of(1, SHARE - CORE_NOTE_COST, 0, 1), TCPX_OK), TCPX_OK);
	assert_int_equal(w->link.cover.granted, 0);
	world_close(w);
}

/* A wish beyond the budget is nobody's. */
static void a_wish_beyond_the_budget(void **state)
{
	struct world *w = covered(UINT64_MAX);

	(void)state;
	wish(w, (1 << 20) + 1, 1);
	assert_int_equal(w->taken, 0);
	wish(w, 1 << 20, 1);
	assert_int_equal(w->taken, (1 << 20) - SHARE);
	wish(w, 0, 0); /* an older one */
	assert_int_equal(w->link.cover.requested, 1 << 20);
	world_close(w);
}

/* With little left the least that helps is granted, with less nothing, and the rest when there is
 * room again. */
static void short_memory_is_less_credit(void **state)
{
	struct world *w = covered(COST(1000));
	struct frame credit;

	(void)state;
	wish(w, SHARE + 3 * COST(1000), SHARE + COST(1000));
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	assert_int_equal(credit.offset, COST(1000));
	wish(w, SHARE + 3 * COST(1000), SHARE + 2 * COST(1000));
	assert_false(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	w->room = 2 * COST(1000);
	core_note_more(&w->link);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	assert_int_equal(credit.offset, 3 * COST(1000));
	world_close(w);
}

/* A request was cancelled meanwhile, and the first that waits is another one: less is wanted in
 * all, more at least. */
static void a_smaller_wish(void **state)
{
	struct world *w = covered(1000);
	struct frame credit;

	(void)state;
	wish(w, SHARE + 3000, SHARE + 1000);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	assert_int_equal(credit.offset, 1000);
	w->room = 1000;
	wish(w, SHARE + 2000, SHARE + 1900);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	assert_int_equal(credit.offset, 1900);
	world_close(w);
}

/* What the application gives back is the account's beyond the share, and the peer's within. */
static void released_to_everybody(void **state)
{
	struct world *w = covered(LARGE);
	struct frame credit;
	uint64_t granted;

	(void)state;
	wish(w, COST(LARGE / 2), COST(LARGE / 2));
	granted = w->taken;
	assert_int_equal(receive(w, 1, part_of(1, LARGE / 2, 0, LARGE / 2), TCPX_OK), TCPX_OK);
	assert_int_equal(core_note_pending(&w->link), 0); /* the application has it */
	core_note_consumed(&w->link, LARGE / 2, true);
	assert_int_equal(w->taken, 0);
	assert_int_equal(w->room, LARGE);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_NOTIFY, &credit));
	assert_int_equal(credit.offset, granted + SHARE);
	/* within the share nobody is asked */
	for (uint64_t i = 2; i < 2000; i++) {
		assert_int_equal(receive(w, 0, part_of(i, 500, 0, 500), TCPX_OK), TCPX_OK);
		core_note_consumed(&w->link, 500, true);
	}
	assert_int_equal(w->taken, 0);
	world_close(w);
}

/* Unfinished, or granted and not used: what others wait for. */
static void what_is_held(void **state)
{
	struct world *w = covered(LARGE * 2);
	uint64_t moves;

	(void)state;
	wish(w, COST(LARGE), COST(LARGE));
	assert_int_equal(core_note_pending(&w->link), COST(LARGE) - SHARE);
	moves = w->link.cover.moves;
	assert_int_equal(receive(w, 1, part_of(1, LARGE, 0, 10), TCPX_OK), TCPX_OK);
	assert_int_equal(core_note_pending(&w->link), COST(LARGE) - SHARE);
	assert_true(w->link.cover.moves > moves);
	assert_int_equal(receive(w, 1, part_of(1, LARGE, 10, LARGE - 10), TCPX_OK), TCPX_OK);
	assert_int_equal(core_note_pending(&w->link), 0);
	world_close(w);
}

/* Those that wait are sent in order, each as soon as it is covered. */
static void waits_in_order(void **state)
{
	static const uint8_t text[LARGE];
	struct world *w = covered(0);
	struct frame frame = {0};

	(void)state;
	assert_int_equal(core_note_send(&w->link, text, 10), TCPX_OK);
	assert_int_equal(core_note_send(&w->link, text, LARGE), TCPX_OK);
	assert_int_equal(core_note_send(&w->link, text, 20), TCPX_OK); /* behind it */
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame));
	assert_int_equal(frame.linear, COST(10) + COST(LARGE) + COST(20) + AHEAD);
	assert_int_equal(frame.offset, COST(10) + COST(LARGE));
	assert_false(says(w, FRAME_NOTIFY, FRAME_NOTE_ALONE, &frame)); /* the first went before */
	assert_int_equal(w->link.cover.sent, COST(10));
	put(w, (struct frame){.type = FRAME_CREDIT,
			      .key = FRAME_CREDIT_NOTIFY,
			      .offset = COST(10) + COST(LARGE) - SHARE});
	assert_int_equal(w->link.cover.sent, COST(10) + COST(LARGE));
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame));
	assert_int_equal(frame.offset + AHEAD, frame.linear);
	assert_int_equal(core_note_send(&w->link, text, 30), TCPX_OK);
	assert_false(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame)); /* one at a time */
	put(w, (struct frame){.type = FRAME_CREDIT,
			      .key = FRAME_CREDIT_NOTIFY,
			      .offset = COST(10) + COST(LARGE) + COST(20) - SHARE});
	assert_int_equal(w->link.cover.sent, COST(10) + COST(LARGE) + COST(20));
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame));
	assert_int_equal(frame.offset, w->link.cover.sent + COST(30));
	put(w, (struct frame){.type = FRAME_CREDIT,
			      .key = FRAME_CREDIT_NOTIFY,
			      .offset = frame.linear - AHEAD - SHARE});
	assert_true(says(w, FRAME_NOTIFY, FRAME_NOTE_ALONE, &frame));
	assert_int_equal(frame.xfer, 4);
	assert_true(list_empty(&w->link.cover.unpaid));
	assert_int_equal(core_note_send(&w->link, text, 40), TCPX_OK);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame)); /* that was answered */
	world_close(w);
}

/* A wish that died with its channel is told again. */
static void a_lost_wish(void **state)
{
	static const uint8_t text[LARGE];
	struct world *w = covered(0);
	struct core_tx tx;
	struct frame frame;

	(void)state;
	assert_int_equal(core_note_send(&w->link, text, LARGE), TCPX_OK);
	assert_true(says(w, FRAME_CREDIT, FRAME_CREDIT_COVER, &frame));
	core_chan_lost(&w->link, 0);
	assert_int_equal(core_tx_next(&w->link, 1, &tx), 1);
	assert_int_equal(tx.frame.type, FRAME_CREDIT);
	assert_int_equal(tx.frame.key, FRAME_CREDIT_COVER);
	core_tx_sent(&w->link, 1, true);
	world_close(w);
}

/* Unfinished ones: each is found among few, whatever numbers the peer chooses. */
static void found_among_few(void **state)
{
	enum { COUNT = 4000 };
	static const uint64_t strides[] = {1, 2, 64, 4096, 1ull << 32, 0x10001};

	(void)state;
	for (size_t s = 0; s < sizeof(strides) / sizeof(*strides); s++) {
		struct world *w = world_open();
		const struct core_incoming *in = &w->link.notify.incoming;
		uint32_t longest = 0;

		for (uint64_t i = 0; i < COUNT; i++) {
			struct frame frame = part_of(2 + i * strides[s], 2, 0, 1);

			assert_int_equal(receive(w, 1, frame, TCPX_OK), TCPX_OK);
			w->link.credit[FRAME_CREDIT_NOTIFY].taken =
				0; /* there is no end of credit */
		}
		assert_int_equal(in->count, COUNT);
		for (uint32_t i = 0; i < 1u << in->bits; i++) {
			uint32_t length = 0;

			for (const struct core_notify_in *msg = in->heads[i]; msg; msg = msg->chain)
				length++;
			longest = length > longest ? length : longest;
		}
		assert_in_range(longest, 1, 32);
		world_close(w);
	}
}

/* What an empty one costs is what it takes. */
static void empty_ones_are_paid(void **state)
{
	struct world *w = covered(0);
	uint64_t before = w->memory;
	uint32_t count = 0;

	(void)state;
	while (receive(w, 1, part_of(count + 2, 0, 0, 0), TCPX_OK) == TCPX_OK)
		count++;
	assert_int_equal(count, SHARE / CORE_NOTE_COST);
	assert_true(w->memory - before <= SHARE);
	world_close(w);
}

/* A credit wakes the channels for bulk jobs only while such a job waits: their workers would take
 * the processor from the application that the small frames are for. */
static void a_credit_wakes_who_has_work(void **state)
{
	struct core_xfer write = {.op = TCPX_OP_WRITE, .segs = one_piece(LARGE)};
	struct world *w = covered(0);
	struct core_tx tx;

	(void)state;
	for (uint64_t notes = 1; notes <= 2; notes++) {
		bool busy = notes == 2;
		uint32_t kicks[3];

		assert_int_equal(core_note_send(&w->link, "x", 1), TCPX_OK);
		for (uint32_t i = 0; i < 3; i++)
			while (core_tx_next(&w->link, i, &tx))
				core_tx_sent(&w->link, i, true);
		if (busy) {
			assert_int_equal(core_xfer_post(&w->link, &write), TCPX_OK);
			/* the channels find that something else must come first */
			w->link.chan[1].idle = w->link.chan[2].idle = true;
		}
		memcpy(kicks, w->kicks, sizeof(kicks));
		put(w, (struct frame){.type = FRAME_CREDIT,
				      .key = FRAME_CREDIT_NOTIFY,
				      .linear = notes * COST(1)});
		assert_int_equal(w->kicks[0], kicks[0] + 1);
		assert_int_equal(w->kicks[1], kicks[1] + busy);
		assert_int_equal(w->kicks[2], kicks[2] + busy);
	}
	world_close(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(charged_when_it_arrives),
		cmocka_unit_test(the_share_and_no_more),
		cmocka_unit_test(a_wish_beyond_the_budget),
		cmocka_unit_test(short_memory_is_less_credit),
		cmocka_unit_test(a_smaller_wish),
		cmocka_unit_test(released_to_everybody),
		cmocka_unit_test(what_is_held),
		cmocka_unit_test(waits_in_order),
		cmocka_unit_test(a_lost_wish),
		cmocka_unit_test(found_among_few),
		cmocka_unit_test(empty_ones_are_paid),
		cmocka_unit_test(a_credit_wakes_who_has_work),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
