/* SPDX-License-Identifier: Apache-2.0 */
/* The sending half of a channel: frames leave in calls that take time and move a part. */
#include "sim.h"

#include <string.h>

static void tx_step(struct sim *sim, const struct sim_event *event);

int64_t sim_call_time(struct sim *sim, uint32_t channel)
{
	int64_t time = (int64_t)sim_upto(sim, sim->p.call);

	return channel == sim->p.slow_channel ? time * 20 : time;
}

void sim_tx_kick(struct sim_side *side, uint32_t channel)
{
	struct sim_chan *chan = &side->chan[channel];

	if (!chan->up || chan->tx.scheduled || chan->tx.in_call)
		return;
	chan->tx.scheduled = true;
	sim_at(side->sim, side->sim->now + sim_call_time(side->sim, channel), side, tx_step,
	       chan->conn, channel, 0);
}

/* The pieces of the frame's remote side, as a table would say them. */
static void put_pieces(struct sim_frame *frame, const struct core_tx *tx)
{
	uint64_t left = frame->frame.type == FRAME_READ_REQ ? frame->frame.offset
							    : frame->frame.payload_bytes;
	struct core_cursor at = tx->at;
	uint32_t i;

	frame->pieces = sim_alloc((tx->pieces + 1) * sizeof(*frame->pieces));
	if (!tx->table) {
		frame->npieces = 1;
		frame->pieces[0] = (struct sim_piece){
			.key = frame->frame.key, .offset = frame->frame.offset, .bytes = left};
		return;
	}
	for (i = 0; i < tx->pieces && left > 0; i++) {
		const struct core_seg *seg = &tx->segs->seg[at.seg];
		uint64_t n = core_seg_length(tx->segs, at.seg) - at.off;

		n = n < left ? n : left;
		frame->pieces[i] = (struct sim_piece){.key = tx->segs->remote[seg->remote],
						      .offset = seg->remote_off + at.off,
						      .bytes = n};
		left -= n;
		at = (struct core_cursor){.seg = at.seg + 1};
	}
	frame->npieces = i;
	frame->frame.table_bytes = i * 20;
}

static void new_frame(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;
	struct sim_tx *tx = &side->chan[channel].tx;
	struct sim_frame *frame = sim_alloc(sizeof(*frame));
	uint8_t type = tx->tx.frame.type;

	frame->frame = tx->tx.frame;
	frame->conn = side->chan[channel].conn;
	frame->from = side->index;
	frame->payload = sim_alloc(frame->frame.payload_bytes + 1);
	frame->travels = frame->frame.payload_bytes;
	if (type == FRAME_DATA || type == FRAME_READ_REQ)
		put_pieces(frame, &tx->tx);
	if (sim_is_msg(&frame->frame)) {
		frame->lent = sim_ref_lend(side, &tx->tx, frame->conn);
		frame->travels = frame->frame.table_bytes = 0;
	} else if (frame->frame.flags & FRAME_F_REF && frame->travels) {
		frame->lent = sim_ref_lend(side, &tx->tx, frame->conn);
		frame->travels = 0;
		frame->frame.follows = frame->lent->npieces * 20;
		frame->frame.table_bytes += frame->frame.follows;
	}
	if (tx->tx.job && tx->tx.job->by_prio && type != FRAME_READ_REQ) {
		/* The core may have had no memory for the priority channel: then this link is
		 * about to end. */
		SIM_CHECK(sim,
			  channel == CORE_PRIO || !side->chan[CORE_PRIO].up || side->fail_scheduled,
			  "what goes by the prio leaves on channel %u", channel);
		sim->count.by_prio++;
	}
	SIM_CHECK(sim, frame->frame.epoch == frame->conn->epoch, "a frame of epoch %u on epoch %u",
		  frame->frame.epoch, frame->conn->epoch);
	SIM_CHECK(sim, !frame->frame.payload_bytes || tx->tx.segs || tx->tx.bytes,
		  "a frame of type %u with nothing to read its payload from", type);
	tx->frame = frame;
	tx->at = tx->tx.at;
	tx->aborted = tx->begun = false;
	tx->busy = true;
	tx->xfer = NULL;
	sim_fill_claim(side, tx);
	sim_hold_frame(side, tx, frame->conn);
	sim_told(sim, &side->chan[channel].rx, &frame->frame);
	if (tx->tx.segs && type != FRAME_RDATA) {
		tx->xfer = LIST_ENTRY(tx->tx.segs, struct sim_xfer, segs);
		tx->post = tx->xfer->post;
	}
	SIM_TRACE(sim, "%d ch%u tx type %u seq %llu xfer %llx linear %llu bytes %u offset %llu",
		  side->index, channel, type, (unsigned long long)frame->frame.seq,
		  (unsigned long long)frame->frame.xfer, (unsigned long long)frame->frame.linear,
		  frame->frame.payload_bytes, (unsigned long long)frame->frame.offset);
}

/* What the call has its hands on, read now. */
static void read_memory(struct sim_side *side, struct sim_tx *tx, uint8_t *to)
{
	struct sim *sim = side->sim;

	if (tx->aborted) {
		memset(to, 0xaa, tx->want);
	} else if (tx->tx.segs) {
		SIM_CHECK(sim, !tx->xfer || (tx->xfer->active && tx->xfer->post == tx->post),
			  "transfer %u: its memory is read after its end", tx->xfer->number);
		if (tx->nslices)
			sim_fill_read(tx, to);
		else
			sim_segs_copy(sim, tx->tx.segs, tx->at, to, tx->want, false);
	} else if (tx->want) {
		memcpy(to, (const uint8_t *)tx->tx.bytes + tx->from, tx->want);
	}
}

static struct sim_tx *call_of(const struct sim_event *event)
{
	struct sim_chan *chan = &event->side->chan[event->a];

	return chan->tx.in_call && chan->tx.call == event->b && chan->conn == event->ptr ? &chan->tx
											 : NULL;
}

/* The bytes leave some time before the call returns: the peer may have answered by then. */
static void call_move(struct sim *sim, const struct sim_event *event)
{
	struct sim_tx *tx = call_of(event);
	struct sim_frame *frame;

	(void)sim;
	if (!tx)
		return;
	frame = tx->frame;
	read_memory(event->side, tx, frame->payload + tx->from);
	frame->valid = !tx->aborted;
	if (frame->nslices && !tx->aborted)
		frame->by_slices = tx->from + tx->want;
	tx->last = tx->from + tx->want == frame->travels;
	sim_frame_send(frame, tx->want, !tx->begun, tx->last);
	tx->begun = true;
}

static void call_end(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	uint32_t channel = (uint32_t)event->a, pieces;
	struct sim_tx *tx = call_of(event);
	uint8_t *again;

	if (!tx)
		return;
	again = sim_alloc(tx->want + 1);
	read_memory(side, tx, again);
	/* A responder's source is its application's, who may change it. */
	SIM_CHECK(sim,
		  (tx->tx.segs && !tx->xfer) ||
			  !memcmp(again, tx->frame->payload + tx->from, tx->want),
		  "memory that a call reads has changed");
	if (tx->tx.segs && !tx->aborted)
		core_cursor_advance(tx->tx.segs, &tx->at, tx->want, UINT32_MAX, &pieces);
	tx->in_call = false;
	SIM_ENTER(sim);
	if (tx->last) {
		tx->busy = false;
		core_tx_sent(&side->link, channel, tx->frame->valid);
	} else if (core_tx_pause(&side->link, channel)) {
		tx->aborted = true;
	}
	SIM_LEAVE(sim);
	if (!tx->busy)
		sim_fill_put(tx->slices, &tx->nslices);
	sim_tx_kick(side, channel);
}

static void call_begin(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;
	struct sim_tx *tx = &side->chan[channel].tx;
	uint32_t left = tx->frame->travels - tx->frame->sent;
	int64_t time = sim_call_time(sim, channel);
	void *conn = side->chan[channel].conn;

	tx->from = tx->frame->sent;
	tx->want = left;
	if (left > 1 && sim_chance(sim, sim->p.partial))
		tx->want = 1 + (uint32_t)rng_below(&sim->rng, left - 1);
	tx->in_call = true;
	tx->call++;
	sim_at(sim, sim->now + (int64_t)sim_upto(sim, (uint64_t)time), side, call_move, conn,
	       channel, tx->call);
	sim_at(sim, sim->now + time, side, call_end, conn, channel, tx->call);
}

static void tx_step(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	uint32_t channel = (uint32_t)event->a;
	struct sim_chan *chan = &side->chan[channel];
	struct sim_tx *tx = &chan->tx;
	int some;

	if (!chan->up || chan->conn != event->ptr)
		return;
	tx->scheduled = false;
	if (tx->in_call)
		return;
	SIM_ENTER(sim);
	if (tx->busy) {
		if (core_tx_resume(&side->link, channel))
			tx->aborted = true;
		some = 1;
	} else {
		some = core_tx_next(&side->link, channel, &tx->tx);
		if (some)
			new_frame(side, channel);
	}
	SIM_LEAVE(sim);
	if (!some) {
		sim_asked_check(sim, side, channel);
		sim_idle_check(sim, side);
	}
	if (some)
		call_begin(side, channel);
	else if (sim_chance(sim, sim->p.spurious))
		sim_tx_kick(side, channel);
}

static void orphan_end(struct sim *sim, const struct sim_event *event)
{
	struct sim_orphan *orphan = event->ptr;
	const struct sim_xfer *xfer = orphan->xfer;

	SIM_CHECK(sim, !xfer || (xfer->active && xfer->post == orphan->post),
		  "transfer %u: its memory is read after its end", xfer->number);
	list_remove(&orphan->node);
	SIM_ENTER(sim);
	core_io_drop(&event->side->link, &orphan->io);
	SIM_LEAVE(sim);
	sim_fill_put(orphan->slices, &orphan->nslices);
	sim_try_restart(sim);
}

/* The channel closes, but something else goes on reading the source for a while. */
void sim_tx_orphan(struct sim_side *side, uint32_t channel)
{
	struct sim *sim = side->sim;
	struct sim_tx *tx = &side->chan[channel].tx;
	struct sim_orphan *orphan;

	if (!tx->in_call || !tx->tx.segs || tx->aborted || tx->frame->lent || !sim_chance(sim, 30))
		return;
	orphan = sim_alloc(sizeof(*orphan));
	orphan->xfer = tx->xfer;
	orphan->post = tx->post;
	memcpy(orphan->slices, tx->slices, sizeof(orphan->slices));
	orphan->nslices = tx->nslices;
	tx->nslices = 0;
	list_push_back(&side->orphans, &orphan->node);
	SIM_ENTER(sim);
	core_tx_take(&side->link, channel, &orphan->io);
	SIM_LEAVE(sim);
	sim_at(sim, sim->now + (int64_t)sim_upto(sim, sim->p.commit), side, orphan_end, orphan, 0,
	       0);
}

/* The call under way comes back with nothing moved. */
void sim_tx_leave(struct sim_side *side, uint32_t channel)
{
	struct sim_tx *tx = &side->chan[channel].tx;

	tx->call++;
	tx->in_call = false;
	sim_fill_put(tx->slices, &tx->nslices);
}
