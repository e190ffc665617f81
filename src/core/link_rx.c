/* SPDX-License-Identifier: Apache-2.0 */
/* Handles arriving frames: what a frame means, and where its payload goes. */
#include <string.h>

#include "core/link_priv.h"

static bool frame_is_sequenced(uint8_t type)
{
	return type != FRAME_ACK && type != FRAME_CREDIT && type != FRAME_STAGE_REQ;
}

/* Called when an RDATA or SDATA frame begins to arrive. The payload goes to the READ or RECV that
 * the frame names, or to scratch memory if no such request is under way. Returns ERR_PROTOCOL if
 * the frame does not fit the request. */
static tcpx_status rx_begin_request(struct core_link *link, struct core_chan *chan,
				    const struct frame *frame, struct core_rx *rx)
{
	enum core_path path = core_path_of(frame);
	bool read = frame->type == FRAME_RDATA;
	struct core_xfer *xfer = core_xfer_find(link, frame->xfer);
	uint64_t end;

	rx->kind = CORE_RX_SCRATCH;
	if (!xfer || xfer->op != (read ? TCPX_OP_READ : TCPX_OP_RECV) || xfer->state != CORE_ACTIVE)
		return TCPX_OK;
	if (!read && !xfer->matched)
		return TCPX_ERR_PROTOCOL;
	/* Chunks of a READ must come by the path that the READ requested, since staging is reserved
	 * only for READs by the stream. Chunks of a RECV may always come by the stream, and by
	 * another path if the RECV's CTS allowed it. */
	if (path != xfer->path && (read || path != CORE_PATH_STREAM))
		return TCPX_ERR_PROTOCOL;
	end = read ? xfer->job.linear : xfer->recv.limit;
	if (frame->linear > end || frame->payload_bytes > end - frame->linear ||
	    frame->payload_bytes > end - xfer->arrived)
		return TCPX_ERR_PROTOCOL;
	xfer->arrived += frame->payload_bytes;
	rx->kind = CORE_RX_SEGS;
	rx->segs = xfer->segs;
	rx->xfer = xfer;
	rx->linear = frame->linear;
	core_io_ref(&chan->rx, xfer, NULL);
	return TCPX_OK;
}

/* Whether the frame may come on this channel. A channel of plugin messages carries only messages,
 * ACK, NACK and NOP. Other channels carry no messages. A message is at most cfg.message_bytes long,
 * and has neither a segment table nor staging. */
static bool rx_channel_fits(const struct core_link *link, const struct core_chan *chan,
			    const struct frame *frame)
{
	bool msg = core_path_of_payload(frame) == CORE_PATH_MESSAGE;

	if (!core_carries_messages(link, chan->index))
		return !msg;
	if (!msg)
		return frame->type == FRAME_ACK || frame->type == FRAME_NACK ||
		       frame->type == FRAME_NOP;
	return !(frame->flags & (FRAME_F_REF | FRAME_F_STAGED)) && !frame->table_bytes &&
	       frame->payload_bytes <= link->cfg.message_bytes;
}

/* Checks the frame by its type, and sets in *rx where its payload goes. Returns the errors of
 * core_rx_begin(). */
static tcpx_status rx_begin_type(struct core_link *link, struct core_chan *chan,
				 const struct frame *frame, struct core_rx *rx)
{
	bool ref = core_path_of(frame) == CORE_PATH_REFERENCE;
	tcpx_status status;

	if (ref && (frame->flags & FRAME_F_STAGED) && frame->type != FRAME_CTS)
		return TCPX_ERR_PROTOCOL;
	if (!rx_channel_fits(link, chan, frame))
		return TCPX_ERR_PROTOCOL;
	switch (frame->type) {
	case FRAME_DATA:
		rx->kind = CORE_RX_REGION;
		rx->linear = frame->linear;
		return frame->payload_bytes ? TCPX_OK : TCPX_ERR_PROTOCOL;
	case FRAME_RDATA:
	case FRAME_SDATA:
		return frame->payload_bytes && !frame->table_bytes == !ref
			       ? rx_begin_request(link, chan, frame, rx)
			       : TCPX_ERR_PROTOCOL;
	case FRAME_SEND:
		rx->kind = CORE_RX_MESSAGE;
		return frame->payload_bytes <= CORE_SMALL_BYTES ? TCPX_OK : TCPX_ERR_PROTOCOL;
	case FRAME_NOTIFY:
		status = frame->key == FRAME_NOTE_PIGGYBACK
				 ? core_piggyback_begin(link, chan, frame, &rx->note)
				 : core_notify_in_begin(link, frame, &rx->note);
		rx->kind = frame->payload_bytes ? CORE_RX_NOTE : CORE_RX_NONE;
		rx->linear = frame->linear;
		return status;
	case FRAME_READ_REQ:
		rx->kind = CORE_RX_LIST;
		return !frame->payload_bytes && frame->key <= FRAME_READ_BY_PRIO &&
				       core_link_charge(link, FRAME_CREDIT_READ, 1)
			       ? TCPX_OK
			       : TCPX_ERR_PROTOCOL;
	case FRAME_RTS:
	case FRAME_CTS:
	case FRAME_FINAL:
	case FRAME_CANCEL:
	case FRAME_NACK:
	case FRAME_NOP:
	case FRAME_ACK:
	case FRAME_CREDIT:
	case FRAME_STAGE_REQ:
		rx->kind = CORE_RX_NONE;
		return frame->payload_bytes || frame->table_bytes ? TCPX_ERR_PROTOCOL : TCPX_OK;
	default:
		return TCPX_ERR_PROTOCOL;
	}
}

/* Takes staging for the payload of a frame that begins to arrive, if its destination is staged:
 * from the grants that the peer has or, for a READ of this side, from what the READ reserved.
 * Returns ERR_PROTOCOL if there is not enough, or if the frame's STAGED flag does not fit the
 * RECV. */
static tcpx_status rx_staging_take(struct core_link *link, struct core_chan *chan,
				   const struct frame *frame)
{
	struct core_xfer *xfer = chan->rx.xfer;
	bool flagged = frame->flags & FRAME_F_STAGED;

	if (core_path_of(frame) != CORE_PATH_STREAM)
		return TCPX_OK;
	if (frame->type == FRAME_RDATA && xfer && xfer->local_staged) {
		if (xfer->reserved < frame->payload_bytes)
			return TCPX_ERR_PROTOCOL;
		xfer->reserved -= frame->payload_bytes;
		chan->rx.staged = frame->payload_bytes;
	}
	if (frame->type == FRAME_SDATA && xfer && xfer->local_staged != flagged)
		return TCPX_ERR_PROTOCOL;
	if (flagged && (frame->type == FRAME_DATA || frame->type == FRAME_SDATA)) {
		if (!core_stage_in_arrive(&link->stage_in, frame->payload_bytes))
			return TCPX_ERR_PROTOCOL;
		chan->rx.staged = frame->payload_bytes;
	}
	return TCPX_OK;
}

/* Gives back the staging of a frame that was lost half-way. If the frame is sent again, it takes
 * staging again. */
static void rx_staging_undo(struct core_link *link, struct core_chan *chan)
{
	struct core_io *io = &chan->rx;

	if (!io->staged)
		return;
	if (chan->rx_frame.type != FRAME_RDATA)
		core_stage_in_undo(&link->stage_in, io->staged);
	else if (io->xfer)
		io->xfer->reserved += io->staged;
	else
		core_stage_free(link, io->staged);
	io->staged = 0;
}

tcpx_status core_rx_begin(struct core_link *link, uint32_t channel, const struct frame *frame,
			  struct core_rx *out_rx)
{
	struct core_chan *chan = &link->chan[channel];
	tcpx_status status;

	memset(out_rx, 0, sizeof(*out_rx));
	if (link->dead)
		return link->dead_status;
	if (chan->state != CORE_CHAN_UP || chan->rx.busy || frame->epoch != chan->epoch ||
	    (frame_is_sequenced(frame->type) ? !core_rxseq_fits(&chan->rxseq, frame->seq)
					     : frame->seq != 0))
		return TCPX_ERR_PROTOCOL;
	chan->rx = (struct core_io){.busy = true, .in_call = true};
	status = rx_begin_type(link, chan, frame, out_rx);
	if (status == TCPX_OK)
		status = rx_staging_take(link, chan, frame);
	if (status != TCPX_OK) {
		core_io_release(link, &chan->rx);
		chan->rx.busy = false;
		return status;
	}
	if (frame->seq)
		core_rxseq_begin(&chan->rxseq, frame->seq);
	/* Remembers a frame that seems to carry a whole WRITE, since the WRITE's notification may
	 * be the next frame. By reference this is only assumed, since `follows` is then the length
	 * of a part of the table. A wrong assumption harms only the sender's own request. */
	if (frame->type == FRAME_DATA && !frame->linear &&
	    (!frame->follows || core_path_of(frame) == CORE_PATH_REFERENCE)) {
		chan->piggyback.write_seq = frame->seq;
		chan->piggyback.write_xfer = frame->xfer;
		chan->piggyback.write_ok = false;
	}
	chan->rx_frame = *frame;
	return TCPX_OK;
}

int core_rx_pause(struct core_link *link, uint32_t channel)
{
	struct core_io *io = &link->chan[channel].rx;

	io->in_call = false;
	if (io->aborted)
		core_io_release(link, io);
	return io->aborted;
}

int core_rx_resume(struct core_link *link, uint32_t channel)
{
	link->chan[channel].rx.in_call = true;
	return link->chan[channel].rx.aborted;
}

bool core_rx_in_call(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].rx.in_call;
}

void core_rx_redirect(struct core_link *link, uint32_t channel)
{
	link->chan[channel].rx.aborted = true;
}

bool core_rx_aborted(const struct core_link *link, uint32_t channel)
{
	return link->chan[channel].rx.aborted;
}

bool core_rx_notes(const struct core_link *link, uint32_t channel)
{
	const struct core_chan *chan = &link->chan[channel];

	return chan->rx.busy && chan->rx_frame.type == FRAME_NOTIFY;
}

/* Records a refusal, so that a NACK is sent. Returns false if there is no memory, or if there are
 * too many refusals. The link then ends, since without a NACK the peer would take the chunk for
 * applied. */
static bool rx_nack(struct core_link *link, struct core_chan *chan, uint64_t seq, uint64_t xfer,
		    tcpx_status status)
{
	const struct core_ops *ops = link->cfg.ops;
	struct core_rxseq *rx = &chan->rxseq;
	uint32_t had = rx->cap_nacks, cap = core_rxseq_nacks_wanted(rx);
	struct core_nack *more = NULL, *old;

	if (cap > CORE_NACKS_MAX) {
		ops->fail(link->cfg.arg, TCPX_ERR_PROTOCOL);
		return false;
	}
	if (cap) {
		more = ops->alloc(link->cfg.arg, cap * sizeof(*more));
		if (!more) {
			ops->fail(link->cfg.arg, TCPX_ERR_NO_MEMORY);
			return false;
		}
		old = core_rxseq_nacks_move(rx, more, cap);
		if (old)
			ops->free(link->cfg.arg, old, had * sizeof(*old));
	}
	core_rxseq_refuse(rx, seq, xfer, status);
	link->count.refused++;
	core_kick(link, chan);
	return true;
}

/* Records that the frame with this sequence is applied or, if `status` is an error, refused. Frames
 * may be recorded in any order. */
void core_rx_finished(struct core_link *link, struct core_chan *chan, uint64_t seq,
		      tcpx_status status)
{
	if (status < 0 && !rx_nack(link, chan, seq, 0, status))
		return;
	if (core_rxseq_apply(&chan->rxseq, seq))
		core_kick(link, chan);
}

/* Called when an ACK arrives. The peer has applied or refused our frames up to frame->linear, and
 * has taken those up to frame->key out of the transport. Returns ERR_PROTOCOL for impossible
 * values. */
static tcpx_status rx_ack(struct core_link *link, struct core_chan *chan, const struct frame *frame)
{
	uint64_t last = chan->inflight.next_seq - 1;

	/* `last` may be the frame that is being sent: the peer may acknowledge it before the send
	 * call returns. */
	if (frame->linear < chan->inflight.acked_seq || frame->linear > last ||
	    frame->key < frame->linear || frame->key > last)
		return TCPX_ERR_PROTOCOL;
	core_inflight_taken(&chan->inflight, frame->key);
	core_chunks_ack(link, chan, frame->linear);
	if (chan->idle && (chan->inflight.ack_needed || !list_empty(&link->sendq.bulk)))
		core_kick(link, chan);
	return TCPX_OK;
}

/* Called when a CREDIT frame for staging arrives. Jobs that wait for grants may be cut again. */
static void rx_stage_credit(struct core_link *link, const struct frame *frame)
{
	uint64_t ahead = frame->offset <= link->cfg.chunk_bytes ? frame->offset : 0;
	uint64_t more = core_stage_out_grant(&link->stage_out, frame->linear, ahead);

	if (!more)
		return;
	if (link->stage_out.due)
		core_kick_small(link);
	core_fill_retry(link);
	core_kick_small(link);
	core_kick_bulk(link, more); /* one channel for each chunk that the new grants allow */
}

/* Called when a CREDIT frame arrives. Ignores an unknown key. */
static void rx_credit(struct core_link *link, const struct frame *frame)
{
	switch (frame->key) {
	case FRAME_CREDIT_COVER:
		core_cover_requested(link, frame);
		return;
	case FRAME_CREDIT_STAGE:
		rx_stage_credit(link, frame);
		return;
	case FRAME_CREDIT_NOTIFY:
		core_cover_granted(link, frame->offset);
		break;
	case FRAME_CREDIT_EAGER:
	case FRAME_CREDIT_READ:
		break;
	default:
		return;
	}
	if (!core_credit_returned(&link->credit[frame->key], frame->linear))
		return;
	if (list_empty(&link->sendq.bulk))
		core_kick_small(link);
	else
		core_kick_all(link);
}

/* Called when a STAGE_REQ frame arrives. The peer requests staging memory for what it will send,
 * and gives back grants that it will not use. */
static void rx_stage_request(struct core_link *link, const struct frame *frame)
{
	uint64_t back;

	if (!core_stage_in_requested(&link->stage_in, frame, &back))
		return;
	if (back)
		link->cfg.ops->stage_give(link->cfg.arg, back);
	core_stage_more(link);
}

/* Does what the arrived frame asks for, or records what the frame reports. Does nothing for frames
 * that only carry payload. */
static tcpx_status rx_act(struct core_link *link, struct core_chan *chan, const struct frame *frame,
			  const void *data)
{
	switch (frame->type) {
	case FRAME_SEND:
	case FRAME_RTS:
		return core_send_arrived(link, frame, data);
	case FRAME_CTS:
		core_send_cleared(link, frame);
		break;
	case FRAME_FINAL:
		core_final_arrived(link, frame);
		break;
	case FRAME_CANCEL:
		if (frame->key != FRAME_CANCEL_READ)
			return core_send_cancelled(link, frame);
		core_resp_cancel(link, frame->xfer);
		break;
	case FRAME_NACK:
		core_chunk_refuse(link, chan, frame->linear, core_status_unpack(frame->offset));
		break;
	case FRAME_ACK:
		return rx_ack(link, chan, frame);
	case FRAME_CREDIT:
		rx_credit(link, frame);
		break;
	case FRAME_STAGE_REQ:
		rx_stage_request(link, frame);
		break;
	default:
		break;
	}
	return TCPX_OK;
}

/* Called when the arriving payload was lost or is invalid. Undoes what was counted when the payload
 * began to arrive, since its bytes may be sent again. */
static void rx_undo(struct core_link *link, struct core_chan *chan)
{
	if (chan->rx.xfer)
		chan->rx.xfer->arrived -= chan->rx_frame.payload_bytes;
	if (chan->piggyback.arriving)
		core_piggyback_undo(link, chan);
	else if (chan->rx_frame.type == FRAME_NOTIFY)
		core_notify_in_undo(link, &chan->rx_frame);
}

/* Called when the channel is lost or the link has failed. If a frame was arriving, undoes what was
 * counted for that frame. */
void core_rx_lost(struct core_link *link, struct core_chan *chan)
{
	if (!chan->rx.busy)
		return;
	rx_undo(link, chan);
	rx_staging_undo(link, chan);
}

/* Called when the frame has arrived. If its payload is valid, counts the payload as applied, unless
 * it is still being copied, or ends the READ or RECV with the error `status`; then does what the
 * frame says. If the payload is invalid, undoes what was counted when it began to arrive. Of a
 * frame whose bytes were given up (`aborted`), nothing counts. The frame still holds its
 * references. Returns the errors of core_rx_end(). */
static tcpx_status rx_settle(struct core_link *link, struct core_chan *chan, bool valid,
			     tcpx_status status, const void *data)
{
	const struct frame *frame = &chan->rx_frame;
	struct core_xfer *xfer = chan->rx.xfer;
	uint32_t staged = chan->rx.staged;

	if (chan->piggyback.arriving)
		return TCPX_OK; /* core_piggyback_end() handles the notification */
	chan->rx.staged = 0;
	if (staged && (!valid || status != TCPX_IN_PROGRESS))
		core_stage_free(link, staged);
	if (valid && status == TCPX_IN_PROGRESS) {
		if (xfer)
			xfer->refs++; /* until core_rx_committed() */
		return TCPX_OK;
	}
	if (!valid)
		rx_undo(link, chan);
	if (!valid || chan->rx.aborted)
		return TCPX_OK;
	if (frame->type == FRAME_NOTIFY)
		return core_notify_in_part(link, frame);
	if (status == TCPX_OK)
		link->count.rx_bytes += frame->payload_bytes;
	if (xfer && status == TCPX_OK)
		xfer->applied += frame->payload_bytes;
	else if (xfer)
		core_xfer_end(link, xfer, status);
	return rx_act(link, chan, frame, data);
}

tcpx_status core_rx_end(struct core_link *link, uint32_t channel, bool valid, tcpx_status status,
			const void *data)
{
	struct core_chan *chan = &link->chan[channel];
	struct frame frame = chan->rx_frame;
	tcpx_status result;

	chan->rx.in_call = false;
	if (link->dead) {
		core_io_release(link, &chan->rx);
		chan->rx.busy = false;
		return link->dead_status;
	}
	/* An aborted frame is acknowledged like any other: its sender knows that the frame was
	 * aborted. */
	if (frame.seq && (frame.flags & FRAME_F_ACK))
		core_rxseq_asked(&chan->rxseq, frame.seq);
	result = rx_settle(link, chan, valid, status, data);
	chan->rx.busy = false;
	/* After an error the frame does not count as applied. If the link lives on, the peer sends
	 * the frame again on another channel. */
	if (frame.seq && result == TCPX_OK) {
		link->count.rx_chunks++;
		if (frame.seq == chan->piggyback.write_seq)
			chan->piggyback.write_ok = valid && status == TCPX_OK;
		if (valid && status == TCPX_IN_PROGRESS)
			chan->commits++;
		else if (!chan->piggyback.arriving || core_piggyback_end(link, chan, valid))
			core_rx_finished(link, chan, frame.seq,
					 frame.type == FRAME_DATA && valid ? status : TCPX_OK);
	}
	core_io_release(link, &chan->rx);
	return result;
}
