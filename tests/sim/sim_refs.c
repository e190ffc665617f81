/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks by reference: the peer copies them from where they lie, in its own time. Who lends memory
 * knows which chunks are on their way; who copies knows whose memory it is. */
#include "sim.h"

#include <string.h>

bool sim_route_drawn(struct sim *sim, uint32_t percent)
{
	return rng_below(&sim->ref_rng, 100) < percent;
}

static bool all_known(const struct sim_xfer *xfer)
{
	uint32_t i;

	for (i = 0; i < xfer->segs.nremote; i++) {
		const struct sim_region *region = sim_region_at(xfer->side->peer, xfer->keys[i]);

		if (!region || region->retired)
			return false;
	}
	return true;
}

/* By reference or not, at each post anew: from staged memory to staged memory, where the engine has
 * found the source open at the copying side. Of a message each side decides for itself. */
void sim_ref_route(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;
	bool near = xfer->local[0] && xfer->local[0]->staged;
	bool far = xfer->remote[0] && xfer->remote[0]->staged, both = near && far;

	if (!sim->p.by_ref)
		return;
	xfer->x.local_staged = near;
	xfer->x.remote_staged = far && xfer->x.op == TCPX_OP_WRITE;
	xfer->x.path = near && sim_route_drawn(sim, sim->p.by_ref) ? CORE_PATH_REFERENCE
								   : CORE_PATH_STREAM;
	if (xfer->x.path != CORE_PATH_REFERENCE || xfer->x.op == TCPX_OP_SEND ||
	    xfer->x.op == TCPX_OP_RECV)
		return;
	if (!both || (xfer->x.op == TCPX_OP_READ && !all_known(xfer)))
		xfer->x.path = CORE_PATH_STREAM;
	else
		xfer->x.local_staged = xfer->x.remote_staged = false;
}

/* May what a READ asks for be lent, if it asks for that? */
bool sim_ref_served(struct sim_side *side, const struct sim_frame *frame)
{
	uint32_t i;

	for (i = 0; frame->frame.flags & FRAME_F_REF && i < frame->npieces; i++)
		if (!sim_region_at(side, frame->pieces[i].key)->staged)
			return false;
	return true;
}

/* Its chunk was neither acknowledged nor fenced. */
static bool under_way(const struct sim_side *side, const struct sim_lent *lent)
{
	uint32_t channel = lent->conn->channel;
	const struct core_chan *chan = &side->link.chan[channel];

	if (!side->alive)
		return true; /* until the lease is over */
	return side->chan[channel].conn == lent->conn && chan->state != CORE_CHAN_DOWN &&
	       lent->seq > chan->inflight.acked_seq;
}

/* Bytes that are lent; and how many chunks of them on one connection. */
static uint64_t lent_bytes(struct sim_side *side, const struct sim_conn *conn, uint32_t *out_chunks)
{
	struct list_node *pos, *tmp;
	uint64_t sum = 0;

	*out_chunks = 0;
	LIST_FOREACH_SAFE(pos, tmp, &side->lents) {
		struct sim_lent *lent = LIST_ENTRY(pos, struct sim_lent, node);

		if (!under_way(side, lent)) {
			list_remove(&lent->node);
			continue;
		}
		sum += lent->bytes;
		*out_chunks += lent->conn == conn;
	}
	return sum;
}

/* Those that are over are forgotten. */
static void lents_look(struct sim_side *side)
{
	uint32_t none;

	(void)lent_bytes(side, NULL, &none);
}

static void ref_check(struct sim_side *side, const struct core_tx *tx, uint64_t before,
		      uint32_t bytes)
{
	struct sim *sim = side->sim;

	SIM_CHECK(sim, tx->job->path == CORE_PATH_REFERENCE && !tx->job->fills && !tx->job->staged,
		  "a chunk by reference of a job that is filled or wants staging");
	SIM_CHECK(sim, tx->job->small || before < sim->p.ref_window,
		  "%llu bytes by reference are under way, and one more chunk",
		  (unsigned long long)before);
	/* Without memory to queue again a ring stays as it is, until the link fails of it. */
	SIM_CHECK(sim, side->fail_scheduled || side->link.ref_bytes == before + bytes,
		  "%llu bytes by reference are under way, and %llu are counted",
		  (unsigned long long)before + bytes, (unsigned long long)side->link.ref_bytes);
}

static void put_sources(struct sim_lent *lent, const struct core_tx *tx)
{
	struct core_cursor at = tx->at;
	uint64_t left = lent->bytes;

	lent->pieces = sim_alloc((tx->pieces + 1) * sizeof(*lent->pieces));
	while (left > 0) {
		const struct core_seg *seg = &tx->segs->seg[at.seg];
		const struct sim_region *region = tx->segs->local[seg->local];
		uint64_t n = core_seg_length(tx->segs, at.seg) - at.off;

		n = n < left ? n : left;
		lent->pieces[lent->npieces++] = (struct sim_piece){
			.key = region->key, .offset = seg->local_off + at.off, .bytes = n};
		left -= n;
		at = (struct core_cursor){.seg = at.seg + 1};
	}
}

static void read_pieces(const struct sim_lent *lent, uint8_t *to)
{
	struct sim *sim = lent->side->sim;

	for (uint32_t i = 0; i < lent->npieces; i++) {
		const struct sim_piece *piece = &lent->pieces[i];
		const struct sim_region *region = sim_region_at(lent->side, piece->key);

		SIM_HONEST(sim, !region->dead, "region %llx: copied from after it was quiesced",
			   (unsigned long long)region->key);
		memcpy(to, region->mem + piece->offset, piece->bytes);
		to += piece->bytes;
	}
}

/* A chunk by reference, or a message, was cut: its memory is lent from now on. */
struct sim_lent *sim_ref_lend(struct sim_side *side, const struct core_tx *tx,
			      struct sim_conn *conn)
{
	struct sim *sim = side->sim;
	struct sim_lent *lent = sim_alloc(sizeof(*lent));
	uint32_t chunks;
	uint64_t before = lent_bytes(side, conn, &chunks);

	*lent = (struct sim_lent){
		.side = side, .conn = conn, .seq = tx->frame.seq, .bytes = tx->frame.payload_bytes};
	if (tx->job->kind == CORE_JOB_RESP) {
		lent->resp = LIST_ENTRY(tx->job, struct sim_push, resp.job);
	} else {
		lent->xfer = LIST_ENTRY(tx->job, struct sim_xfer, x.job);
		lent->post = lent->xfer->post;
	}
	if (sim_is_msg(&tx->frame))
		sim_msg_check(side, tx, chunks);
	else
		ref_check(side, tx, before, lent->bytes);
	put_sources(lent, tx);
	list_push_back(&side->lents, &lent->node);
	sim->count.lent++;
	return lent;
}

/* The comms of a lost channel are closed: what the network has of their messages is a copy. */
void sim_ref_closed(struct sim_side *side, const struct sim_conn *conn)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->lents) {
		struct sim_lent *lent = LIST_ENTRY(pos, struct sim_lent, node);

		if (lent->conn != conn || !sim_msg_channel(side->sim, conn->channel))
			continue;
		list_remove(pos);
		if (lent->seq <= side->link.chan[conn->channel].inflight.acked_seq)
			continue; /* it is not lent any more */
		lent->copy = sim_alloc(lent->bytes + 1);
		read_pieces(lent, lent->copy);
		if (lent->xfer)
			lent->xfer->loose = true;
	}
}

/* The fence of a lost channel is through. */
void sim_ref_fenced(struct sim_side *side, uint32_t channel)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->lents)
		if (LIST_ENTRY(pos, struct sim_lent, node)->conn->channel == channel)
			list_remove(pos);
}

/* All that the frame says must agree; the engine ends the link otherwise. */
bool sim_ref_odd(const struct sim_frame *frame, enum core_rx_kind kind)
{
	bool ref = frame->frame.flags & (FRAME_F_REF | FRAME_F_MSG) && frame->frame.payload_bytes;

	if (ref != (frame->lent != NULL))
		return true;
	return ref && kind != CORE_RX_REGION && kind != CORE_RX_SEGS && kind != CORE_RX_SCRATCH;
}

/* The owner took the memory back, and its word was faster than the chunk. */
bool sim_ref_revoked(const struct sim_lent *lent)
{
	struct sim *sim = lent->side->sim;
	uint32_t i;

	for (i = 0; i < lent->npieces; i++) {
		const struct sim_region *region = sim_region_at(lent->side, lent->pieces[i].key);

		if (region->retired ||
		    (region->owner->side == lent->side && lent->xfer && lent->xfer->local_gone))
			return sim_route_drawn(sim, 50);
	}
	return false;
}

/* The source as it is now; it must be the owner's still, and lent. */
void sim_ref_read(const struct sim_lent *lent, uint8_t *to)
{
	struct sim *sim = lent->side->sim;
	const struct sim_xfer *xfer = lent->xfer;

	if (lent->copy) {
		memcpy(to, lent->copy, lent->bytes);
		return;
	}
	if (xfer)
		SIM_HONEST(sim, xfer->active && xfer->post == lent->post,
			   "transfer %u: the peer copies from its memory after its end",
			   xfer->number);
	else
		SIM_HONEST(sim, !lent->resp->resp.ended, "the peer copies for an ended resp");
	read_pieces(lent, to);
}

static bool copies(const struct sim_side *reader, const struct sim_xfer *xfer,
		   const struct sim_push *resp)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &reader->commits) {
		const struct sim_lent *lent = LIST_ENTRY(pos, struct sim_commit, node)->lent;

		if (lent && !lent->copy && lent->resp == resp && lent->xfer == xfer &&
		    (!xfer || lent->post == xfer->post))
			return true;
	}
	return false;
}

/* A request or a read response ended. Its receiver's word that all bytes are there ends a SEND
 * before the acknowledgements come. */
static void quiet(struct sim_side *side, const struct sim_xfer *xfer, const struct sim_push *resp)
{
	struct sim *sim = side->sim;
	uint32_t number = xfer ? xfer->number : 0;
	bool told = xfer && xfer->x.op == TCPX_OP_SEND && xfer->x.status == TCPX_OK;
	struct list_node *pos;

	SIM_HONEST(sim, !copies(side->peer, xfer, resp),
		   "transfer %u or a resp ended while the peer copies from its memory", number);
	if (told || (!side->alive && !side->link.leased))
		return;
	lents_look(side);
	LIST_FOREACH(pos, &side->lents) {
		const struct sim_lent *lent = LIST_ENTRY(pos, struct sim_lent, node);

		SIM_HONEST(sim,
			   lent->resp != resp || lent->xfer != xfer ||
				   (xfer && lent->post != xfer->post),
			   "transfer %u or a resp ended and a chunk of it is lent", number);
	}
}

void sim_ref_ended(struct sim_xfer *xfer)
{
	if (xfer->side->sim->p.by_ref || xfer->side->sim->p.by_msg)
		quiet(xfer->side, xfer, NULL);
}

void sim_ref_resp_ended(struct sim_push *resp)
{
	if (resp->side->sim->p.by_ref || resp->side->sim->p.by_msg)
		quiet(resp->side, NULL, resp);
}

/* ---- the lease: a peer that is alive, or copies still, may read what was lent ---- */

static bool reads(const struct sim_side *reader)
{
	struct list_node *pos;

	if (reader->alive)
		return true;
	LIST_FOREACH(pos, &reader->commits)
		if (LIST_ENTRY(pos, struct sim_commit, node)->lent)
			return true;
	return false;
}

/* Its link is about to fail. */
void sim_ref_failing(struct sim_side *side)
{
	lents_look(side);
	side->link.leased = (side->sim->p.by_ref || side->sim->p.by_msg) && reads(side->peer);
}

static void unlease(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;

	if (side->incarnation != event->a || !side->link.leased)
		return;
	SIM_TRACE(sim, "%d lease over", side->index);
	SIM_ENTER(sim);
	core_link_unlease(&side->link);
	SIM_LEAVE(sim);
	list_init(&side->lents);
	sim_none_outlives(side);
	sim_try_restart(sim);
}

/* Something ended: whose lease may be over? */
void sim_ref_look(struct sim *sim)
{
	int i;

	for (i = 0; i < 2; i++) {
		struct sim_side *side = &sim->side[i];

		if (side->alive)
			continue;
		if (!side->link.leased)
			list_init(&side->lents);
		else if (!reads(side->peer))
			sim_at(sim, sim->now + (int64_t)sim_upto(sim, sim->p.delay), side, unlease,
			       NULL, side->incarnation, 0);
	}
}
