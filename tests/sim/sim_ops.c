/* SPDX-License-Identifier: Apache-2.0 */
/* The effects of the core: memory, notifications, staging, commits that end later. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define HEAD 16 /* bytes before each allocation: its size */

static struct sim_side *entered(void *arg, const char *what)
{
	struct sim_side *side = arg;

	SIM_CHECK(side->sim, side->sim->in_core == 1, "%s outside of a call of the core", what);
	return side;
}

static void op_ended(void *arg, struct core_xfer *xfer)
{
	entered(arg, "ended");
	sim_ended((struct sim_xfer *)xfer);
}

static void op_resp_ended(void *arg, struct core_resp *core)
{
	struct sim_side *side = entered(arg, "resp_ended");
	struct sim_push *resp = (struct sim_push *)core;
	uint32_t i;

	for (i = 0; i <= side->sim->p.bulk_channels; i++) {
		struct sim_tx *tx = &side->chan[i].tx;

		SIM_CHECK(side->sim, !tx->in_call || tx->aborted || tx->tx.segs != &core->segs,
			  "a resp ended in the middle of a call");
	}
	if (core->job.fills)
		SIM_CHECK(side->sim, list_empty(&core->job.fill.slices), "slices of an ended resp");
	sim_ref_resp_ended(resp);
	for (i = 0; i < resp->nregions; i++)
		sim_region_put(resp->regions[i]);
	list_remove(&resp->node);
	memset(&core->segs, 0xdb, sizeof(core->segs));
}

static void op_kick(void *arg, uint32_t channel)
{
	struct sim_side *side = entered(arg, "kick");

	sim_tx_kick(side, channel);
}

static void op_close_channel(void *arg, uint32_t channel)
{
	struct sim_side *side = entered(arg, "close_channel");

	SIM_CHECK(side->sim, side->chan[channel].up, "channel %u is closed already", channel);
	sim_close_later(side, channel, sim_upto(side->sim, side->sim->p.delay));
}

static void op_fence(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		     const struct core_nack *nacks, uint32_t count)
{
	struct sim_side *side = entered(arg, "fence");
	struct sim_chan *chan = &side->chan[channel];
	struct list_node *pos;

	SIM_CHECK(side->sim, !chan->up || chan->conn->epoch > epoch,
		  "channel %u is fenced while it is up", channel);
	LIST_FOREACH(pos, &side->commits) {
		struct sim_commit *commit = LIST_ENTRY(pos, struct sim_commit, node);

		SIM_CHECK(side->sim,
			  commit->deliver || commit->channel != channel ||
				  commit->frame.epoch != epoch,
			  "channel %u is fenced while a commit is under way", channel);
	}
	sim_control_send(side, channel, epoch, applied, nacks, count);
}

static void op_channel_free(void *arg, uint32_t channel)
{
	struct sim_side *side = entered(arg, "channel_free");

	sim_hold_fenced(side, channel);
	sim_ref_fenced(side, channel);
	sim_chan_free(side, channel);
}

static void op_notify(void *arg, struct core_notify_in *msg)
{
	struct sim_side *side = entered(arg, "notify");

	sim_notified(side, msg);
	list_push_back(&side->unread, &msg->node);
	sim_consume_later(side);
}

static void op_notifying(void *arg, struct core_xfer *xfer)
{
	(void)xfer;
	entered(arg, "notifying"); /* a hint for those who poll */
}

static void op_note_ended(void *arg)
{
	entered(arg, "note_ended"); /* a hint for those who flush */
}

static tcpx_status op_deliver(void *arg, struct core_xfer *core, const void *data, uint64_t bytes)
{
	struct sim_side *side = entered(arg, "deliver");
	struct sim_xfer *xfer = (struct sim_xfer *)core;
	struct sim_commit *commit;

	SIM_CHECK(side->sim, xfer->active, "a message for RECV %u after its end", xfer->number);
	if (sim_chance(side->sim, side->sim->p.corrupt)) {
		xfer->corrupt = side->sim->disturbed = true;
		if (!core->local_staged)
			return TCPX_ERR_CORRUPT;
	}
	if (!core->local_staged) {
		sim_segs_copy(side->sim, core->segs, (struct core_cursor){0},
			      (uint8_t *)(uintptr_t)data, bytes, true);
		return TCPX_OK;
	}
	commit = sim_alloc(sizeof(*commit));
	*commit = (struct sim_commit){.side = side,
				      .deliver = true,
				      .fails = xfer->corrupt,
				      .xfer = xfer,
				      .post = xfer->post,
				      .bytes = bytes,
				      .slot = sim_alloc(bytes + 1)};
	memcpy(commit->slot, data, bytes);
	sim_commit_start(commit);
	return TCPX_IN_PROGRESS;
}

/* It read the peer's memory all the time. */
static void copied(const struct sim_commit *commit)
{
	uint8_t *again = sim_alloc(commit->bytes + 1);

	sim_ref_read(commit->lent, again);
	SIM_HONEST(commit->side->sim, !memcmp(again, commit->slot, commit->bytes),
		   "memory that the peer copies has changed");
}

static void commit_end(struct sim *sim, const struct sim_event *event)
{
	struct sim_commit *commit = event->ptr;
	struct sim_side *side = commit->side;
	struct sim_xfer *xfer = commit->xfer;
	tcpx_status status = commit->fails ? TCPX_ERR_CORRUPT : TCPX_OK;

	if (commit->lent)
		copied(commit);
	if (commit->fails) {
		if (!xfer)
			sim_pieces_put(side, commit->pieces, commit->npieces);
	} else if (xfer) {
		SIM_CHECK(sim, xfer->active && xfer->post == commit->post,
			  "transfer %u: its memory is written by a commit after its end",
			  xfer->number);
		sim_segs_copy(sim, &xfer->segs, core_cursor_at(&xfer->segs, commit->linear),
			      commit->slot, commit->bytes, true);
		if (!commit->deliver)
			sim_segs_applied(sim, &xfer->segs, commit->linear, commit->bytes);
	} else {
		sim_pieces_copy(side, commit->pieces, commit->npieces, 0, commit->slot,
				commit->bytes);
		sim_pieces_applied(side, commit->pieces, commit->npieces);
		sim_pieces_put(side, commit->pieces, commit->npieces);
	}
	list_remove(&commit->node);
	sim->count.commits++;
	SIM_ENTER(sim);
	if (commit->deliver)
		core_recv_applied(&side->link, &xfer->x, status);
	else
		core_rx_committed(&side->link, commit->channel, commit->frame.epoch,
				  commit->frame.seq, xfer ? commit->frame.xfer : 0, commit->bytes,
				  commit->lent ? 0 : commit->bytes, status);
	SIM_LEAVE(sim);
	if (commit->lent)
		sim_ref_look(sim);
	sim_try_restart(sim);
}

void sim_commit_start(struct sim_commit *commit)
{
	struct sim_side *side = commit->side;

	if (commit->lent)
		sim_ref_read(commit->lent, commit->slot);
	list_push_back(&side->commits, &commit->node);
	sim_at(side->sim, side->sim->now + (int64_t)sim_upto(side->sim, side->sim->p.commit), side,
	       commit_end, commit, 0, 0);
}

static void stage_more(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;

	side->stage_offered = false;
	if (!side->alive || side->incarnation != event->a || !core_stage_waits(&side->link))
		return;
	SIM_ENTER(sim);
	core_stage_more(&side->link);
	SIM_LEAVE(sim);
}

static uint64_t op_stage_take(void *arg, uint64_t want, uint64_t least)
{
	struct sim_side *side = entered(arg, "stage_take");
	uint64_t room = side->sim->p.stage_pool[side->index] - side->stage_used;
	uint64_t got = want < room ? want : room;

	if (got > 1 && sim_chance(side->sim, 30))
		got = 1 + sim_upto(side->sim, got - 1);
	if (got < least)
		got = 0;
	side->stage_used += got;
	return got;
}

static uint64_t op_stage_ahead(void *arg, uint64_t want)
{
	struct sim_side *side = entered(arg, "stage_ahead");

	return want <= side->sim->p.stage_pool[side->index] / 8 ? want : 0;
}

static void op_stage_give(void *arg, uint64_t bytes)
{
	struct sim_side *side = entered(arg, "stage_give");

	SIM_CHECK(side->sim, bytes <= side->stage_used,
		  "%llu bytes of staging given back, %llu taken", (unsigned long long)bytes,
		  (unsigned long long)side->stage_used);
	side->stage_used -= bytes;
	if (bytes && !side->stage_offered) {
		side->stage_offered = true;
		sim_at(side->sim, side->sim->now, side, stage_more, NULL, side->incarnation, 0);
	}
}

static void op_fill(void *arg)
{
	sim_fill_due(entered(arg, "fill"));
}

static void op_fill_drop(void *arg, struct core_job *job)
{
	sim_fill_drop(entered(arg, "fill_drop"), job);
}

static void *op_alloc(void *arg, size_t bytes)
{
	struct sim_side *side = entered(arg, "alloc");
	uint8_t *ptr;

	if (side->sim->p.alloc_fail && rng_one_in(&side->sim->rng, side->sim->p.alloc_fail))
		return NULL;
	ptr = malloc(HEAD + bytes);
	if (!ptr)
		abort();
	memcpy(ptr, &bytes, sizeof(bytes));
	memset(ptr + HEAD, 0xcd, bytes);
	side->allocs++;
	return ptr + HEAD;
}

void sim_free(struct sim_side *side, void *ptr, size_t bytes)
{
	uint8_t *head = (uint8_t *)ptr - HEAD;
	size_t was;

	memcpy(&was, head, sizeof(was));
	SIM_CHECK(side->sim, was == bytes, "%zu bytes freed as %zu", was, bytes);
	SIM_CHECK(side->sim, side->allocs > 0, "more is freed than was allocated");
	side->allocs--;
	memset(head, 0xdb, HEAD + bytes);
	free(head);
}

static void op_free(void *arg, void *ptr, size_t bytes)
{
	sim_free(entered(arg, "free"), ptr, bytes);
}

static void *op_note_alloc(void *arg, size_t bytes, size_t there)
{
	struct sim_side *side = arg;
	void *ptr = op_alloc(arg, bytes);

	side->note_there += ptr ? there : 0;
	return ptr;
}

static void op_note_grew(void *arg, size_t more)
{
	struct sim_side *side = entered(arg, "note_grew");

	side->note_there += more;
}

void sim_note_free(struct sim_side *side, void *ptr, size_t there)
{
	size_t bytes;

	memcpy(&bytes, (uint8_t *)ptr - HEAD, sizeof(bytes));
	SIM_CHECK(side->sim, there <= bytes && there <= side->note_there,
		  "%zu of %zu bytes were charged", there, bytes);
	side->note_there -= there;
	sim_free(side, ptr, bytes);
}

static void op_note_free(void *arg, void *ptr, size_t there)
{
	sim_note_free(entered(arg, "note_free"), ptr, there);
}

static void note_more(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;

	if (!side->alive || side->incarnation != event->a)
		return;
	SIM_ENTER(sim);
	core_note_more(&side->link);
	SIM_LEAVE(sim);
}

/* Nothing at first, then the least, then all. */
static uint64_t op_note_take(void *arg, uint64_t want, uint64_t least)
{
	struct sim_side *side = entered(arg, "note_take");
	const struct core_cover *cover = &side->link.cover;
	uint64_t got = (uint64_t[]){0, least, want}[side->note_takes++ % 3];

	SIM_CHECK(side->sim, least <= want, "at least %llu wanted of %llu",
		  (unsigned long long)least, (unsigned long long)want);
	SIM_HONEST(side->sim,
		   cover->first + side->note_taken + want <=
			   side->sim->p.credit[side->index][FRAME_CREDIT_NOTIFY],
		   "more is wanted than the budget");
	side->note_taken += got;
	if (got < want)
		sim_at(side->sim, side->sim->now + side->sim->p.delay, side, note_more, NULL,
		       side->incarnation, 0);
	return got;
}

static void op_note_give(void *arg, uint64_t bytes)
{
	struct sim_side *side = entered(arg, "note_give");
	uint64_t first = side->link.dead ? side->link.cover.first : 0;

	SIM_CHECK(side->sim, bytes <= side->note_taken + first, "%llu bytes are not set aside",
		  (unsigned long long)bytes);
	side->note_taken -= bytes < side->note_taken ? bytes : side->note_taken;
}

static void op_fail(void *arg, tcpx_status status)
{
	struct sim_side *side = entered(arg, "fail");

	SIM_HONEST(side->sim, status == TCPX_ERR_NO_MEMORY && side->sim->p.alloc_fail,
		   "the link gives up with %d", status);
	/* Another thread's work: frames go out before. */
	sim_link_fail_later(side, status, sim_upto(side->sim, 20 * side->sim->p.delay));
}

/* The application reads and releases the oldest notification. */
void sim_consume_one(struct sim_side *side)
{
	struct list_node *node = list_pop_front(&side->unread);
	struct core_notify_in *msg;
	uint64_t bytes;

	if (!node)
		return;
	msg = LIST_ENTRY(node, struct core_notify_in, node);
	bytes = msg->bytes;
	sim_note_free(side, msg, msg->there);
	if (!side->alive)
		return;
	SIM_ENTER(side->sim);
	core_note_consumed(&side->link, bytes, list_empty(&side->unread));
	SIM_LEAVE(side->sim);
}

static void consume(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;

	(void)sim;
	if (side->incarnation != event->a)
		return;
	side->consuming = false;
	sim_consume_one(side);
	sim_consume_later(side);
}

void sim_consume_later(struct sim_side *side)
{
	if (side->consuming || list_empty(&side->unread))
		return;
	side->consuming = true;
	sim_at(side->sim, side->sim->now + (int64_t)sim_upto(side->sim, side->sim->p.consume), side,
	       consume, NULL, side->incarnation, 0);
}

const struct core_ops sim_ops = {
	.ended = op_ended,
	.resp_ended = op_resp_ended,
	.kick = op_kick,
	.close_channel = op_close_channel,
	.fence = op_fence,
	.channel_free = op_channel_free,
	.notify = op_notify,
	.note_ended = op_note_ended,
	.notifying = op_notifying,
	.deliver = op_deliver,
	.stage_take = op_stage_take,
	.stage_ahead = op_stage_ahead,
	.stage_give = op_stage_give,
	.fill = op_fill,
	.fill_drop = op_fill_drop,
	.alloc = op_alloc,
	.free = op_free,
	.note_alloc = op_note_alloc,
	.note_grew = op_note_grew,
	.note_free = op_note_free,
	.note_take = op_note_take,
	.note_give = op_note_give,
	.fail = op_fail,
};
