/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving half of a channel: payload is placed in calls that take time, or thrown away. */
#include "sim.h"

#include <string.h>

static void rx_step(struct sim *sim, const struct sim_event *event);

void sim_rx_kick(struct sim_side *side, uint32_t channel)
{
	struct sim_chan *chan = &side->chan[channel];

	if (!chan->up || chan->rx.scheduled || chan->rx.in_call)
		return;
	chan->rx.scheduled = true;
	sim_at(side->sim, side->sim->now + sim_call_time(side->sim, channel), side, rx_step,
	       chan->conn, channel, 0);
}

static void release(struct sim_side *side, struct sim_rx *rx)
{
	if (rx->held)
		sim_pieces_put(side, rx->frame->pieces, rx->frame->npieces);
	rx->held = false;
}

/* The rest of the frame goes nowhere. */
static void to_scratch(struct sim_side *side, struct sim_rx *rx)
{
	rx->scratch = true;
	release(side, rx);
}

/* It is copied when the frame is through, unless the mapping is gone. */
static void place_lent(struct sim_side *side, struct sim_rx *rx)
{
	rx->staged = true;
	if (sim_is_msg(&rx->frame->frame) || !sim_ref_revoked(rx->frame->lent))
		return;
	rx->status = TCPX_ERR_REMOTE;
	to_scratch(side, rx);
}

/* Where the payload goes. */
static void place(struct sim_side *side, struct sim_rx *rx)
{
	struct sim_frame *frame = rx->frame;
	bool flagged = frame->frame.flags & FRAME_F_STAGED;

	rx->status = TCPX_OK;
	rx->scratch = rx->rx.kind == CORE_RX_SCRATCH;
	rx->held = rx->staged = false;
	rx->collect = NULL;
	rx->done = 0;
	rx->xfer = (struct sim_xfer *)rx->rx.xfer;
	rx->post = rx->xfer ? rx->xfer->post : 0;
	switch (rx->rx.kind) {
	case CORE_RX_REGION:
		if (sim_hostile_pieces(frame)) {
			rx->status = TCPX_ERR_REMOTE_RANGE;
			rx->scratch = true;
			break;
		}
		rx->status = sim_pieces_hold(side, frame->pieces, frame->npieces, SIM_WRITE_RIGHT);
		rx->scratch = rx->status != TCPX_OK;
		rx->held = rx->staged = !rx->scratch;
		rx->staged = rx->staged && flagged;
		break;
	case CORE_RX_SEGS:
		rx->staged = rx->xfer->x.local_staged;
		SIM_HONEST(side->sim,
			   frame->lent || rx->staged == flagged || frame->frame.type == FRAME_RDATA,
			   "SDATA staged %d for memory staged %d", flagged, rx->staged);
		break;
	case CORE_RX_MESSAGE:
		rx->staged = true; /* collected, and handed to the core whole */
		break;
	default:
		break;
	}
	if (frame->lent && !rx->scratch)
		place_lent(side, rx);
	if (rx->staged && !rx->scratch)
		rx->collect = sim_alloc(frame->frame.payload_bytes + 1);
}

static void put_payload(struct sim_side *side, struct sim_rx *rx)
{
	struct sim *sim = side->sim;
	uint8_t *from = rx->frame->payload + rx->done;
	uint64_t linear = rx->rx.linear + rx->done;

	if (rx->scratch || !rx->want)
		return;
	sim_hold_taken(sim, rx->frame, rx->done, rx->want);
	if (rx->collect) {
		memcpy(rx->collect + rx->done, from, rx->want);
		return;
	}
	switch (rx->rx.kind) {
	case CORE_RX_REGION:
		sim_pieces_copy(side, rx->frame->pieces, rx->frame->npieces, rx->done, from,
				rx->want);
		break;
	case CORE_RX_SEGS:
		SIM_CHECK(sim, rx->xfer->active && rx->xfer->post == rx->post,
			  "transfer %u: its memory is written after its end", rx->xfer->number);
		sim_segs_copy(sim, rx->rx.segs, core_cursor_at(rx->rx.segs, linear), from, rx->want,
			      true);
		break;
	case CORE_RX_NOTE:
		SIM_CHECK(sim, linear + rx->want <= rx->rx.note->bytes, "a notification overflows");
		memcpy(rx->rx.note->data + linear, from, rx->want);
		break;
	default:
		break;
	}
}

/* Now and then the memory does not take a chunk. */
static bool spoilt(struct sim_side *side, const struct sim_rx *rx)
{
	struct sim_xfer *xfer = rx->xfer;

	if (!sim_chance(side->sim, side->sim->p.corrupt))
		return false;
	if (!xfer && rx->frame->npieces)
		xfer = sim_region_at(side, rx->frame->pieces[0].key)->owner;
	if (xfer)
		xfer->corrupt = side->sim->disturbed = true;
	return xfer != NULL;
}

/* The trailer says that the chunk counts: staged ones start their way, others are in place. */
static struct sim_commit *applied(struct sim_side *side, uint32_t channel, struct sim_rx *rx)
{
	struct sim *sim = side->sim;
	struct sim_frame *frame = rx->frame;
	struct sim_commit *commit;

	if (rx->rx.kind != CORE_RX_REGION && rx->rx.kind != CORE_RX_SEGS)
		return NULL;
	if (!rx->staged && spoilt(side, rx)) {
		rx->status = TCPX_ERR_CORRUPT;
		return NULL;
	}
	if (!rx->staged && rx->rx.kind == CORE_RX_REGION)
		sim_pieces_applied(side, frame->pieces, frame->npieces);
	else if (!rx->staged)
		sim_segs_applied(sim, rx->rx.segs, rx->rx.linear, frame->frame.payload_bytes);
	if (!rx->staged)
		return NULL;
	commit = sim_alloc(sizeof(*commit));
	*commit = (struct sim_commit){.side = side,
				      .channel = channel,
				      .fails = spoilt(side, rx),
				      .frame = frame->frame,
				      .pieces = rx->held ? frame->pieces : NULL,
				      .npieces = frame->npieces,
				      .slot = rx->collect,
				      .xfer = rx->xfer,
				      .lent = frame->lent,
				      .post = rx->post,
				      .linear = rx->rx.linear,
				      .bytes = frame->frame.payload_bytes};
	rx->held = false;
	rx->status = TCPX_IN_PROGRESS;
	return commit;
}

/* What the engine does: without memory the channel is given up, whatever else ends the link. */
static void refused(struct sim_side *side, uint32_t channel, tcpx_status status)
{
	if (status == TCPX_ERR_NO_MEMORY)
		sim_close(side, channel, true);
	else
		sim_link_fail_later(side, status, 0);
}

/* A WRITE of which a chunk does not count may not be notified. */
static void judge(struct sim_side *side, const struct sim_rx *rx, bool valid)
{
	const struct sim_frame *frame = rx->frame;
	struct sim_region *region;

	if (frame->frame.type == FRAME_NOTIFY && frame->frame.key == FRAME_NOTE_PIGGYBACK)
		side->sim->count.behind++;
	if (frame->frame.type != FRAME_DATA || (valid && rx->status >= 0) || !frame->npieces)
		return;
	region = sim_region_at(side, frame->pieces[0].key);
	if (region && region->owner)
		region->owner->refused = true;
}

static void frame_end(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;
	struct sim_rx *rx = &side->chan[channel].rx;
	struct sim_frame *frame = rx->frame;
	bool valid = frame->valid || !frame->frame.payload_bytes;
	struct sim_commit *commit = NULL;
	tcpx_status status;

	if (rx->held && sim_pieces_retired(side, frame->pieces, frame->npieces)) {
		rx->status = TCPX_ERR_DEREGISTERED;
		to_scratch(side, rx);
	}
	if (rx->rx.kind == CORE_RX_LIST)
		sim_read_request(side, frame);
	if (valid && !rx->scratch)
		commit = applied(side, channel, rx);
	judge(side, rx, valid);
	release(side, rx);
	list_remove(&frame->node);
	rx->busy = rx->in_call = false;
	SIM_ENTER(sim);
	status = core_rx_end(&side->link, channel, valid, valid ? rx->status : TCPX_OK,
			     rx->collect ? rx->collect : (const uint8_t *)"");
	SIM_LEAVE(sim);
	sim_taken(rx, &frame->frame); /* whatever became of it */
	if (status == TCPX_OK)
		sim_hold_got(side, channel);
	if (commit && status == TCPX_OK)
		sim_commit_start(commit);
	else if (commit && commit->pieces) /* the link is over, nothing was promised */
		sim_pieces_put(side, commit->pieces, commit->npieces);
	sim_budget_check(side);
	SIM_HONEST(sim, status == TCPX_OK || (status == TCPX_ERR_NO_MEMORY && sim->p.alloc_fail),
		   "an honest frame of type %u ends in %d", frame->frame.type, status);
	if (status != TCPX_OK)
		refused(side, channel, status);
	else
		sim_rx_kick(side, channel);
}

static void call_end(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	uint32_t channel = (uint32_t)event->a;
	struct sim_rx *rx = &side->chan[channel].rx;
	struct sim_frame *frame = rx->frame;

	if (!rx->in_call || rx->call != event->b || side->chan[channel].conn != event->ptr)
		return;
	put_payload(side, rx);
	rx->done += rx->want;
	if (rx->done == frame->travels && frame->trailer_here) {
		frame_end(side, channel);
		return;
	}
	if (rx->held && sim_pieces_retired(side, frame->pieces, frame->npieces)) {
		rx->status = TCPX_ERR_DEREGISTERED;
		to_scratch(side, rx);
	}
	rx->in_call = false;
	SIM_ENTER(sim);
	if (core_rx_pause(&side->link, channel))
		to_scratch(side, rx);
	SIM_LEAVE(sim);
	if (frame->here > rx->done || frame->trailer_here)
		sim_rx_kick(side, channel);
}

static void call_begin(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;
	struct sim_rx *rx = &side->chan[channel].rx;
	uint32_t here = rx->frame->here - rx->done;

	rx->want = here;
	if (here > 1 && sim_chance(sim, sim->p.partial))
		rx->want = 1 + (uint32_t)rng_below(&sim->rng, here - 1);
	rx->in_call = true;
	sim_at(sim, sim->now + sim_call_time(sim, channel), side, call_end,
	       side->chan[channel].conn, channel, ++rx->call);
}

/* False: the link refuses it and ends. */
static bool frame_begin(struct sim_side *side, uint32_t channel, struct sim_frame *frame)
{
	struct sim *sim = side->sim;
	struct sim_rx *rx = &side->chan[channel].rx;
	tcpx_status status;

	SIM_TRACE(sim, "%d ch%u rx type %u seq %llu xfer %llx linear %llu bytes %u", side->index,
		  channel, frame->frame.type, (unsigned long long)frame->frame.seq,
		  (unsigned long long)frame->frame.xfer, (unsigned long long)frame->frame.linear,
		  frame->frame.payload_bytes);
	if (!side->index)
		sim_hostile_frame(sim, &frame->frame);
	SIM_ENTER(sim);
	status = core_rx_begin(&side->link, channel, &frame->frame, &rx->rx);
	SIM_LEAVE(sim);
	if (status != TCPX_OK) {
		SIM_HONEST(sim, status == TCPX_ERR_NO_MEMORY && sim->p.alloc_fail,
			   "an honest frame of type %u was refused with %d", frame->frame.type,
			   status);
		refused(side, channel, status);
		return false;
	}
	if (sim_ref_odd(frame, rx->rx.kind)) {
		SIM_HONEST(sim, false, "an honest frame that is by reference in part");
		refused(side, channel, TCPX_ERR_PROTOCOL);
		return false;
	}
	rx->busy = true;
	rx->frame = frame;
	place(side, rx);
	return true;
}

static void rx_step(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	uint32_t channel = (uint32_t)event->a;
	struct sim_chan *chan = &side->chan[channel];
	struct sim_rx *rx = &chan->rx;

	if (!chan->up || chan->conn != event->ptr)
		return;
	rx->scheduled = false;
	if (rx->in_call || side->fail_scheduled)
		return;
	if (rx->busy) {
		if (rx->frame->here == rx->done && !rx->frame->trailer_here)
			return;
		SIM_ENTER(sim);
		if (core_rx_resume(&side->link, channel))
			to_scratch(side, rx);
		SIM_LEAVE(sim);
		call_begin(side, channel);
		return;
	}
	{
		struct list_node *pipe = &chan->conn->pipe[1 - side->index];
		struct sim_frame *frame;

		if (list_empty(pipe))
			return;
		frame = LIST_ENTRY(pipe->next, struct sim_frame, node);
		if (!frame->header_here || !frame_begin(side, channel, frame))
			return;
		if (frame->frame.payload_bytes)
			call_begin(side, channel);
		else
			frame_end(side, channel);
	}
}

/* The call under way comes back with nothing placed; the frame is lost. */
void sim_rx_leave(struct sim_side *side, uint32_t channel)
{
	struct sim_rx *rx = &side->chan[channel].rx;

	rx->call++;
	rx->in_call = false;
	if (rx->busy)
		release(side, rx);
}
