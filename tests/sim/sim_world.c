/* SPDX-License-Identifier: Apache-2.0 */
/* The two sides: links that start, fail and start again, and what is true of them at any moment. */
#include "sim.h"

#include <string.h>

void sim_link_start(struct sim_side *side)
{
	struct sim *sim = side->sim;
	struct core_config cfg = {.chunk_bytes = sim->p.chunk_bytes,
				  .filled_chunk_bytes = sim->p.filled_chunk_bytes,
				  .bulk_channels = sim->p.bulk_channels,
				  .small_bytes = sim->p.small_bytes,
				  .ref_chunk = sim->p.ref_chunk,
				  .ref_window = sim->p.ref_window,
				  .message_channels = sim->p.message_channels,
				  .message_bytes = sim->p.message_bytes,
				  .message_window = sim->p.message_window,
				  .ops = &sim_ops,
				  .arg = side};
	tcpx_status status;

	memcpy(cfg.credit_in, sim->p.credit[side->index], sizeof(cfg.credit_in));
	memcpy(cfg.credit_out, sim->p.credit[1 - side->index], sizeof(cfg.credit_out));
	cfg.cover_in = sim->p.cover[side->index];
	cfg.cover_out = sim->p.cover[1 - side->index];
	side->note_taken = 0;
	memset(side->chan, 0, sizeof(side->chan));
	SIM_ENTER(sim);
	status = core_link_init(&side->link, &cfg);
	SIM_LEAVE(sim);
	SIM_CHECK(sim, status == TCPX_OK, "no link: %d", status);
	side->alive = side->made = true;
	side->fail_scheduled = false;
	side->stage_offered = false;
	side->consuming = false;
	side->pumping = side->reclaiming = false;
	side->nsent = side->nrecv = side->nnoted = side->noted_seen = 0;
	side->incarnation++;
}

static void link_end(struct sim_side *side)
{
	struct sim *sim = side->sim;
	uint32_t i;

	if (!side->made)
		return;
	while (!list_empty(&side->unread)) {
		struct core_notify_in *msg =
			LIST_ENTRY(list_pop_front(&side->unread), struct core_notify_in, node);

		sim_note_free(side, msg, msg->there);
	}
	SIM_ENTER(sim);
	core_link_fini(&side->link);
	SIM_LEAVE(sim);
	side->made = false;
	SIM_CHECK(sim, !side->allocs, "side %d: %llu allocations are left", side->index,
		  (unsigned long long)side->allocs);
	SIM_CHECK(sim, !side->note_there, "side %d: %llu bytes of notifications are charged",
		  side->index, (unsigned long long)side->note_there);
	SIM_CHECK(sim, !side->stage_used, "side %d: %llu bytes of staging are left", side->index,
		  (unsigned long long)side->stage_used);
	SIM_CHECK(sim, !side->fill_used && list_empty(&side->slices),
		  "side %d: %llu bytes of filled slices are left", side->index,
		  (unsigned long long)side->fill_used);
	SIM_CHECK(sim, list_empty(&side->resps), "side %d: a resp is left", side->index);
	SIM_CHECK(sim, list_empty(&side->lents) && !side->link.leased, "side %d: a lease is left",
		  side->index);
	for (i = 0; i < side->nregions; i++)
		SIM_CHECK(sim, !side->regions[i]->io, "region %llx is still in use",
			  (unsigned long long)side->regions[i]->key);
}

/* After both sides gave up and the last commit ended: a new link between the same sessions. */
void sim_try_restart(struct sim *sim)
{
	int i;

	for (i = 0; i < 2; i++)
		if (sim->side[i].alive || sim->side[i].link.leased ||
		    !list_empty(&sim->side[i].commits) || !list_empty(&sim->side[i].orphans) ||
		    !list_empty(&sim->side[i].slices))
			return;
	if (!sim->p.restart)
		return;
	sim->p.restart = false;
	SIM_TRACE(sim, "  restart");
	for (i = 0; i < 2; i++) {
		link_end(&sim->side[i]);
		sim_link_start(&sim->side[i]);
	}
	memset(sim->epoch, 0, sizeof(sim->epoch));
	sim_dial_all(sim);
}

/* Nobody may be inside a channel: calls under way come back first. */
static void leave_channels(struct sim_side *side, bool tell)
{
	struct sim *sim = side->sim;
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_chan *chan = &side->chan[i];
		bool sending, receiving;

		if (!chan->up)
			continue;
		sending = chan->tx.in_call;
		receiving = chan->rx.in_call;
		sim_close(side, i, tell);
		SIM_ENTER(sim);
		if (!tell && sending)
			core_tx_pause(&side->link, i);
		if (!tell && receiving)
			core_rx_pause(&side->link, i);
		SIM_LEAVE(sim);
	}
}

/* Its link is over: who is active is waited for by somebody of ours, or lent to the peer. */
void sim_none_outlives(struct sim_side *side)
{
	struct list_node *pos;
	uint32_t i;

	for (i = 0; i < side->nxfers; i++) {
		struct sim_xfer *xfer = side->xfers[i];
		bool waits = side->link.leased && xfer->x.job.reading;

		LIST_FOREACH(pos, &side->commits)
			waits |= LIST_ENTRY(pos, struct sim_commit, node)->xfer == xfer;
		LIST_FOREACH(pos, &side->orphans)
			waits |= LIST_ENTRY(pos, struct sim_orphan, node)->xfer == xfer;
		waits |= sim_fill_under_way(side, xfer);
		SIM_CHECK(side->sim, !xfer->active || waits, "transfer %u outlives its link",
			  xfer->number);
	}
}

void sim_link_fail(struct sim_side *side, tcpx_status status)
{
	struct sim *sim = side->sim;

	if (!side->alive)
		return;
	SIM_TRACE(sim, "%d link fails with %d", side->index, status);
	sim->broken = true;
	leave_channels(side, sim_chance(sim, 50));
	sim_ref_failing(side);
	side->alive = false;
	SIM_ENTER(sim);
	core_link_fail(&side->link, status);
	SIM_LEAVE(sim);
	sim_hold_dead(side);
	sim_none_outlives(side);
	sim_ref_look(sim);
	if (side->peer->alive)
		sim_link_fail_later(side->peer, TCPX_ERR_PEER_CLOSED, sim_upto(sim, sim->p.delay));
	sim_try_restart(sim);
}

static void fail_now(struct sim *sim, const struct sim_event *event)
{
	(void)sim;
	if (event->side->incarnation == event->b)
		sim_link_fail(event->side, (tcpx_status) - (int)event->a);
}

void sim_link_fail_later(struct sim_side *side, tcpx_status status, uint64_t delay)
{
	if (side->fail_scheduled)
		return;
	side->fail_scheduled = true;
	sim_at(side->sim, side->sim->now + (int64_t)delay, side, fail_now, NULL,
	       (uint64_t) - (int)status, side->incarnation);
}

void sim_world_init(struct sim *sim)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct sim_side *side = &sim->side[i];

		side->sim = sim;
		side->peer = &sim->side[1 - i];
		side->index = i;
		list_init(&side->resps);
		list_init(&side->commits);
		list_init(&side->orphans);
		list_init(&side->unread);
		list_init(&side->slices);
		list_init(&side->holds);
		list_init(&side->lents);
		sim_link_start(side);
	}
	sim->control_up = true;
	sim_dial_all(sim);
}

void sim_world_fini(struct sim *sim)
{
	link_end(&sim->side[0]);
	link_end(&sim->side[1]);
}

void sim_run_all(struct sim *sim)
{
	while (sim_step(sim))
		;
}

/* True at every moment. */
void sim_side_check(struct sim_side *side)
{
	struct sim *sim = side->sim;
	struct core_link *link = &side->link;
	struct list_node *pos;
	uint32_t i;

	if (!side->alive)
		return;
	for (i = 0; i < link->nchan; i++)
		SIM_CHECK(sim,
			  link->chan[i].inflight.next_seq <=
				  link->chan[i].inflight.acked_seq + CORE_RING + 1,
			  "the ring of channel %u overflows", i);
	for (i = 0; i < FRAME_CREDIT_STAGE; i++)
		SIM_CHECK(sim, link->credit[i].used <= link->credit[i].limit,
			  "side %d: credit %u overdrawn", side->index, i);
	SIM_CHECK(sim, side->stage_used <= sim->p.stage_pool[side->index], "staging overdrawn");
	SIM_CHECK(sim, side->fill_used <= sim->p.fill_pool[side->index], "filling overdrawn");
	LIST_FOREACH(pos, &link->active)
		sim_fill_check(side, &LIST_ENTRY(pos, struct core_xfer, node)->job);
	LIST_FOREACH(pos, &link->resps)
		sim_fill_check(side, &LIST_ENTRY(pos, struct core_resp, node)->job);
}
