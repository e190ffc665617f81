/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of notifications that leave right behind their WRITE's only frame. */
#include "sim_cases.h"

#define NOTE 600

/* The destination is staged, and commits take long. Grants come in parts, so a WRITE that is sure
 * to be one chunk is one byte. */
static const struct sim_profile *staged(void)
{
	static struct sim_profile p;

	sim_profile_plain(&p);
	p.staged[1] = 100;
	p.commit = 2000000; /* the notification is always there before */
	return &p;
}

static struct sim_xfer *noted(struct sim *sim, uint64_t bytes)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, bytes, 1);

	xfer->x.has_notify = true;
	xfer->x.notify_bytes = NOTE;
	return xfer;
}

static struct sim_xfer *start(struct sim *sim, uint64_t bytes)
{
	struct sim_xfer *xfer = noted(sim, bytes);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	return xfer;
}

/* With a key that the peer never gave. */
static void post_refused(struct sim *sim, struct sim_xfer *xfer)
{
	xfer->keys[0] ^= 0x5555000000ull;
	xfer->bad = true;
	xfer->bad_status = TCPX_ERR_REMOTE_KEY;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
}

/* The priority channel is lost with what is on its way; the cut alone would draw lots for that. */
static void lose_lane_whole(struct sim *sim)
{
	sim->side[0].chan[CORE_PRIO].conn->drop = true;
	sim_cut_force(sim, CORE_PRIO);
	sim->side[0].chan[CORE_PRIO].conn->drop = true;
}

static struct core_chan *prio(struct sim *sim, int side)
{
	return &sim->side[side].link.chan[CORE_PRIO];
}

static bool seen(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_xfer *)arg)->notified > 0;
}

static bool waiting(struct sim *sim, void *arg)
{
	(void)arg;
	return !list_empty(&prio(sim, 1)->piggyback.waiting);
}

static bool acknowledged(struct sim *sim, void *arg)
{
	(void)arg;
	return prio(sim, 0)->inflight.acked_seq > 0;
}

/* The frame that side's priority channel has under way is the notification, in parts. */
static bool half_come(struct sim *sim, void *arg)
{
	const struct sim_rx *rx = &sim->side[1].chan[CORE_PRIO].rx;

	(void)arg;
	return rx->busy && !rx->in_call && rx->done && rx->frame->frame.type == FRAME_NOTIFY;
}

static bool leaving(struct sim *sim, void *arg)
{
	const struct sim_tx *tx = &sim->side[0].chan[CORE_PRIO].tx;

	(void)arg;
	return tx->busy && tx->tx.frame.type == FRAME_NOTIFY && !tx->frame->sent;
}

static bool half_gone(struct sim *sim, void *arg)
{
	const struct sim_tx *tx = &sim->side[0].chan[CORE_PRIO].tx;

	(void)arg;
	return tx->busy && !tx->in_call && tx->frame->sent && tx->tx.frame.type == FRAME_DATA;
}

static bool in_call(struct sim *sim, void *arg)
{
	const struct sim_tx *tx = &sim->side[0].chan[CORE_PRIO].tx;

	(void)arg;
	return tx->in_call && tx->tx.frame.type == FRAME_DATA;
}

static void check_alone_again(struct sim *sim, uint64_t resent)
{
	SIM_CHECK(sim, sim->side[0].link.count.resent == resent,
		  "%llu frames were sent again, not %llu",
		  (unsigned long long)sim->side[0].link.count.resent, (unsigned long long)resent);
}

/* Seen before anything was acknowledged, and one acknowledgement ends both frames. */
static void notification_leaves_with_its_write(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 8);

	sim_until(sim, seen, xfer, "the notification is there");
	SIM_CHECK(sim, !prio(sim, 0)->inflight.acked_seq, "it waited for an acknowledgement");
	sim_until(sim, acknowledged, NULL, "an acknowledgement");
	SIM_CHECK(sim, prio(sim, 0)->inflight.acked_seq == 2, "the first one is of %llu frames",
		  (unsigned long long)prio(sim, 0)->inflight.acked_seq);
	SIM_CHECK(sim, xfer->status == TCPX_OK && !xfer->active, "it did not end with that");
	sim_run_all(sim);
	SIM_CHECK(sim, prio(sim, 0)->inflight.next_seq == 3, "more frames than two");
}
CASE(notification_leaves_with_its_write, NULL)

static void notification_waits_for_the_commit(struct sim *sim)
{
	struct sim_xfer *first = start(sim, 1), *second = start(sim, 1);

	sim_until(sim, waiting, NULL, "a notification waits for its bytes");
	SIM_CHECK(sim, !first->notified || !second->notified, "both were published");
	sim_wait(sim, first, TCPX_OK);
	sim_wait(sim, second, TCPX_OK);
	SIM_CHECK(sim, prio(sim, 0)->inflight.next_seq == 5, "more frames than four");
}
CASE(notification_waits_for_the_commit, staged())

/* The peer's budget is as much as two of them cost: what was dropped is there again. */
static const struct sim_profile *tight(bool commits)
{
	static struct sim_profile p;

	p = commits ? *staged() : *sim_profile_parts();
	p.credit[1][FRAME_CREDIT_NOTIFY] = 2 * (NOTE + CORE_NOTE_COST);
	return &p;
}

static void budget_is_whole(struct sim *sim)
{
	sim_run_all(sim);
	SIM_CHECK(sim, sim_note(&sim->side[0], 2 * NOTE + CORE_NOTE_COST) == TCPX_OK,
		  "the budget of a dropped notification is gone");
}

static void notification_of_a_refused_write(struct sim *sim)
{
	struct sim_xfer *xfer = noted(sim, 300);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	post_refused(sim, xfer);
	sim_until(sim, half_come, NULL, "the notification is on its way");
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
	budget_is_whole(sim);
}
CASE(notification_of_a_refused_write, tight(false))

/* Less than an eighth of the budget, and no application that would tell of it. */
static void budget_of_a_dropped_notification(struct sim *sim)
{
	struct sim_xfer *xfer = noted(sim, 300);
	uint64_t budget = sim->p.credit[1][FRAME_CREDIT_NOTIFY];

	xfer->x.notify_bytes = (uint32_t)budget / 8 - CORE_NOTE_COST - 1;
	post_refused(sim, xfer);
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
	sim_run_all(sim);
	SIM_CHECK(sim, sim_note(&sim->side[0], budget - CORE_NOTE_COST) == TCPX_OK,
		  "the budget of a dropped notification is not told");
}
CASE(budget_of_a_dropped_notification, NULL)

static void notification_of_a_write_that_is_not_committed(struct sim *sim)
{
	struct sim_xfer *xfer;

	sim->p.corrupt = 100;
	xfer = start(sim, 1);
	sim_until(sim, waiting, NULL, "the notification waits for its bytes");
	sim_wait(sim, xfer, TCPX_ERR_CORRUPT);
	budget_is_whole(sim);
}
CASE(notification_of_a_write_that_is_not_committed, tight(true))

static void notification_of_an_aborted_write(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 900);

	sim_until(sim, half_gone, NULL, "the WRITE's frame is half sent");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, !xfer->active, "it did not end within the cancel");
	sim_run_all(sim);
	SIM_CHECK(sim, !xfer->notified, "an aborted WRITE is notified");
	budget_is_whole(sim);
}
CASE(notification_of_an_aborted_write, tight(false))

/* What is not on its way does not leave any more. */
static void cancel_between_a_write_and_its_notification(struct sim *sim)
{
	struct sim_xfer *xfer = noted(sim, 1);

	xfer->x.strict = true; /* or its frame would be nobody's */
	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	sim_until(sim, in_call, NULL, "the WRITE's frame is in its call");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
	budget_is_whole(sim);
	SIM_CHECK(sim, !xfer->notified, "the notification left after the cancel");
}
CASE(cancel_between_a_write_and_its_notification, tight(false))

/* Its bytes are applied: it goes again alone. */
static void notification_lost_half_way(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 300);

	sim_until(sim, half_come, NULL, "the notification is half received");
	sim_cut_force(sim, CORE_PRIO);
	sim_wait(sim, xfer, TCPX_OK);
	check_alone_again(sim, 1);
}
CASE(notification_lost_half_way, sim_profile_parts())

static void notification_lost_in_its_call(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 300);

	sim_until(sim, leaving, NULL, "the notification is about to leave");
	sim_cut_force(sim, CORE_PRIO);
	sim_wait(sim, xfer, TCPX_OK);
	budget_is_whole(sim);
}
CASE(notification_lost_in_its_call, tight(false))

/* The fence waits for the commit, and then says that both are applied. */
static void channel_lost_under_the_commit(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 1);

	sim_until(sim, waiting, NULL, "the notification waits for its bytes");
	sim_cut_force(sim, CORE_PRIO);
	sim_wait(sim, xfer, TCPX_OK);
	check_alone_again(sim, 0);
}
CASE(channel_lost_under_the_commit, staged())

static void write_and_notification_lost(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 300);

	sim_until(sim, leaving, NULL, "the notification is about to leave");
	lose_lane_whole(sim);
	sim_wait(sim, xfer, TCPX_OK);
	sim_run_all(sim);
}
CASE(write_and_notification_lost, sim_profile_parts())

static void refused_write_lost_with_its_notification(struct sim *sim)
{
	struct sim_xfer *xfer = noted(sim, 300);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	post_refused(sim, xfer);
	sim_until(sim, half_come, NULL, "the notification is half received");
	lose_lane_whole(sim);
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
	budget_is_whole(sim);
}
CASE(refused_write_lost_with_its_notification, tight(false))

/* Nobody waits for it, and it may not have its bytes: it is not sent again. */
static void cancelled_notification_lost(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 300);

	sim_until(sim, half_come, NULL, "the notification is half received");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, !xfer->active, "it did not end within the cancel");
	sim_cut_force(sim, CORE_PRIO);
	budget_is_whole(sim);
	SIM_CHECK(sim, !xfer->notified, "it was sent again");
	check_alone_again(sim, 0);
}
CASE(cancelled_notification_lost, tight(false))

#define MANY 400

/* Odd places are left when the pairs come to the end; the last 16 are for refusals. */
static void rings_without_room_for_two(struct sim *sim)
{
	struct sim_xfer *xfers[MANY], *first;
	bool full = false;
	int i;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	first = sim_start(sim, 0, TCPX_OP_WRITE, 8, 1);
	for (i = 0; i < MANY; i++) {
		xfers[i] = noted(sim, 8);
		xfers[i]->x.notify_bytes = 8;
		SIM_CHECK(sim, sim_post(xfers[i]) == TCPX_OK, "post");
	}
	while (first->active || xfers[MANY - 1]->active) {
		uint64_t used =
			prio(sim, 0)->inflight.next_seq - 1 - prio(sim, 0)->inflight.acked_seq;

		SIM_CHECK(sim, used <= CORE_RING - 16, "%llu places used",
			  (unsigned long long)used);
		full |= used == CORE_RING - 16;
		SIM_CHECK(sim, sim_step(sim), "it never ends");
	}
	SIM_CHECK(sim, full, "the ring was never full");
	for (i = 0; i < MANY; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
}

void case_rings_without_room_for_two(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.credit[1][FRAME_CREDIT_NOTIFY] = 100000;
	p.call = 1;
	p.delay = 5000;
	sim_case(rings_without_room_for_two, &p);
}

static void link_fails_under_a_waiting_notification(struct sim *sim)
{
	struct sim_xfer *xfer = start(sim, 1);

	sim_until(sim, waiting, NULL, "the notification waits for its bytes");
	sim_link_fail(&sim->side[1], TCPX_ERR_PEER_CLOSED);
	SIM_CHECK(sim, list_empty(&prio(sim, 1)->piggyback.waiting), "a dead link keeps it");
	sim_until(sim, sim_case_over, xfer, "the WRITE ends");
	SIM_CHECK(sim, !xfer->notified, "published by a dead link");
}
CASE(link_fails_under_a_waiting_notification, staged())
