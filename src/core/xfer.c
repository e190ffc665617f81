/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a transfer: posted, cut into chunks, applied, notified, ended once. */
#include "core/link_priv.h"

#include <string.h>

#define TABLE_FIRST 64

/* Gives the transfer an id: a free entry of the table and the entry's generation. Doubles the table
 * if it is full. */
static tcpx_status xfer_id_take(struct core_link *link, struct core_xfer *xfer)
{
	const struct core_ops *ops = link->cfg.ops;
	uint32_t i, count = link->xfers.count, bigger;
	struct core_xfer **table;
	uint32_t *generation;

	for (i = 0; i < count; i++) {
		uint32_t slot = (link->xfers.hint + i) % count;

		if (link->xfers.slots[slot])
			continue;
		link->xfers.slots[slot] = xfer;
		link->xfers.hint = (slot + 1) % count;
		xfer->id = ((uint64_t)link->xfers.generation[slot] << 32) | slot;
		return TCPX_OK;
	}
	bigger = count ? count * 2 : TABLE_FIRST;
	table = ops->alloc(link->cfg.arg, bigger * sizeof(*table));
	generation = ops->alloc(link->cfg.arg, bigger * sizeof(*generation));
	if (!table || !generation) {
		if (table)
			ops->free(link->cfg.arg, table, bigger * sizeof(*table));
		if (generation)
			ops->free(link->cfg.arg, generation, bigger * sizeof(*generation));
		return TCPX_ERR_NO_MEMORY;
	}
	for (i = 0; i < bigger; i++) {
		table[i] = i < count ? link->xfers.slots[i] : NULL;
		generation[i] = i < count ? link->xfers.generation[i] : 1;
	}
	if (count) {
		ops->free(link->cfg.arg, link->xfers.slots, count * sizeof(*table));
		ops->free(link->cfg.arg, link->xfers.generation, count * sizeof(*generation));
	}
	link->xfers.slots = table;
	link->xfers.generation = generation;
	link->xfers.count = bigger;
	link->xfers.hint = count;
	return xfer_id_take(link, xfer);
}

static void xfer_id_drop(struct core_link *link, struct core_xfer *xfer)
{
	uint32_t slot = (uint32_t)xfer->id;

	link->xfers.slots[slot] = NULL;
	link->xfers.hint = slot;
	link->xfers.generation[slot]++;
}

struct core_xfer *core_xfer_find(struct core_link *link, uint64_t id)
{
	uint32_t slot = (uint32_t)id;

	if (slot >= link->xfers.count || !link->xfers.slots[slot] ||
	    link->xfers.generation[slot] != id >> 32)
		return NULL;
	return link->xfers.slots[slot];
}

/* Takes a reference to the transfer or read response whose memory the frame under way uses. */
void core_io_ref(struct core_io *io, struct core_xfer *xfer, struct core_resp *resp)
{
	io->xfer = xfer;
	io->resp = resp;
	io->refs = xfer ? &xfer->refs : resp ? &resp->refs : NULL;
	if (io->refs)
		++*io->refs;
}

/* Takes a reference to the notification that the frame under way sends. The peer may acknowledge
 * the frame before the send call returns, and until then the call reads the notification. */
void core_io_ref_note(struct core_io *io, struct core_note *note)
{
	io->note = note;
	io->refs = &note->refs;
	note->refs++;
}

/* Drops the frame's reference. The transfer, read response or notification may end here. */
void core_io_release(struct core_link *link, struct core_io *io)
{
	struct core_xfer *xfer = io->xfer;
	struct core_resp *resp = io->resp;
	struct core_note *note = io->note;

	if (!io->refs)
		return;
	--*io->refs;
	io->refs = NULL;
	io->xfer = NULL;
	io->resp = NULL;
	io->note = NULL;
	if (xfer)
		core_xfer_check(link, xfer);
	else if (resp)
		core_resp_check(link, resp);
	else
		core_note_check(link, note);
}

/* Gives up the bytes of the frame under way, if there is one: scratch memory takes the place of the
 * rest. The reference is dropped now or, if a call of the transport uses the memory, when the call
 * returns. */
void core_io_abort(struct core_link *link, struct core_io *io)
{
	if (!io->busy)
		return;
	io->aborted = true;
	if (!io->in_call)
		core_io_release(link, io);
}

/* Gives up the bytes of the frame that the channel sends. A transport may keep the buffers while
 * the send call is open; the kick makes the sender take them back. */
void core_tx_abort(struct core_link *link, struct core_chan *chan)
{
	if (chan->tx.busy && chan->tx.in_call)
		link->cfg.ops->kick(link->cfg.arg, chan->index);
	core_io_abort(link, &chan->tx);
}

/* Gives up the bytes of all frames under way that use the transfer's memory. */
static void xfer_abort_io(struct core_link *link, struct core_xfer *xfer)
{
	uint32_t i;

	for (i = 0; i < link->nchan; i++) {
		if (link->chan[i].tx.xfer == xfer)
			core_tx_abort(link, &link->chan[i]);
		if (link->chan[i].rx.xfer == xfer)
			core_io_abort(link, &link->chan[i].rx);
	}
}

/* Ends the transfer: takes it out of all lists and calls ops->ended(). The transfer must have no
 * references. */
static void xfer_finish(struct core_link *link, struct core_xfer *xfer, tcpx_status status)
{
	struct core_note *note = xfer->note;

	if (xfer->job.inflight)
		core_chunks_detach(link, &xfer->job);
	core_retransmit_free(link, &xfer->job);
	core_job_unqueue(&xfer->job);
	core_fill_stop(link, &xfer->job);
	list_remove(&xfer->recv.node);
	list_remove(&xfer->node);
	if (xfer->reserved)
		core_stage_free(link, xfer->reserved);
	xfer->reserved = 0;
	xfer_id_drop(link, xfer);
	xfer->note = NULL;
	if (note) {
		note->xfer = NULL;
		core_note_drop(link, note);
	}
	xfer->state = CORE_FINAL;
	xfer->status = status;
	link->cfg.ops->ended(link->cfg.arg, xfer);
}

/* Called when all bytes of the transfer are in place. Ends the transfer if it has no notification.
 * Otherwise the notification leaves now, unless it has left piggybacked. */
static void xfer_data_done(struct core_link *link, struct core_xfer *xfer)
{
	if (!xfer->note) {
		xfer_finish(link, xfer, TCPX_OK);
		return;
	}
	xfer->state = CORE_NOTIFYING;
	link->cfg.ops->notifying(link->cfg.arg, xfer);
	if (!xfer->note->piggybacked)
		core_note_start(link, xfer->note);
}

/* Called when all bytes of the RECV are in place. Sends the peer a FINAL and ends the RECV. */
static void xfer_recv_done(struct core_link *link, struct core_xfer *xfer)
{
	struct frame final = {
		.type = FRAME_FINAL, .xfer = xfer->recv.sender, .offset = xfer->applied};

	core_ctl_queue(link, &final);
	xfer_finish(link, xfer, xfer->recv.truncated ? TCPX_ERR_TRUNCATED : TCPX_OK);
}

/* Whether a transfer whose status is decided must still wait: the peer or a plugin may still read
 * its memory; or it is a strict WRITE, whose frames in flight may still write to the peer's
 * memory. */
static bool xfer_waits_for_peer(const struct core_link *link, const struct core_xfer *xfer)
{
	return core_job_source_read(link, &xfer->job) ||
	       (!link->dead && xfer->strict && xfer->op == TCPX_OP_WRITE && xfer->job.inflight);
}

/* Called after each change that may complete the transfer. If nothing is missing any more, ends the
 * transfer or lets its notification leave. */
void core_xfer_check(struct core_link *link, struct core_xfer *xfer)
{
	if (xfer->refs)
		return;
	if (xfer->state == CORE_ENDING) {
		if (!xfer_waits_for_peer(link, xfer))
			xfer_finish(link, xfer, xfer->status);
		return;
	}
	if (xfer->state != CORE_ACTIVE)
		return;
	switch (xfer->op) {
	case TCPX_OP_WRITE:
		xfer->applied = xfer->job.acked;
		if (xfer->job.acked == xfer->segs->total)
			xfer_data_done(link, xfer);
		break;
	case TCPX_OP_READ:
		if (xfer->applied == xfer->segs->total)
			xfer_data_done(link, xfer);
		break;
	case TCPX_OP_SEND:
		if (xfer->matched)
			xfer_finish(link, xfer, TCPX_OK);
		break;
	case TCPX_OP_RECV:
		if (xfer->matched && xfer->applied == xfer->recv.limit)
			xfer_recv_done(link, xfer);
		break;
	case TCPX_OP_NOTIFY:
		xfer_finish(link, xfer, TCPX_OK);
		break;
	}
}

/* Tells the peer that the transfer has ended early on this side. Does nothing for a WRITE, for a
 * READ of which nothing was requested, for a SEND whose end the peer has reported, and for a RECV
 * without a SEND. */
static void xfer_cancel_at_peer(struct core_link *link, struct core_xfer *xfer)
{
	struct frame frame = {.type = FRAME_CANCEL, .xfer = xfer->id};

	switch (xfer->op) {
	case TCPX_OP_READ:
		if (!xfer->job.linear)
			return;
		frame.key = FRAME_CANCEL_READ;
		break;
	case TCPX_OP_SEND:
		if (xfer->matched)
			return;
		frame.key = FRAME_CANCEL_SEND;
		frame.linear = xfer->send.number;
		if (!xfer->send.has_credit) {
			core_cancelled_queue(link, &frame);
			return;
		}
		frame.offset = xfer->send.eager ? xfer->segs->total : 0;
		break;
	case TCPX_OP_RECV:
		if (!xfer->matched)
			return;
		frame.type = FRAME_FINAL;
		frame.xfer = xfer->recv.sender;
		frame.linear = core_status_pack(TCPX_ERR_REMOTE);
		frame.offset = xfer->applied;
		break;
	default:
		return;
	}
	core_ctl_queue(link, &frame);
}

/* Returns the number of bytes of the job that must still be cut or sent again. */
static uint64_t job_uncut_bytes(const struct core_job *job)
{
	const struct core_retransmit *retx;
	uint64_t bytes = job->end - job->linear;

	for (retx = job->retransmit; retx; retx = retx->next)
		bytes += retx->bytes;
	return bytes;
}

/* Decides the transfer's status, and takes its memory away from frames under way. The transfer ends
 * here, or later in core_xfer_check() if its memory is still in use. Does nothing if the status is
 * decided already. */
void core_xfer_end(struct core_link *link, struct core_xfer *xfer, tcpx_status status)
{
	struct core_job *job = &xfer->job;

	if (xfer->state == CORE_ENDING || xfer->state == CORE_FINAL || xfer->state == CORE_IDLE)
		return;
	if (!link->dead)
		xfer_cancel_at_peer(link, xfer);
	if (job->staged && !job->stopped && !link->dead)
		core_stage_withdraw(link, job_uncut_bytes(job));
	xfer->state = CORE_ENDING;
	xfer->status = status;
	if (xfer->op == TCPX_OP_WRITE)
		xfer->applied = job->acked;
	job->stopped = true;
	core_retransmit_free(link, job);
	core_job_unqueue(job);
	core_fill_stop(link, job);
	list_remove(&xfer->recv.node);
	/* holds a reference, so that the transfer does not end while its frames are aborted */
	xfer->refs++;
	xfer_abort_io(link, xfer);
	xfer->refs--;
	if (((xfer->strict && job->inflight) || job->reading) && !link->dead)
		/* makes idle channels ask for the acknowledgements that the transfer waits for */
		core_kick_all(link);
	core_xfer_check(link, xfer);
}

void core_xfer_moved(struct core_link *link, struct core_xfer *xfer, tcpx_status status)
{
	xfer->refs--;
	if (xfer->state == CORE_ACTIVE && status != TCPX_OK) {
		core_xfer_end(link, xfer, status);
		return;
	}
	if (status == TCPX_OK) {
		xfer->applied = xfer->job.acked = xfer->segs->total;
		if (xfer->op == TCPX_OP_READ)
			link->count.rx_bytes += xfer->segs->total;
		else
			link->count.tx_bytes += xfer->segs->total;
	}
	core_xfer_check(link, xfer);
}

tcpx_status core_xfer_cancel(struct core_link *link, struct core_xfer *xfer, tcpx_status status)
{
	if (xfer->state == CORE_IDLE || xfer->state == CORE_FINAL)
		return TCPX_ERR_STATE;
	core_xfer_end(link, xfer, status);
	return TCPX_OK;
}

/* Initialises the job from which the transfer's frames are cut. */
static void xfer_job_init(const struct core_link *link, struct core_xfer *xfer)
{
	struct core_job *job = &xfer->job;
	uint64_t total = xfer->segs ? xfer->segs->total : 0;

	memset(job, 0, sizeof(*job));
	list_init(&job->node);
	core_fill_init(job);
	job->segs = xfer->segs;
	job->end = total;
	if (xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_READ) {
		job->path = xfer->path;
		job->by_prio = xfer->by_prio;
	}
	job->small = core_job_is_small(link, job);
	job->priority = xfer->priority;
	job->staged = xfer->op == TCPX_OP_WRITE && xfer->remote_staged;
	job->fills = xfer->local_staged && total &&
		     (xfer->op == TCPX_OP_WRITE || xfer->op == TCPX_OP_SEND);
	job->kind = xfer->op == TCPX_OP_WRITE  ? CORE_JOB_WRITE
		    : xfer->op == TCPX_OP_READ ? CORE_JOB_REQUEST
					       : CORE_JOB_SEND;
	if (job->kind == CORE_JOB_REQUEST)
		/* READ_REQ frames go by the priority channel, whatever the READ's size and path */
		job->small = true;
}

/* Queues what the transfer has to send, or makes a RECV wait for its SEND. The transfer may end
 * here. */
static void xfer_start(struct core_link *link, struct core_xfer *xfer)
{
	switch (xfer->op) {
	case TCPX_OP_WRITE:
	case TCPX_OP_READ:
		if (!xfer->segs->total) {
			xfer_data_done(link, xfer);
			break;
		}
		if (xfer->direct) {
			xfer->refs++; /* until core_xfer_moved() */
			break;
		}
		if (xfer->job.staged)
			core_stage_request(link, xfer->segs->total);
		core_job_begin(link, &xfer->job);
		core_fill_want(link, &xfer->job);
		core_job_queue(link, &xfer->job);
		break;
	case TCPX_OP_SEND:
		/* the number is used up even if the SEND is cancelled */
		xfer->send.number = ++link->sendrecv.send_last;
		core_job_queue(link, &xfer->job);
		if (xfer->job.fills)
			core_sendrecv_acquire(link);
		break;
	case TCPX_OP_RECV:
		list_push_back(&link->sendrecv.receives, &xfer->recv.node);
		core_sendrecv_match(link);
		break;
	case TCPX_OP_NOTIFY:
		xfer_data_done(link, xfer);
		break;
	}
}

tcpx_status core_xfer_post(struct core_link *link, struct core_xfer *xfer)
{
	bool note = xfer->has_notify || xfer->op == TCPX_OP_NOTIFY;
	tcpx_status status;

	if (xfer->state != CORE_IDLE && xfer->state != CORE_FINAL)
		return TCPX_ERR_STATE;
	if (link->dead)
		return link->dead_status;
	if (xfer->op == TCPX_OP_SEND && link->sendq.ncancelled >= CORE_CANCELLED_MAX)
		return TCPX_ERR_AGAIN;
	xfer->note = NULL;
	status = xfer_id_take(link, xfer);
	if (status == TCPX_OK && note) {
		status = core_note_make(link, xfer->notify, xfer->notify_bytes,
					xfer->op == TCPX_OP_NOTIFY, &xfer->note);
		if (status != TCPX_OK)
			xfer_id_drop(link, xfer);
	}
	if (status != TCPX_OK)
		return status;
	if (xfer->note)
		xfer->note->xfer = xfer;
	xfer->state = CORE_ACTIVE;
	xfer->status = TCPX_IN_PROGRESS;
	xfer->applied = xfer->arrived = 0;
	xfer->matched = false;
	xfer->send = (struct core_send){0};
	xfer->recv = (struct core_recv){0};
	xfer->refs = 0;
	xfer->reserved = 0;
	list_init(&xfer->recv.node);
	list_push_back(&link->active, &xfer->node);
	xfer_job_init(link, xfer);
	xfer_start(link, xfer);
	return TCPX_OK;
}

int64_t core_link_expire(struct core_link *link, int64_t now_ns)
{
	struct list_node *pos, *tmp;
	int64_t next = 0;

	LIST_FOREACH_SAFE(pos, tmp, &link->active) {
		struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

		if (!xfer->deadline_ns || xfer->state == CORE_ENDING)
			continue;
		if (xfer->deadline_ns > now_ns) {
			if (!next || xfer->deadline_ns < next)
				next = xfer->deadline_ns;
			continue;
		}
		core_xfer_end(link, xfer, TCPX_ERR_TIMED_OUT);
	}
	return next;
}
