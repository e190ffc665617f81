/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that come and go, and the control link that carries the fences. */
#include "sim.h"

#include <string.h>

static int64_t net_delay(struct sim *sim, uint32_t channel)
{
	int64_t time = 1 + (int64_t)sim_upto(sim, sim->p.delay);

	return channel == sim->p.slow_channel ? time * 20 : time;
}

static void arrive(struct sim *sim, const struct sim_event *event)
{
	struct sim_frame *frame = event->ptr;
	struct sim_conn *conn = frame->conn;
	int to = 1 - frame->from;

	if (conn->closed[to] || (conn->cut && conn->drop))
		return;
	frame->here += (uint32_t)event->a;
	frame->header_here |= event->b & 1;
	frame->trailer_here |= (event->b & 2) != 0;
	if (sim->side[to].chan[conn->channel].conn == conn)
		sim_rx_kick(&sim->side[to], conn->channel);
}

/* So many more bytes of the frame are on their way, behind everything sent before. */
void sim_frame_send(struct sim_frame *frame, uint32_t bytes, bool header, bool trailer)
{
	struct sim_conn *conn = frame->conn;
	struct sim *sim = conn->sim;
	int64_t when = sim->now + net_delay(sim, conn->channel);

	if (header)
		list_push_back(&conn->pipe[frame->from], &frame->node);
	frame->sent += bytes;
	if (conn->closed[1 - frame->from] || conn->cut)
		return;
	if (when < conn->last_ns[frame->from])
		when = conn->last_ns[frame->from];
	conn->last_ns[frame->from] = when;
	sim_at(sim, when, NULL, arrive, frame, bytes, (header ? 1 : 0) | (trailer ? 2 : 0));
}

static void chan_up(struct sim *sim, const struct sim_event *event)
{
	struct sim_conn *conn = event->ptr;
	struct sim_side *side = event->side;
	struct sim_chan *chan = &side->chan[conn->channel];
	bool second = event->a;
	tcpx_status status;

	if (conn->sides_incarnation[side->index] != side->incarnation || !side->alive ||
	    conn->closed[1 - side->index])
		return;
	if (second && conn->cut) {
		/* The hello's answer is lost: this side never has it. */
		conn->closed[side->index] = true;
		if (side->peer->chan[conn->channel].conn == conn)
			sim_close_later(side->peer, conn->channel, sim_upto(sim, sim->p.delay));
		return;
	}
	memset(&chan->tx, 0, sizeof(chan->tx));
	memset(&chan->rx, 0, sizeof(chan->rx));
	chan->conn = conn;
	chan->up = true;
	chan->free = false;
	SIM_TRACE(sim, "%d ch%u up epoch %u", side->index, conn->channel, conn->epoch);
	SIM_ENTER(sim);
	status = core_chan_up(&side->link, conn->channel, conn->epoch);
	SIM_LEAVE(sim);
	if (status == TCPX_ERR_NO_MEMORY && sim->p.alloc_fail) {
		sim_link_fail_later(side, status, 0);
		return;
	}
	SIM_HONEST(sim, status == TCPX_OK, "channel %u epoch %u does not come up: %d",
		   conn->channel, conn->epoch, status);
	if (status != TCPX_OK) {
		sim_link_fail_later(side, status, 0);
		return;
	}
	if (!second)
		sim_at(sim, sim->now + net_delay(sim, conn->channel), side->peer, chan_up, conn,
		       true, 0);
	sim_rx_kick(side, conn->channel);
}

static void dial(struct sim *sim, const struct sim_event *event)
{
	uint32_t channel = (uint32_t)event->a;
	struct sim_conn *conn;
	int first = (int)rng_below(&sim->rng, 2), i;

	for (i = 0; i < 2; i++)
		if (!sim->side[i].alive || !sim->side[i].chan[channel].free ||
		    sim->side[i].incarnation != event->b)
			return;
	conn = sim_alloc(sizeof(*conn));
	conn->sim = sim;
	conn->channel = channel;
	conn->epoch = ++sim->epoch[channel];
	for (i = 0; i < 2; i++) {
		list_init(&conn->pipe[i]);
		conn->sides_incarnation[i] = sim->side[i].incarnation;
		sim->side[i].chan[channel].free = false;
		sim->side[i].chan[channel].conn = conn;
	}
	sim_at(sim, sim->now + net_delay(sim, channel), &sim->side[first], chan_up, conn, false, 0);
}

void sim_chan_free(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;

	SIM_CHECK(sim, !side->chan[channel].up, "channel %u is free and up", channel);
	side->chan[channel].free = true;
	if (side->peer->chan[channel].free && side->alive && side->peer->alive)
		sim_at(sim, sim->now + 5 * net_delay(sim, channel), NULL, dial, NULL, channel,
		       side->incarnation);
}

void sim_dial_all(struct sim *sim)
{
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		sim->side[0].chan[i].free = sim->side[1].chan[i].free = true;
		sim_at(sim, sim->now + net_delay(sim, i), NULL, dial, NULL, i,
		       sim->side[0].incarnation);
	}
}

static void notice(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	uint32_t channel = (uint32_t)event->a;

	if (side->chan[channel].conn == event->ptr && side->chan[channel].up)
		sim_close(side, channel, true);
	(void)sim;
}

void sim_close_later(struct sim_side *side, uint32_t channel, uint64_t delay)
{
	sim_at(side->sim, side->sim->now + (int64_t)delay, side, notice, side->chan[channel].conn,
	       channel, 0);
}

/* This side's end is closed: nobody of ours is inside. tell: the core hears of it. */
void sim_close(struct sim_side *side, uint32_t channel, bool tell)
{
	struct sim *sim = side->sim;
	struct sim_chan *chan = &side->chan[channel];
	struct sim_conn *conn = chan->conn;

	SIM_TRACE(sim, "%d ch%u closed epoch %u", side->index, channel, conn->epoch);
	if (tell)
		sim_tx_orphan(side, channel);
	sim_tx_leave(side, channel);
	sim_rx_leave(side, channel);
	chan->up = false;
	chan->tx.busy = chan->rx.busy = false;
	conn->closed[side->index] = true;
	sim_hold_ended(side->peer, conn);
	if (!conn->cut) {
		conn->cut = true;
		conn->drop = sim_chance(sim, 50);
	}
	if (tell) {
		sim_ref_closed(side, conn);
		SIM_ENTER(sim);
		core_chan_lost(&side->link, channel);
		SIM_LEAVE(sim);
	}
	if (side->peer->chan[channel].conn == conn && side->peer->chan[channel].up &&
	    !sim->p.no_notice)
		sim_close_later(side->peer, channel, sim_upto(sim, 20 * sim->p.delay));
}

void sim_cut_force(struct sim *sim, uint32_t channel)
{
	struct sim_conn *conn = sim->side[0].chan[channel].conn;
	int i, first = (int)rng_below(&sim->rng, 2);

	if (!conn || conn->cut)
		return;
	SIM_TRACE(sim, "  ch%u cut", channel);
	sim->count.losses++;
	conn->cut = true;
	conn->drop = sim_chance(sim, 50);
	for (i = 0; i < 2; i++) {
		struct sim_side *side = &sim->side[i ? 1 - first : first];

		if (side->chan[channel].conn == conn && (!i || !sim->p.no_notice))
			sim_close_later(side, channel, sim_upto(sim, 20 * sim->p.delay));
	}
}

/* Cuts a channel if another one carries on. */
bool sim_cut(struct sim *sim, uint32_t channel)
{
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_chan *a = &sim->side[0].chan[i], *b = &sim->side[1].chan[i];

		if (i == channel || !a->up || !b->up || a->conn != b->conn || a->conn->cut)
			continue;
		if (!sim->side[0].chan[channel].up && !sim->side[1].chan[channel].up)
			return false;
		sim_cut_force(sim, channel);
		return true;
	}
	return false;
}

struct fence {
	uint32_t channel, epoch, count, control_id, incarnation;
	uint64_t applied;
	struct core_nack *nacks;
};

static void fence_arrive(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	struct fence *fence = event->ptr;
	tcpx_status status;

	if (fence->control_id != sim->control_id || fence->incarnation != side->incarnation ||
	    !side->alive || side->fail_scheduled)
		return;
	SIM_TRACE(sim, "%d fence ch%u epoch %u applied %llu nacks %u", side->index, fence->channel,
		  fence->epoch, (unsigned long long)fence->applied, fence->count);
	if (!side->index)
		sim_hostile_fence(sim, &fence->channel, &fence->epoch, &fence->applied);
	SIM_ENTER(sim);
	status = core_chan_fence(&side->link, fence->channel, fence->epoch, fence->applied,
				 fence->nacks, fence->count);
	SIM_LEAVE(sim);
	SIM_HONEST(sim, status == TCPX_OK, "an honest fence was refused with %d", status);
	if (status != TCPX_OK)
		sim_link_fail_later(side, status, 0);
}

void sim_control_send(struct sim_side *side, uint32_t channel, uint32_t epoch, uint64_t applied,
		      const struct core_nack *nacks, uint32_t count)
{
	struct sim *sim = side->sim;
	struct fence *fence = sim_alloc(sizeof(*fence));
	int64_t when = sim->now + net_delay(sim, SIM_CHANNELS + 1);

	if (!sim->control_up)
		return;
	*fence = (struct fence){.channel = channel,
				.epoch = epoch,
				.count = count,
				.control_id = sim->control_id,
				.incarnation = side->incarnation,
				.applied = applied,
				.nacks = sim_alloc((count + 1) * sizeof(*nacks))};
	if (count)
		memcpy(fence->nacks, nacks, count * sizeof(*nacks));
	if (when < side->control_last_ns)
		when = side->control_last_ns;
	side->control_last_ns = when;
	sim_at(sim, when, side->peer, fence_arrive, fence, 0, 0);
}

static void refence(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;

	if (!side->alive || side->incarnation != event->a)
		return;
	SIM_ENTER(sim);
	core_link_refence(&side->link);
	SIM_LEAVE(sim);
}

static void control_back(struct sim *sim, const struct sim_event *event)
{
	int i;

	if (event->a != sim->control_id)
		return;
	sim->control_up = true;
	for (i = 0; i < 2; i++)
		sim_at(sim, sim->now + net_delay(sim, 0), &sim->side[i], refence, NULL,
		       sim->side[i].incarnation, 0);
}

/* What is on its way is lost; after length the link is back. */
void sim_control_cut(struct sim *sim, int64_t length)
{
	SIM_TRACE(sim, "  control link cut for %lld", (long long)length);
	sim->control_up = false;
	sim_at(sim, sim->now + length, NULL, control_back, NULL, ++sim->control_id, 0);
}
