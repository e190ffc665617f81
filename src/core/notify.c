/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications. Those that leave are cut like other jobs, within a budget. Those that arrive are
 * published once, standalone ones in order. */
#include <string.h>

#include "base/siphash.h"
#include "core/link_priv.h"

/* CORE_NOTE_COST covers what an arriving notification needs beyond its payload: its struct, the
 * allocator's header and its entry in the table of numbers. */
_Static_assert(sizeof(struct core_notify_in) + 3 * sizeof(void *) <= CORE_NOTE_COST,
	       "a notification takes more memory than it costs");

void core_notify_init(struct core_notify *notify, const struct core_config *cfg)
{
	list_init(&notify->notes);
	core_incoming_init(&notify->incoming, cfg);
	notify->alone_last = notify->attached_last = 0;
	notify->alone_due = 1;
	notify->flush = false;
}

/* Makes a notification, which leaves after core_note_start() or piggybacked, and uses notification
 * credit for it. Returns ERR_LIMIT if it is larger than the budget, ERR_AGAIN if there is not
 * enough credit now, or ERR_NO_MEMORY. */
tcpx_status core_note_make(struct core_link *link, const void *data, uint64_t bytes,
			   bool standalone, struct core_note **out_note)
{
	struct core_note *note;

	if (bytes + CORE_NOTE_COST > link->cfg.credit_out[FRAME_CREDIT_NOTIFY])
		return TCPX_ERR_LIMIT;
	if (!core_credit_acquire(&link->credit[FRAME_CREDIT_NOTIFY], bytes + CORE_NOTE_COST))
		return TCPX_ERR_AGAIN;
	note = link->cfg.ops->alloc(link->cfg.arg, sizeof(*note) + bytes);
	if (!note) {
		core_credit_refund(&link->credit[FRAME_CREDIT_NOTIFY], bytes + CORE_NOTE_COST);
		return TCPX_ERR_NO_MEMORY;
	}
	memset(note, 0, sizeof(*note));
	note->bytes = bytes;
	note->standalone = standalone;
	note->data = note + 1;
	if (bytes)
		memcpy(note + 1, data, bytes);
	note->job.kind = CORE_JOB_NOTE;
	note->job.end = bytes;
	note->job.small = bytes <= link->cfg.small_bytes;
	list_init(&note->job.node);
	list_init(&note->unpaid);
	list_push_back(&link->notify.notes, &note->node);
	*out_note = note;
	return TCPX_OK;
}

static void note_destroy(struct core_link *link, struct core_note *note)
{
	if (note->job.inflight)
		core_chunks_detach(link, &note->job);
	core_retransmit_free(link, &note->job);
	core_job_unqueue(&note->job);
	list_remove(&note->node);
	list_remove(&note->unpaid);
	if (note->xfer)
		note->xfer->note = NULL;
	if (list_empty(&link->notify.notes))
		link->notify.flush = false;
	link->cfg.ops->free(link->cfg.arg, note, sizeof(*note) + note->bytes);
}

void core_note_start(struct core_link *link, struct core_note *note)
{
	/* Numbers are given in the order in which notifications start. They may leave in another
	 * order, for example a small one before a large one. The receiver publishes standalone ones
	 * in the order of their numbers. */
	note->number = note->standalone ? ++link->notify.alone_last : ++link->notify.attached_last;
	if (core_cover_acquire(link, note))
		core_job_queue(link, &note->job);
	else
		core_cover_wait(link, note);
}

/* Called when no request waits for the notification any more, or when the link has failed. On a
 * live link a notification that has a number, or whose frame is in a ring, must still arrive: the
 * peer may have a part of it, or may wait for its number. Any other notification is dropped, and
 * its credit and cover are taken back. */
void core_note_drop(struct core_link *link, struct core_note *note)
{
	if ((note->number || note->piggybacked) && !link->dead)
		return;
	core_credit_refund(&link->credit[FRAME_CREDIT_NOTIFY], note->bytes + CORE_NOTE_COST);
	core_cover_refund(link, note);
	if (note->refs)
		/* the link has failed, and a send call still reads the notification */
		list_remove(&note->node);
	else
		note_destroy(link, note);
}

/* Called after each change that may complete the notification. Destroys it if no send call uses it,
 * and if the peer has acknowledged all of it or the link is dead. The request that waits for it may
 * then end. */
void core_note_check(struct core_link *link, struct core_note *note)
{
	struct core_xfer *xfer = note->xfer;

	if (note->refs || (!link->dead && (core_job_has_more(&note->job) || note->job.inflight)))
		return;
	note_destroy(link, note);
	if (link->dead)
		return; /* core_link_fail() ends its request */
	if (!xfer) {
		link->cfg.ops->note_ended(link->cfg.arg);
		return;
	}
	xfer->note = NULL;
	if (xfer->state == CORE_NOTIFYING) {
		/* all bytes of the request are in place, so core_xfer_check() ends it once its
		 * state is ACTIVE again */
		xfer->state = CORE_ACTIVE;
		core_xfer_check(link, xfer);
	}
}

tcpx_status core_note_send(struct core_link *link, const void *data, uint64_t bytes)
{
	struct core_note *note;
	tcpx_status status;

	if (link->dead)
		return link->dead_status;
	status = core_note_make(link, data, bytes, true, &note);
	if (status == TCPX_OK)
		core_note_start(link, note);
	return status;
}

uint64_t core_note_last(const struct core_link *link)
{
	return link->notify.alone_last;
}

uint32_t core_note_untaken(const struct core_link *link)
{
	const struct list_node *pos;
	uint32_t untaken = 0;

	LIST_FOREACH(pos, &link->notify.notes)
		untaken += LIST_ENTRY(pos, const struct core_note, node)->standalone;
	return untaken;
}

bool core_notes_wait(const struct core_link *link, uint64_t number)
{
	const struct list_node *pos;

	LIST_FOREACH(pos, &link->notify.notes) {
		const struct core_note *note = LIST_ENTRY(pos, const struct core_note, node);

		if (note->standalone && note->number && note->number <= number)
			return true;
	}
	return false;
}

uint64_t core_note_moves(const struct core_link *link)
{
	return link->cover.moves;
}

void core_note_consumed(struct core_link *link, uint64_t bytes, bool empty)
{
	link->cover.out -= bytes + CORE_NOTE_COST;
	core_link_return(link, FRAME_CREDIT_NOTIFY, bytes + CORE_NOTE_COST, empty);
	core_cover_released(link, bytes + CORE_NOTE_COST);
}

/* Returns a keyed hash of the offset `at` in a notification. The hash serves to prove that the
 * parts of a notification leave no gap, so that no memory is published that was not received. Each
 * part adds the hash of its end and subtracts the hash of its start. Only if the parts cover the
 * notification exactly, the sum is the hash of its end minus the hash of 0. The peer does not know
 * the key and cannot forge the sum. */
static uint64_t note_seam(const struct core_link *link, uint64_t at)
{
	return siphash(link->cfg.secret, &at, sizeof(at));
}

void core_notify_in_free(struct core_link *link, struct core_notify_in *msg)
{
	link->cfg.ops->note_free(link->cfg.arg, msg, msg->there);
}

void core_notify_in_free_all(struct core_link *link, struct list_node *head)
{
	struct list_node *node;

	while ((node = list_pop_front(head)))
		core_notify_in_free(link, LIST_ENTRY(node, struct core_notify_in, node));
}

void core_notify_in_publish(struct core_link *link, struct core_notify_in *msg)
{
	core_cover_published(link, msg->bytes + CORE_NOTE_COST);
	link->cfg.ops->notify(link->cfg.arg, msg);
}

/* Charges the peer for an arriving notification, and allocates the notification. Returns
 * ERR_PROTOCOL if the peer has no cover or credit for it, or ERR_NO_MEMORY. All its memory is
 * allocated at once, since parts arrive in any order. Pages that were never written occupy no
 * memory, so of several parts only those that have arrived count as in use (`there`). */
tcpx_status core_notify_in_new(struct core_link *link, const struct frame *frame,
			       struct core_notify_in **out_msg)
{
	uint64_t bytes = frame->offset;
	size_t there = sizeof(struct core_notify_in) + (frame->payload_bytes == bytes ? bytes : 0);
	struct core_notify_in *msg;

	if (!core_cover_charge(link, bytes + CORE_NOTE_COST))
		return TCPX_ERR_PROTOCOL;
	msg = link->cfg.ops->note_alloc(link->cfg.arg, sizeof(*msg) + bytes, there);
	if (!msg) {
		core_credit_uncharge(&link->credit[FRAME_CREDIT_NOTIFY], bytes + CORE_NOTE_COST);
		return TCPX_ERR_NO_MEMORY;
	}
	memset(msg, 0, sizeof(*msg));
	msg->bytes = bytes;
	msg->there = there;
	*out_msg = msg;
	return TCPX_OK;
}

/* Called when `bytes` more of the notification have arrived. Counts their memory as in use. */
static void notify_in_grew(struct core_link *link, struct core_notify_in *msg, uint32_t bytes)
{
	msg->got += bytes;
	if (msg->got <= msg->there - sizeof(*msg))
		/* the notification has a single part, which was counted when it began to arrive */
		return;
	msg->there += bytes;
	link->cfg.ops->note_grew(link->cfg.arg, bytes);
}

/* Called when a frame of a notification begins to arrive. Finds the notification that the frame is
 * a part of, or makes it. Returns ERR_PROTOCOL if the frame is invalid, does not fit earlier frames
 * of the notification, or has no cover; or ERR_NO_MEMORY. */
tcpx_status core_notify_in_begin(struct core_link *link, const struct frame *frame,
				 struct core_notify_in **out_msg)
{
	bool standalone = frame->key == FRAME_NOTE_ALONE;
	struct core_notify_in *msg =
		core_incoming_find(&link->notify.incoming, frame->xfer, standalone);
	tcpx_status status;

	if (frame->key > FRAME_NOTE_ALONE || frame->offset > TCPX_NOTIFY_MAX || !frame->xfer ||
	    frame->linear > frame->offset || frame->payload_bytes > frame->offset - frame->linear ||
	    (frame->offset && !frame->payload_bytes))
		return TCPX_ERR_PROTOCOL;
	if (msg) {
		if (msg->bytes != frame->offset || frame->payload_bytes > msg->bytes - msg->begun)
			return TCPX_ERR_PROTOCOL;
		msg->begun += frame->payload_bytes;
		*out_msg = msg;
		return TCPX_OK;
	}
	if (standalone && frame->xfer < link->notify.alone_due)
		return TCPX_ERR_PROTOCOL;
	status = core_notify_in_new(link, frame, &msg);
	if (status != TCPX_OK)
		return status;
	link->cover.moves++;
	msg->number = frame->xfer;
	msg->begun = frame->payload_bytes;
	msg->standalone = standalone;
	core_incoming_add(&link->notify.incoming, msg);
	*out_msg = msg;
	return TCPX_OK;
}

/* Called when a part is invalid or was lost while it arrived. Its bytes no longer count as
 * arriving, and may come again. */
void core_notify_in_undo(struct core_link *link, const struct frame *frame)
{
	struct core_notify_in *msg = core_incoming_find(&link->notify.incoming, frame->xfer,
							frame->key == FRAME_NOTE_ALONE);

	if (msg)
		msg->begun -= frame->payload_bytes;
}

/* Called when a part has arrived. Publishes the notification if it is complete, but standalone ones
 * only in the order of their numbers. Returns ERR_PROTOCOL if its parts overlap or leave a gap. */
tcpx_status core_notify_in_part(struct core_link *link, const struct frame *frame)
{
	struct core_notify_in *msg = core_incoming_find(&link->notify.incoming, frame->xfer,
							frame->key == FRAME_NOTE_ALONE);

	if (!msg)
		/* two channels carried the same empty notification at once */
		return TCPX_ERR_PROTOCOL;
	link->cover.moves++;
	notify_in_grew(link, msg, frame->payload_bytes);
	if (frame->payload_bytes < msg->bytes)
		msg->seams += note_seam(link, frame->linear + frame->payload_bytes) -
			      note_seam(link, frame->linear);
	if (msg->got < msg->bytes)
		return TCPX_OK;
	if (frame->payload_bytes < msg->bytes &&
	    msg->seams != note_seam(link, msg->bytes) - note_seam(link, 0))
		return TCPX_ERR_PROTOCOL;
	if (!msg->standalone) {
		core_incoming_remove(&link->notify.incoming, msg);
		core_notify_in_publish(link, msg);
		return TCPX_OK;
	}
	msg->whole = true;
	while ((msg = core_incoming_find(&link->notify.incoming, link->notify.alone_due, true)) &&
	       msg->whole) {
		link->notify.alone_due++;
		core_incoming_remove(&link->notify.incoming, msg);
		core_notify_in_publish(link, msg);
	}
	return TCPX_OK;
}
