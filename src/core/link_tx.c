/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the next frame of a channel. */
#include <string.h>

#include "core/link_priv.h"

/* Whether more than `spare` places are free in the channel's ring of unacknowledged frames. */
static bool ring_has_room(const struct core_chan *chan, uint32_t spare)
{
	return core_inflight_count(&chan->inflight) + spare < CORE_RING;
}

/* Records that the frame is under way from now on, inside a call of the transport. */
static void tx_begin(struct core_chan *chan, const struct frame *frame)
{
	chan->tx = (struct core_io){.busy = true, .in_call = true};
	chan->tx_seq = frame->seq;
	chan->tx_bytes = frame->payload_bytes;
	chan->tx_torn = false;
}

/* Sets *tx to a NACK that is to be sent. Like each function tx_next_*(), returns false if there is
 * no frame of its kind, or if the frame must wait. */
static bool tx_next_nack(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	const struct core_nack *nack = NULL;

	if (chan->rxseq.unsent && ring_has_room(chan, 0))
		nack = core_rxseq_nack_next(&chan->rxseq);
	if (!nack)
		return false;
	tx->frame.type = FRAME_NACK;
	tx->frame.linear = nack->seq;
	tx->frame.xfer = nack->xfer;
	tx->frame.offset = core_status_pack((tcpx_status)nack->status);
	core_chunk_add(link, chan, &tx->frame, NULL);
	return true;
}

/* Sets *frame to a CREDIT frame that is due; one for staging grants comes after all others. Returns
 * false if none is due. */
static bool tx_next_credit(struct core_link *link, struct frame *frame)
{
	int kind;

	for (kind = 0; kind < FRAME_CREDIT_STAGE; kind++) {
		if (!link->credit[kind].due)
			continue;
		frame->type = FRAME_CREDIT;
		frame->key = (uint64_t)kind;
		frame->linear = core_credit_advertise(&link->credit[kind]);
		frame->offset = kind == FRAME_CREDIT_NOTIFY ? core_cover_advertise(link) : 0;
		return true;
	}
	if (!link->stage_in.due)
		return false;
	frame->type = FRAME_CREDIT;
	frame->key = FRAME_CREDIT_STAGE;
	frame->linear = core_stage_in_advertise(&link->stage_in, &frame->offset);
	return true;
}

/* Sets *tx to a frame without a sequence: an ACK of this channel, a CREDIT, a request for cover, or
 * a STAGE_REQ. Only channels that carry small jobs send the last three. Returns false if there is
 * none to send. */
static bool tx_next_unsequenced(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	struct frame *frame = &tx->frame;

	frame->epoch = chan->epoch;
	if (core_rxseq_ack_next(&chan->rxseq, chan->rx.busy, &frame->linear, &frame->key)) {
		frame->type = FRAME_ACK;
		return true;
	}
	if (!core_carries_small(link, chan->index))
		return false;
	return tx_next_credit(link, frame) || core_cover_request_next(link, frame) ||
	       core_stage_out_next(&link->stage_out, frame);
}

static bool tx_next_ctl(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	struct list_node *node = list_pop_front(&link->sendq.ctl);
	struct core_chunk *chunk;
	struct core_ctl *ctl;

	if (!node)
		return false;
	link->sendq.nctl--;
	ctl = LIST_ENTRY(node, struct core_ctl, node);
	tx->frame = ctl->frame;
	chunk = core_chunk_add(link, chan, &tx->frame, NULL);
	chunk->ctl = ctl;
	return true;
}

/* Cuts the first frame of a SEND: a SEND frame with all bytes if it is short enough and there is
 * eager credit for them (core_send_acquire), otherwise an RTS, which only announces the SEND.
 * Returns false if there is no credit for either, or if the bytes of a SEND frame are not filled
 * yet. */
static bool tx_cut_send(struct core_link *link, struct core_chan *chan, struct core_xfer *xfer,
			struct core_tx *tx)
{
	uint64_t total = xfer->segs->total;
	struct core_job *job = &xfer->job;
	uint32_t pieces = 0;

	if (!core_send_acquire(link, xfer))
		return false;
	if (job->fills && xfer->send.eager && job->fill.ready < total) {
		core_sendrecv_acquire(link);
		return false;
	}
	tx->frame.type = xfer->send.eager ? FRAME_SEND : FRAME_RTS;
	tx->frame.xfer = xfer->id;
	tx->frame.linear = xfer->send.number;
	if (xfer->send.eager) {
		struct core_cursor at = {0};

		tx->segs = xfer->segs;
		core_cursor_advance(xfer->segs, &at, total, UINT32_MAX, &pieces);
		tx->pieces = pieces;
		tx->frame.payload_bytes = (uint32_t)total;
	} else {
		tx->frame.offset = total;
	}
	tx->job = job;
	job->announced = true;
	job->linear = job->end;
	core_chunk_add(link, chan, &tx->frame, job);
	return true;
}

/* Sets the header of the job's frame that carries `bytes` bytes from `linear` on. */
static void tx_set_frame(struct core_job *job, struct core_tx *tx, uint64_t linear, uint32_t bytes)
{
	struct frame *frame = &tx->frame;

	frame->linear = linear;
	frame->payload_bytes = bytes;
	switch (job->kind) {
	case CORE_JOB_WRITE:
		frame->type = FRAME_DATA;
		frame->follows = job->end - linear - bytes < UINT32_MAX
					 ? (uint32_t)(job->end - linear - bytes)
					 : UINT32_MAX;
		frame->xfer = core_job_xfer(job)->id;
		tx->table = tx->pieces > 1;
		if (!tx->table) {
			const struct core_seg *seg = &job->segs->seg[tx->at.seg];

			frame->key = job->segs->remote[seg->remote];
			frame->offset = seg->remote_off + tx->at.off;
		}
		break;
	case CORE_JOB_REQUEST:
		frame->type = FRAME_READ_REQ;
		frame->xfer = core_job_xfer(job)->id;
		frame->key = job->by_prio ? FRAME_READ_BY_PRIO : FRAME_READ_ANYHOW;
		frame->offset = bytes;
		tx->table = true;
		break;
	case CORE_JOB_RESP:
		frame->type = FRAME_RDATA;
		frame->xfer = job->peer_xfer;
		frame->linear = linear + job->linear_base;
		break;
	case CORE_JOB_SEND:
		frame->type = FRAME_SDATA;
		frame->xfer = job->peer_xfer;
		break;
	case CORE_JOB_NOTE:
		frame->type = FRAME_NOTIFY;
		frame->xfer = core_job_note(job)->number;
		frame->key =
			core_job_note(job)->standalone ? FRAME_NOTE_ALONE : FRAME_NOTE_ATTACHED;
		frame->offset = job->end;
		tx->bytes = (const char *)core_job_note(job)->data + linear;
		job->announced = true;
		break;
	}
	if (job->staged)
		frame->flags |= FRAME_F_STAGED;
	frame->flags |= core_path_flag(job->path);
}

/* Returns how many of `want` bytes of the job may be cut now. Returns 0 if the request of a READ
 * must wait for READ credit or for staging on this side, or if a staged chunk must wait for grants.
 * Takes the staging of a READ from the pool. */
static uint64_t tx_allowance(struct core_link *link, struct core_job *job, uint64_t want)
{
	if (job->kind == CORE_JOB_REQUEST) {
		struct core_xfer *xfer = core_job_xfer(job);

		if (!core_credit_left(&link->credit[FRAME_CREDIT_READ]))
			return 0;
		if (!xfer->local_staged)
			return want;
		want = core_stage_take(link, want, xfer->reserved);
		xfer->reserved += want;
		return want;
	}
	if (job->staged && core_stage_out_left(&link->stage_out) < want)
		return core_stage_out_left(&link->stage_out);
	return want;
}

/* Whether the channel's window is open. On a channel of plugin messages the window limits the
 * messages in flight, on others the bytes of staged sources that the peer has not taken. Does not
 * check the ring. */
static bool chan_has_window(const struct core_link *link, const struct core_chan *chan)
{
	if (core_carries_messages(link, chan->index))
		return chan->inflight.messages < link->cfg.message_window;
	return chan->inflight.filled_bytes < core_filled_window(&link->cfg);
}

/* Whether the channel takes the job now. Channels of plugin messages take jobs that are sent as
 * messages, and only while their window is open. Other channels take all other jobs. Small and bulk
 * jobs are not distinguished here. */
static bool chan_takes_job(const struct core_link *link, const struct core_chan *chan,
			   const struct core_job *job)
{
	if (core_carries_messages(link, chan->index) != core_job_messages(job))
		return false;
	return !core_job_messages(job) || chan->inflight.messages < link->cfg.message_window;
}

/* Cuts the job's next chunk: one that must be sent again if there is one, otherwise new bytes.
 * First determines how many bytes may be cut, by chunk size, credit, grants, and the windows of the
 * channel and the link. Then uses credit and grants, sets *tx, advances the job, and puts the chunk
 * into the ring. Returns false if nothing may be cut now. */
static bool tx_cut(struct core_link *link, struct core_chan *chan, struct core_job *job,
		   struct core_tx *tx)
{
	bool request = job->kind == CORE_JOB_REQUEST, again = job->retransmit != NULL;
	struct core_chunk *chunk;
	struct core_cursor at;
	uint64_t linear, bytes;

	if (!chan_takes_job(link, chan, job))
		return false;
	if (job->kind == CORE_JOB_SEND && (!job->announced || (again && !job->cleared))) {
		if (again)
			core_retransmit_pop(link, job);
		return tx_cut_send(link, chan, core_job_xfer(job), tx);
	}
	linear = again ? job->retransmit->linear : job->linear;
	bytes = again ? job->retransmit->bytes : core_job_cut_end(job) - job->linear;
	at = again ? job->retransmit->at : job->at;
	if (!request)
		bytes = core_chunk_limit(link, job, linear, bytes);
	else if (bytes > CORE_REQUEST_BYTES)
		bytes = CORE_REQUEST_BYTES;
	if (request && again)
		bytes = core_credit_left(&link->credit[FRAME_CREDIT_READ]) ? bytes : 0;
	else if (bytes)
		bytes = tx_allowance(link, job, bytes);
	if (!bytes && job->kind != CORE_JOB_NOTE)
		return false;
	/* If the channel's window is full, nothing is cut of a large job with a staged source: more
	 * bytes would only wait in the transport and occupy staging memory. */
	if (job->fills && !job->small && !chan_has_window(link, chan))
		return false;
	if (job->path == CORE_PATH_REFERENCE && !job->small &&
	    link->ref_bytes >= link->cfg.ref_window)
		return false;
	tx->at = at;
	tx->segs = job->segs;
	tx->job = job;
	if (job->segs) {
		uint64_t took = core_cursor_advance(job->segs, &at, bytes,
						    core_job_messages(job) ? 1 : CORE_PIECES_MAX,
						    &tx->pieces);

		if (request && !again && core_job_xfer(job)->local_staged && took < bytes) {
			core_job_xfer(job)->reserved -= bytes - took;
			core_stage_free(link, bytes - took);
		}
		bytes = took;
	}
	if (request)
		(void)core_credit_acquire(&link->credit[FRAME_CREDIT_READ],
					  1); /* cannot fail: credit was found above */
	if (job->staged)
		core_stage_out_use(&link->stage_out, bytes);
	tx_set_frame(job, tx, linear, (uint32_t)(request ? 0 : bytes));
	if (request)
		tx->frame.offset = bytes;
	if (!again) {
		job->linear += bytes;
		job->at = at;
		core_fill_pulled(link, job);
	} else if (bytes == job->retransmit->bytes) {
		core_retransmit_pop(link, job);
	} else {
		job->retransmit->linear += bytes;
		job->retransmit->bytes -= (uint32_t)bytes;
		job->retransmit->at = at;
	}
	chunk = core_chunk_add(link, chan, &tx->frame, job);
	chunk->at = tx->at;
	chunk->linear = linear;
	chunk->bytes = (uint32_t)bytes;
	return true;
}

/* Cuts a chunk of the first job in the queue that has a chunk to cut now. Returns false if there is
 * none. A job that has had its turn moves to the end of the queue. */
static bool tx_next_job(struct core_link *link, struct core_chan *chan, struct list_node *queue,
			struct core_tx *tx)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, queue) {
		struct core_job *job = LIST_ENTRY(pos, struct core_job, node);

		if (!tx_cut(link, chan, job, tx)) {
			if (queue == &link->sendq.sends)
				/* the first frames of SENDs leave in order, so no later SEND may
				 * overtake this one */
				return false;
			continue;
		}
		tx_begin(chan, &tx->frame);
		if (job->kind == CORE_JOB_RESP)
			core_io_ref(&chan->tx, NULL, core_job_resp(job));
		else if (job->kind == CORE_JOB_NOTE)
			core_io_ref_note(&chan->tx, core_job_note(job));
		else
			core_io_ref(&chan->tx, core_job_xfer(job), NULL);
		job->quantum += tx->frame.payload_bytes;
		if (!core_job_cuttable(job)) {
			core_job_unqueue(job);
		} else if (job->quantum >= core_job_quantum(link, job)) {
			job->quantum = 0;
			core_job_unqueue(job);
			job->queued = true;
			list_push_back(queue, &job->node);
		}
		return true;
	}
	return false;
}

/* Sets *tx to the first frame of the next SEND, or to the CANCEL of a SEND that ended without eager
 * credit, whichever has the lower message number. */
static bool tx_next_send(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	struct core_chunk *chunk;
	struct core_ctl *ctl;

	if (list_empty(&link->sendq.cancelled))
		return tx_next_job(link, chan, &link->sendq.sends, tx);
	ctl = LIST_ENTRY(link->sendq.cancelled.next, struct core_ctl, node);
	if (!list_empty(&link->sendq.sends) &&
	    core_job_xfer(LIST_ENTRY(link->sendq.sends.next, struct core_job, node))->send.number <
		    ctl->frame.linear)
		return tx_next_job(link, chan, &link->sendq.sends, tx);
	if (!core_credit_acquire(&link->credit[FRAME_CREDIT_EAGER], CORE_NOTE_COST))
		return false;
	list_remove(&ctl->node);
	link->sendq.ncancelled--;
	tx->frame = ctl->frame;
	chunk = core_chunk_add(link, chan, &tx->frame, NULL);
	chunk->ctl = ctl;
	tx_begin(chan, &tx->frame);
	return true;
}

static bool tx_next_small(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	link->sendq.sends_first = !link->sendq.sends_first;
	if (link->sendq.sends_first)
		return tx_next_send(link, chan, tx) ||
		       tx_next_job(link, chan, &link->sendq.small, tx);
	return tx_next_job(link, chan, &link->sendq.small, tx) || tx_next_send(link, chan, tx);
}

/* Sets *tx to the notification of a WRITE of one chunk, if this chunk was the channel's last
 * frame. */
static bool tx_next_piggyback(struct core_link *link, struct core_chan *chan, struct core_tx *tx)
{
	struct core_note *note = core_piggyback_next(chan);

	if (!note)
		return false;
	tx_set_frame(&note->job, tx, 0, (uint32_t)note->bytes);
	tx->frame.xfer = note->xfer->id;
	tx->frame.key = FRAME_NOTE_PIGGYBACK;
	note->piggybacked = true;
	note->job.linear = note->job.end;
	core_chunk_add(link, chan, &tx->frame, &note->job);
	tx_begin(chan, &tx->frame);
	core_io_ref_note(&chan->tx, note);
	return true;
}

/* Called when the channel `full` goes idle. If bulk jobs wait, and the ring or the window of `full`
 * has no room, a kick may have been wasted on it. In this case kicks another idle channel of the
 * same kind that has room. */
static void tx_pass_kick_on(struct core_link *link, const struct core_chan *full)
{
	uint32_t i;

	if (list_empty(&link->sendq.bulk) ||
	    (ring_has_room(full, CORE_RING_SPARE) && chan_has_window(link, full)))
		return;
	for (i = 1; i < link->nchan; i++) {
		struct core_chan *chan = &link->chan[i];

		if (chan->state != CORE_CHAN_UP || !chan->idle ||
		    !ring_has_room(chan, CORE_RING_SPARE) || !chan_has_window(link, chan) ||
		    core_carries_messages(link, i) != core_carries_messages(link, full->index))
			continue;
		core_kick(link, chan);
		return;
	}
}

/* Sets *tx to the channel's next frame (link_tx.h). Frames are tried in this order: the
 * notification of the chunk just sent; refusals; ACK, CREDIT and STAGE_REQ, which need no place in
 * the ring; control frames; small jobs and SENDs; bulk jobs; a NOP that asks for an
 * acknowledgement. If there is nothing to send, the channel becomes idle. */
int core_tx_next(struct core_link *link, uint32_t channel, struct core_tx *tx)
{
	struct core_chan *chan = &link->chan[channel];

	if (link->dead || chan->state != CORE_CHAN_UP || chan->tx.busy)
		return 0;
	memset(tx, 0, sizeof(*tx));
	tx->channel = channel;
	if (!list_empty(&link->cover.unpaid))
		core_cover_more(link);
	if (tx_next_piggyback(link, chan, tx))
		return 1;
	if (tx_next_nack(link, chan, tx) || tx_next_unsequenced(link, chan, tx)) {
		tx_begin(chan, &tx->frame);
		return 1;
	}
	if (ring_has_room(chan, CORE_RING_SPARE)) {
		if (core_carries_small(link, channel)) {
			if (tx_next_ctl(link, chan, tx)) {
				tx_begin(chan, &tx->frame);
				return 1;
			}
			if (tx_next_small(link, chan, tx))
				return 1;
		}
		if ((core_carries_bulk(link, channel) || core_carries_messages(link, channel)) &&
		    tx_next_job(link, chan, &link->sendq.bulk, tx))
			return 1;
		memset(tx, 0, sizeof(*tx));
		/* Before the channel goes idle, it asks for an acknowledgement that is needed and
		 * that no frame has asked for. */
		if (chan->inflight.ack_needed &&
		    chan->inflight.asked_seq < chan->inflight.next_seq - 1) {
			tx->channel = channel;
			tx->frame.type = FRAME_NOP;
			core_chunk_add(link, chan, &tx->frame, NULL);
			tx_begin(chan, &tx->frame);
			return 1;
		}
	}
	chan->idle = true;
	tx_pass_kick_on(link, chan);
	return 0;
}
