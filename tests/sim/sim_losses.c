/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of losses, cancels and deregistrations at chosen moments. */
#include "sim_cases.h"

struct at {
	int side;
	uint32_t channel;
};

static bool half_received(struct sim *sim, void *arg)
{
	struct at *at = arg;
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_rx *rx = &sim->side[at->side].chan[i].rx;

		at->channel = i;
		if (rx->busy && !rx->in_call && rx->done && rx->rx.kind != CORE_RX_NONE &&
		    rx->done < rx->frame->frame.payload_bytes)
			return true;
	}
	return false;
}

static bool half_sent(struct sim *sim, void *arg)
{
	struct at *at = arg;
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_tx *tx = &sim->side[at->side].chan[i].tx;

		at->channel = i;
		if (tx->busy && !tx->in_call && tx->frame->sent &&
		    tx->frame->sent < tx->frame->frame.payload_bytes)
			return true;
	}
	return false;
}

static bool in_call(struct sim *sim, void *arg)
{
	struct at *at = arg;
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_tx *tx = &sim->side[at->side].chan[i].tx;

		at->channel = i;
		if (tx->busy && tx->in_call && tx->xfer && tx->want)
			return true;
	}
	return false;
}

static void fence_with_a_chunk_half_received(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 6);
	struct at at = {.side = 1};

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	sim_until(sim, half_received, &at, "a chunk half received");
	sim_cut_force(sim, at.channel);
	sim_wait(sim, xfer, TCPX_OK);
	SIM_CHECK(sim, sim->side[0].link.count.resent, "nothing was sent again");
}
CASE(fence_with_a_chunk_half_received, sim_profile_parts())

static bool acked(struct sim *sim, void *arg)
{
	const struct core_chan *chan = &sim->side[0].link.chan[1];

	(void)arg;
	return chan->inflight.acked_seq > 0 &&
	       chan->inflight.acked_seq + 1 < chan->inflight.next_seq;
}

static void loss_right_after_an_acknowledgement(struct sim *sim)
{
	struct sim_xfer *xfers[8];
	int i;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (i = 0; i < 8; i++)
		xfers[i] = sim_start(sim, 0, TCPX_OP_WRITE, 17 << 10, 1);
	sim_until(sim, acked, NULL, "some frames acknowledged, some not");
	sim_cut_force(sim, 1);
	for (i = 0; i < 8; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
}
CASE(loss_right_after_an_acknowledgement, NULL)

static void loss_of_the_lane(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_SEND,
					   TCPX_OP_NOTIFY};
	struct sim_xfer *xfers[40], *recvs[10];
	int i;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (i = 0; i < 10; i++)
		recvs[i] = sim_start(sim, 1, TCPX_OP_RECV, 3000, 1);
	for (i = 0; i < 40; i++)
		xfers[i] = sim_start(sim, 0, ops[i % 4], 3000, 2);
	for (i = 0; i < 60; i++)
		sim_step(sim);
	sim_cut_force(sim, CORE_PRIO);
	for (i = 0; i < 40; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
	for (i = 0; i < 10; i++)
		sim_wait(sim, recvs[i], TCPX_OK);
}
CASE(loss_of_the_lane, NULL)

static bool refused_untold(struct sim *sim, void *arg)
{
	(void)arg;
	return sim->side[1].link.count.refused > 0;
}

static void refusal_lost_with_its_channel(struct sim *sim)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 3000, 2);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	xfer->keys[0] = xfer->keys[1] = 0x7777;
	xfer->bad = true;
	xfer->bad_status = TCPX_ERR_REMOTE_KEY;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	sim_until(sim, refused_untold, NULL, "a chunk is refused");
	sim->side[0].chan[CORE_PRIO].conn->drop = true;
	sim_cut_force(sim, CORE_PRIO);
	sim->side[0].chan[CORE_PRIO].conn->drop = true;
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
}
CASE(refusal_lost_with_its_channel, NULL)

static bool fencing(struct sim *sim, void *arg)
{
	(void)arg;
	return sim->side[0].link.chan[1].state == CORE_CHAN_FENCING ||
	       sim->side[1].link.chan[1].state == CORE_CHAN_FENCING;
}

static void fence_lost_with_the_control_link(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	sim_cut_force(sim, 1);
	sim_until(sim, fencing, NULL, "a fence is under way");
	sim_control_cut(sim, 2000);
	sim_wait(sim, xfer, TCPX_OK);
	sim_until(sim, sim_case_all_up, NULL, "the channel is back");
}
CASE(fence_lost_with_the_control_link, NULL)

static const struct sim_profile *silent_losses(void)
{
	static struct sim_profile p;

	sim_profile_plain(&p);
	p.no_notice = true;
	return &p;
}

static void loss_heard_of_by_the_fence_only(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	sim_cut_force(sim, 1);
	sim_wait(sim, xfer, TCPX_OK);
	sim_until(sim, sim_case_all_up, NULL, "the channel is back");
}
CASE(loss_heard_of_by_the_fence_only, silent_losses())

static void last_channel_lost(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_SEND, TCPX_OP_RECV};
	struct sim_xfer *xfers[8];
	uint32_t i;

	for (i = 0; i < 8; i++)
		xfers[i] = sim_start(sim, (int)(i & 1), ops[i / 2], 40 << 10, 3);
	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (i = 0; i < 50; i++)
		sim_step(sim);
	for (i = 0; i <= sim->p.bulk_channels; i++)
		sim_cut_force(sim, i);
	sim_link_fail_later(&sim->side[0], TCPX_ERR_PEER_RESET, sim_upto(sim, 100));
	for (i = 0; i < 8; i++) {
		sim_until(sim, sim_case_over, xfers[i], "a transfer ends");
		SIM_CHECK(sim, xfers[i]->status == TCPX_OK || xfers[i]->status <= -70,
			  "ended with %d", xfers[i]->status);
	}
}
CASE(last_channel_lost, sim_profile_parts())

/* A parked frame holds nothing: the cancel ends the transfer at once, the rest is scratch. */
static void cancel_of_a_send_parked_in_a_frame(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 900, 3);
	struct at at = {.side = 0};

	sim_until(sim, half_sent, &at, "a frame half sent");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, !xfer->active, "it did not end within the cancel");
	sim_run_all(sim);
	SIM_CHECK(sim, sim->side[0].link.count.aborted == 1, "%llu frames aborted",
		  (unsigned long long)sim->side[0].link.count.aborted);
}
CASE(cancel_of_a_send_parked_in_a_frame, sim_profile_parts())

static void cancel_of_a_receive_parked_in_a_frame(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_READ, 900, 3);
	struct at at = {.side = 0};

	sim_until(sim, half_received, &at, "a frame half received");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, !xfer->active, "it did not end within the cancel");
}
CASE(cancel_of_a_receive_parked_in_a_frame, sim_profile_parts())

static void cancel_within_a_call_waits_for_it(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 900, 1);
	struct at at = {.side = 0};

	sim_until(sim, in_call, &at, "a call under way");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, xfer->active, "it ended within a call");
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
}
CASE(cancel_within_a_call_waits_for_it, sim_profile_parts())

static void strict_cancel_waits_for_the_peer(struct sim *sim)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 40 << 10, 1);
	struct at at = {.side = 0};

	xfer->x.strict = true;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	sim_until(sim, half_sent, &at, "a frame half sent");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, xfer->active, "it ended while frames are on their way");
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
}
CASE(strict_cancel_waits_for_the_peer, sim_profile_parts())

static void cancel_with_a_stopped_peer(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_SEND, TCPX_OP_RECV};
	struct sim_xfer *xfers[8];
	int64_t stop;
	int i;

	for (i = 0; i < 8; i++)
		xfers[i] = sim_start(sim, 0, ops[i / 2], 3000, 3);
	for (i = 0; i < 100; i++)
		sim_step(sim);
	stop = sim->side[1].stopped_until = sim->now + 1000000;
	for (i = 0; i < 8; i++)
		if (xfers[i]->active)
			sim_cancel(xfers[i], TCPX_ERR_CANCELLED);
	for (i = 0; i < 8; i++)
		sim_until(sim, sim_case_over, xfers[i], "a transfer ends");
	SIM_CHECK(sim, sim->now < stop, "cancel waited for a stopped peer");
}
CASE(cancel_with_a_stopped_peer, NULL)

static void receive_cancelled_before_its_message(struct sim *sim)
{
	struct sim_xfer *a = sim_start(sim, 1, TCPX_OP_RECV, 100, 1);
	struct sim_xfer *b = sim_start(sim, 1, TCPX_OP_RECV, 200, 1);
	struct sim_xfer *c = sim_start(sim, 1, TCPX_OP_RECV, 300, 1), *first, *second;

	sim_cancel(b, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, !b->active, "it did not end within the cancel");
	first = sim_start(sim, 0, TCPX_OP_SEND, 90, 1);
	second = sim_start(sim, 0, TCPX_OP_SEND, 290, 1);
	sim_wait(sim, a, TCPX_OK);
	sim_wait(sim, c, TCPX_OK);
	sim_wait(sim, first, TCPX_OK);
	sim_wait(sim, second, TCPX_OK);
	SIM_CHECK(sim, c->x.recv.message_bytes == 290, "a hole");
}
CASE(receive_cancelled_before_its_message, NULL)

static bool announced(struct sim *sim, void *arg)
{
	struct sim_xfer *xfer = arg;

	(void)sim;
	return xfer->x.job.announced;
}

/* Its RECV is consumed with an error; the next message finds the next RECV. */
static void cancelled_send(struct sim *sim, uint64_t bytes, bool before)
{
	struct sim_xfer *send, *next, *recv = NULL, *later;
	uint32_t i;

	if (before)
		recv = sim_start(sim, 1, TCPX_OP_RECV, 48 << 10, 1);
	send = sim_start(sim, 0, TCPX_OP_SEND, bytes, 3);
	sim_until(sim, announced, send, "the SEND is announced");
	for (i = (uint32_t)rng_below(&sim->rng, 12); i > 0; i--)
		sim_step(sim);
	if (send->active)
		sim_cancel(send, TCPX_ERR_CANCELLED);
	if (!before)
		recv = sim_start(sim, 1, TCPX_OP_RECV, 48 << 10, 1);
	next = sim_start(sim, 0, TCPX_OP_SEND, 77, 1);
	later = sim_start(sim, 1, TCPX_OP_RECV, 80, 1);
	sim_until(sim, sim_case_over, send, "the SEND ends");
	sim_until(sim, sim_case_over, recv, "its RECV ends");
	SIM_CHECK(sim, recv->status == TCPX_OK || recv->status == TCPX_ERR_REMOTE,
		  "RECV ended with %d", recv->status);
	sim_wait(sim, next, TCPX_OK);
	sim_wait(sim, later, TCPX_OK);
	SIM_CHECK(sim, later->x.recv.message_bytes == 77, "a hole");
}

static void send_cancelled_after_its_announcement(struct sim *sim)
{
	cancelled_send(sim, 40 << 10, sim->seed & 1);
}
CASE(send_cancelled_after_its_announcement, sim_profile_parts())

static void send_cancelled_in_its_eager_frame(struct sim *sim)
{
	cancelled_send(sim, 9000, sim->seed & 1);
}
CASE(send_cancelled_in_its_eager_frame, sim_profile_parts())

static bool quiesced(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_region *)arg)->dead;
}

static void source_deregistered_under_a_read(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_READ, 40 << 10, 1);
	struct at at = {.side = 1};

	sim_until(sim, half_sent, &at, "a frame half sent by the responder");
	sim_deregister(xfer->remote[0]);
	sim_until(sim, quiesced, xfer->remote[0], "the region is quiesced");
	sim_wait(sim, xfer, TCPX_ERR_DEREGISTERED);
}
CASE(source_deregistered_under_a_read, sim_profile_parts())

static void destination_deregistered_under_a_write(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);
	struct at at = {.side = 1};

	sim_until(sim, half_received, &at, "a frame half received");
	sim_deregister(xfer->remote[0]);
	sim_until(sim, quiesced, xfer->remote[0], "the region is quiesced");
	sim_until(sim, sim_case_over, xfer, "the WRITE ends");
	SIM_CHECK(sim, xfer->status == TCPX_ERR_DEREGISTERED || xfer->status == TCPX_ERR_REMOTE_KEY,
		  "ended with %d", xfer->status);
}
CASE(destination_deregistered_under_a_write, sim_profile_parts())

static void deadline_of_each_kind(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_SEND, TCPX_OP_RECV};
	struct sim_xfer *xfers[4];
	int i;

	sim->side[1].stopped_until = 100000; /* nothing can end well before */
	for (i = 0; i < 4; i++) {
		xfers[i] = sim_xfer_new(&sim->side[0], ops[i], 5000, 1);
		xfers[i]->x.deadline_ns = 1000 + i;
		SIM_CHECK(sim, sim_post(xfers[i]) == TCPX_OK, "post");
	}
	for (i = 0; i < 4; i++)
		sim_wait(sim, xfers[i], TCPX_ERR_TIMED_OUT);
	SIM_CHECK(sim, sim->now < 2000, "the deadlines came late");
}
CASE(deadline_of_each_kind, NULL)
