/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notification of a WRITE of one chunk need not wait for the chunk's acknowledgement: if
 * core_piggyback_fits() allows it, the notification's frame leaves right after the chunk, on the
 * same channel. The receiver publishes the notification when the chunk is applied, and drops it
 * when the chunk was refused or aborted.
 *
 * While note->piggybacked is set, the notification's frame is in a channel's ring. The notification
 * ends when the frame is acknowledged. If the channel is lost before that, core_piggyback_lost()
 * decides what becomes of the notification.
 */
#include <string.h>

#include "core/link_priv.h"

/* Whether the frame is a whole WRITE whose notification may follow at once. The frame must not be a
 * message of a plugin, the notification may have up to CORE_PIGGYBACK_BYTES, and the ring must have
 * room for it. There must also be cover for the notification; this function pays for it. */
bool core_piggyback_fits(struct core_link *link, const struct core_chan *chan,
			 const struct frame *frame, struct core_job *job)
{
	struct core_note *note;

	if (!job || job->kind != CORE_JOB_WRITE || frame->payload_bytes != job->end ||
	    job->path == CORE_PATH_MESSAGE)
		return false;
	note = core_job_xfer(job)->note;
	return note && note->bytes <= CORE_PIGGYBACK_BYTES &&
	       core_inflight_count(&chan->inflight) + CORE_RING_SPARE + 1 < CORE_RING &&
	       core_cover_acquire(link, note);
}

/* Returns the notification whose frame must be the channel's next one. Returns NULL if there is
 * none, or if its WRITE was cancelled, refused or acknowledged after the WRITE's frame was cut. */
struct core_note *core_piggyback_next(struct core_chan *chan)
{
	struct core_chunk *chunk = core_inflight_at(&chan->inflight, chan->inflight.next_seq - 1);
	struct core_xfer *xfer;

	if (!core_inflight_count(&chan->inflight) || !chunk->piggyback || !chunk->job)
		return NULL;
	xfer = core_job_xfer(chunk->job);
	return xfer->state == CORE_ACTIVE ? xfer->note : NULL;
}

/* Called when this notification's channel was lost, and the peer's fence says that the notification
 * was not published. If the bytes of its WRITE are applied, it is sent again at once. If the WRITE
 * is still under way, it is sent when they are applied. It is dropped if the WRITE has ended in
 * another way. */
void core_piggyback_lost(struct core_link *link, struct core_note *note)
{
	note->piggybacked = false;
	note->job.announced = false;
	note->job.linear = 0;
	if (!note->xfer) {
		core_note_drop(link, note);
		link->cfg.ops->note_ended(link->cfg.arg);
	} else if (note->xfer->state == CORE_NOTIFYING) {
		link->count.resent++;
		core_note_start(link, note);
	}
}

/* Called when a piggybacked notification begins to arrive. Returns ERR_PROTOCOL if the frame before
 * it was not the whole of the WRITE that the notification names, if the notification is not whole,
 * or if the peer has no cover or credit for it; or ERR_NO_MEMORY. */
tcpx_status core_piggyback_begin(struct core_link *link, struct core_chan *chan,
				 const struct frame *frame, struct core_notify_in **out_msg)
{
	tcpx_status status;

	if (!chan->piggyback.write_seq || frame->seq != chan->piggyback.write_seq + 1 ||
	    frame->xfer != chan->piggyback.write_xfer || frame->linear ||
	    frame->offset != frame->payload_bytes)
		return TCPX_ERR_PROTOCOL;
	status = core_notify_in_new(link, frame, out_msg);
	if (status != TCPX_OK)
		return status;
	(*out_msg)->number = chan->piggyback.write_seq;
	chan->piggyback.arriving = *out_msg;
	return TCPX_OK;
}

/* Called when the notification's frame was lost half-way. Undoes the charge for the notification,
 * which is charged again when its frame is sent again. */
void core_piggyback_undo(struct core_link *link, struct core_chan *chan)
{
	struct core_notify_in *msg = chan->piggyback.arriving;

	chan->piggyback.arriving = NULL;
	core_credit_uncharge(&link->credit[FRAME_CREDIT_NOTIFY], msg->bytes + CORE_NOTE_COST);
	core_notify_in_free(link, msg);
}

/* Publishes a notification if its WRITE was applied; otherwise drops it. */
static void piggyback_decide(struct core_link *link, struct core_notify_in *msg, bool applied)
{
	uint64_t bytes = msg->bytes;

	if (applied) {
		core_notify_in_publish(link, msg);
		return;
	}
	core_notify_in_free(link, msg);
	/* the application never gets it: returns its credit as if the application had released
	 * it */
	core_link_return(link, FRAME_CREDIT_NOTIFY, bytes + CORE_NOTE_COST, true);
	core_cover_released(link, bytes + CORE_NOTE_COST);
}

/* Called when the notification's frame has arrived completely. Publishes or drops the notification.
 * Returns false if the bytes of its WRITE are still being copied: the notification then waits for
 * them, and its frame does not count as applied yet. */
bool core_piggyback_end(struct core_link *link, struct core_chan *chan, bool valid)
{
	struct core_notify_in *msg = chan->piggyback.arriving;

	chan->piggyback.arriving = NULL;
	if (valid && !core_rxseq_through(&chan->rxseq, chan->piggyback.write_seq)) {
		list_push_back(&chan->piggyback.waiting, &msg->node);
		return false;
	}
	piggyback_decide(link, msg, valid && chan->piggyback.write_ok);
	return true;
}

/* Called when the copy of a WRITE's bytes has ended. Publishes or drops the notification that
 * waited for it. Returns the sequence of the notification's frame, which now counts as applied, or
 * 0 if none waited. */
uint64_t core_piggyback_committed(struct core_link *link, struct core_chan *chan, uint64_t seq,
				  tcpx_status status)
{
	struct list_node *pos;

	if (seq == chan->piggyback.write_seq)
		/* needed if the notification arrives only later */
		chan->piggyback.write_ok = status == TCPX_OK;
	LIST_FOREACH(pos, &chan->piggyback.waiting) {
		struct core_notify_in *msg = LIST_ENTRY(pos, struct core_notify_in, node);

		if (msg->number != seq)
			continue;
		list_remove(pos);
		piggyback_decide(link, msg, status == TCPX_OK);
		return seq + 1;
	}
	return 0;
}
