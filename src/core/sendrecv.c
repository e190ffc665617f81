/* SPDX-License-Identifier: Apache-2.0 */
/* SEND and RECV: matched in order. Small SENDs leave eagerly within a budget, others after a
 * CTS. */
#include "core/link_priv.h"

#include <string.h>

void core_sendrecv_init(struct core_sendrecv *sr)
{
	list_init(&sr->receives);
	list_init(&sr->sends);
	sr->send_last = 0;
	sr->recv_next = 1;
}

void core_send_in_free(struct core_link *link, struct core_send_in *msg)
{
	list_remove(&msg->node);
	link->cfg.ops->free(link->cfg.arg, msg, sizeof(*msg) + (msg->eager ? msg->bytes : 0));
}

/* Queues a FINAL for the peer's request with the id `sender`, which then ends with `status`. */
static void final_queue(struct core_link *link, uint64_t sender, tcpx_status status, uint64_t bytes)
{
	struct frame final = {.type = FRAME_FINAL,
			      .xfer = sender,
			      .linear = core_status_pack(status),
			      .offset = bytes};

	core_ctl_queue(link, &final);
}

/* Called when the SEND has met its RECV. Returns the SEND's part of the eager budget to the
 * peer. */
static void send_in_consumed(struct core_link *link, const struct core_send_in *msg)
{
	core_link_return(link, FRAME_CREDIT_EAGER, msg->cost, list_empty(&link->sendrecv.sends));
}

/* Matches a RECV with its SEND. The bytes of an eager SEND (`data`) are copied to the RECV. For any
 * other SEND, a CTS asks the peer to send the bytes. If the peer has cancelled the SEND (`dead`),
 * the RECV ends. */
static void recv_pair(struct core_link *link, struct core_xfer *xfer,
		      const struct core_send_in *msg, const void *data)
{
	uint64_t room = xfer->segs ? xfer->segs->total : 0;
	uint64_t bytes = msg->bytes < room ? msg->bytes : room;
	tcpx_status status;

	list_remove(&xfer->recv.node);
	link->sendrecv.recv_next++;
	xfer->matched = true;
	xfer->recv.sender = msg->sender;
	xfer->recv.message_bytes = msg->bytes;
	xfer->recv.truncated = msg->bytes > room;
	xfer->recv.limit = bytes;
	send_in_consumed(link, msg);
	if (msg->dead) {
		xfer->matched = false; /* no FINAL is sent: the peer has ended the SEND itself */
		core_xfer_end(link, xfer, msg->status);
		return;
	}
	if (!msg->eager) {
		struct frame cts = {.type = FRAME_CTS,
				    .xfer = msg->sender,
				    .key = xfer->id,
				    .offset = bytes,
				    .flags = (uint16_t)((xfer->local_staged ? FRAME_F_STAGED : 0) |
							core_path_flag(xfer->path))};

		if (bytes)
			core_ctl_queue(link, &cts);
		core_xfer_check(link, xfer);
		return;
	}
	status = bytes ? link->cfg.ops->deliver(link->cfg.arg, xfer, data, bytes) : TCPX_OK;
	if (status == TCPX_IN_PROGRESS) {
		xfer->refs++; /* until core_recv_applied() */
		return;
	}
	if (status != TCPX_OK) {
		core_xfer_end(link, xfer, status);
		return;
	}
	xfer->applied = bytes;
	link->count.rx_bytes += bytes;
	core_xfer_check(link, xfer);
}

void core_recv_applied(struct core_link *link, struct core_xfer *xfer, tcpx_status status)
{
	xfer->refs--;
	if (xfer->state == CORE_ACTIVE && status != TCPX_OK) {
		core_xfer_end(link, xfer, status);
		return;
	}
	if (status == TCPX_OK) {
		xfer->applied = xfer->recv.limit;
		link->count.rx_bytes += xfer->recv.limit;
	}
	core_xfer_check(link, xfer);
}

/* Matches RECVs with SENDs that have arrived, in the order of the SENDs' numbers. Stops when no
 * RECV is left or the next SEND has not arrived. */
void core_sendrecv_match(struct core_link *link)
{
	while (!list_empty(&link->sendrecv.receives) && !list_empty(&link->sendrecv.sends)) {
		struct core_send_in *msg =
			LIST_ENTRY(link->sendrecv.sends.next, struct core_send_in, node);
		struct core_xfer *recv =
			LIST_ENTRY(link->sendrecv.receives.next, struct core_xfer, recv.node);

		if (msg->number != link->sendrecv.recv_next)
			return;
		list_remove(&msg->node);
		recv_pair(link, recv, msg, msg->data);
		core_send_in_free(link, msg);
	}
}

/* Returns the SEND with this number that waits for its RECV, or NULL. */
static struct core_send_in *send_in_find(struct core_link *link, uint64_t number)
{
	struct list_node *pos;

	for (pos = link->sendrecv.sends.prev; pos != &link->sendrecv.sends; pos = pos->prev) {
		struct core_send_in *msg = LIST_ENTRY(pos, struct core_send_in, node);

		if (msg->number <= number)
			return msg->number == number ? msg : NULL;
	}
	return NULL;
}

/* Keeps a SEND, sorted by number, until its RECV is posted. The SEND's credit is charged already.
 * If there is no memory, undoes the charge and returns ERR_NO_MEMORY. */
static tcpx_status send_in_keep(struct core_link *link, const struct core_send_in *head,
				const void *data)
{
	uint64_t bytes = head->eager ? head->bytes : 0;
	struct core_send_in *msg = link->cfg.ops->alloc(link->cfg.arg, sizeof(*msg) + bytes);
	struct list_node *pos;

	if (!msg) {
		core_credit_uncharge(&link->credit[FRAME_CREDIT_EAGER], head->cost);
		return TCPX_ERR_NO_MEMORY;
	}
	memcpy(msg, head, sizeof(*head));
	if (bytes)
		memcpy(msg->data, data, bytes);
	pos = link->sendrecv.sends.prev;
	while (pos != &link->sendrecv.sends &&
	       LIST_ENTRY(pos, struct core_send_in, node)->number > msg->number)
		pos = pos->prev;
	list_insert_before(pos->next, &msg->node);
	core_sendrecv_match(link);
	return TCPX_OK;
}

/* Called when a SEND frame (with its payload) or an RTS arrives. Matches the SEND with its RECV, or
 * keeps the SEND until the RECV is posted. Returns ERR_PROTOCOL if the SEND is too long or has no
 * credit, or ERR_NO_MEMORY. */
tcpx_status core_send_arrived(struct core_link *link, const struct frame *frame, const void *data)
{
	bool eager = frame->type == FRAME_SEND;
	uint64_t bytes = eager ? frame->payload_bytes : frame->offset;
	struct core_send_in head = {.number = frame->linear,
				    .bytes = bytes,
				    .sender = frame->xfer,
				    .cost = CORE_NOTE_COST + (eager ? bytes : 0),
				    .eager = eager};

	if (bytes > TCPX_TOTAL_MAX)
		return TCPX_ERR_PROTOCOL;
	if (frame->linear < link->sendrecv.recv_next || send_in_find(link, frame->linear))
		return TCPX_OK; /* its CANCEL arrived first and has used up the number */
	if (!core_link_charge(link, FRAME_CREDIT_EAGER, head.cost))
		return TCPX_ERR_PROTOCOL;
	if (!list_empty(&link->sendrecv.receives) && frame->linear == link->sendrecv.recv_next) {
		recv_pair(link,
			  LIST_ENTRY(link->sendrecv.receives.next, struct core_xfer, recv.node),
			  &head, data);
		core_sendrecv_match(link);
		return TCPX_OK;
	}
	return send_in_keep(link, &head, data);
}

/* Called when a CTS arrives: the SEND has met its RECV, so its bytes may be sent. If the SEND has
 * ended on this side, queues a FINAL that tells the peer so. */
void core_send_cleared(struct core_link *link, const struct frame *frame)
{
	struct core_xfer *xfer = core_xfer_find(link, frame->xfer);
	struct core_job *job;

	if (!xfer || xfer->op != TCPX_OP_SEND || xfer->state != CORE_ACTIVE) {
		final_queue(link, frame->key, TCPX_ERR_REMOTE, 0);
		return;
	}
	job = &xfer->job;
	if (!job->announced || xfer->send.eager || job->cleared ||
	    frame->offset > xfer->segs->total)
		return;
	core_retransmit_free(link, job); /* drops an RTS that was to be sent again */
	job->cleared = true;
	job->peer_xfer = frame->key;
	job->linear = 0;
	job->at = (struct core_cursor){0};
	job->end = frame->offset;
	job->path = core_path_of(frame) == xfer->path ? xfer->path : CORE_PATH_STREAM;
	job->small = core_job_is_small(link, job);
	job->fills &= job->path == CORE_PATH_STREAM;
	job->staged = frame->flags & FRAME_F_STAGED && job->path == CORE_PATH_STREAM;
	if (job->staged)
		core_stage_request(link, job->end);
	core_fill_want(link, job);
	core_job_queue(link, job);
}

/* Called when the peer has ended one of its SENDs. If the SEND waits for its RECV, it is marked
 * `dead`. If it has met its RECV, the RECV ends. If it has not arrived, or was aborted while it
 * arrived, a dead SEND is kept in its place, so that its number is used up. Returns ERR_PROTOCOL if
 * the peer has no credit for that, or ERR_NO_MEMORY. */
tcpx_status core_send_cancelled(struct core_link *link, const struct frame *frame)
{
	struct core_send_in *msg = send_in_find(link, frame->linear);
	struct core_send_in head = {.number = frame->linear,
				    .sender = frame->xfer,
				    .cost = CORE_NOTE_COST + frame->offset,
				    .dead = true,
				    .status = TCPX_ERR_REMOTE};
	struct list_node *pos, *tmp;

	if (msg) {
		msg->dead = true;
		msg->status = TCPX_ERR_REMOTE;
		return TCPX_OK;
	}
	if (frame->linear >= link->sendrecv.recv_next) {
		if (frame->offset > CORE_SMALL_BYTES ||
		    !core_link_charge(link, FRAME_CREDIT_EAGER, head.cost))
			return TCPX_ERR_PROTOCOL;
		return send_in_keep(link, &head, NULL);
	}
	LIST_FOREACH_SAFE(pos, tmp, &link->active) {
		struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

		if (xfer->op != TCPX_OP_RECV || !xfer->matched || xfer->recv.sender != frame->xfer)
			continue;
		xfer->matched = false; /* no FINAL is sent: the peer has ended the SEND itself */
		core_xfer_end(link, xfer, TCPX_ERR_REMOTE);
		break;
	}
	return TCPX_OK;
}

/* Called when a FINAL arrives. It says how a SEND ended at the peer, or with which error a READ or
 * a RECV must end. */
void core_final_arrived(struct core_link *link, const struct frame *frame)
{
	struct core_xfer *xfer = core_xfer_find(link, frame->xfer);
	tcpx_status status = core_status_unpack(frame->linear);

	if (!xfer || xfer->state == CORE_ENDING)
		return;
	if (xfer->state == CORE_NOTIFYING)
		/* the READ has all its bytes, so an error of their source no longer matters */
		return;
	if (xfer->op == TCPX_OP_SEND) {
		if (!xfer->job.announced)
			return; /* the peer cannot know this SEND: the id is stale or forged */
		xfer->matched = true;
		xfer->applied = frame->offset <= xfer->segs->total ? frame->offset : 0;
		if (status == TCPX_OK)
			core_xfer_check(link, xfer);
		else
			core_xfer_end(link, xfer, status);
		return;
	}
	if (status == TCPX_OK)
		return;
	if (xfer->op == TCPX_OP_RECV)
		xfer->matched = false;
	core_xfer_end(link, xfer, status);
}

/* Acquires eager credit for a SEND: for all of its bytes, which then leave in its first frame, or
 * for an RTS only. Returns false if there is no credit for either; all later SENDs then wait as
 * well. */
bool core_send_acquire(struct core_link *link, struct core_xfer *xfer)
{
	uint64_t total = xfer->segs->total;

	if (xfer->send.has_credit)
		return true;
	xfer->send.eager =
		total <= CORE_SMALL_BYTES && xfer->path != CORE_PATH_MESSAGE &&
		xfer->segs->nseg <= CORE_PIECES_MAX &&
		core_credit_acquire(&link->credit[FRAME_CREDIT_EAGER], total + CORE_NOTE_COST);
	xfer->send.has_credit =
		xfer->send.eager ||
		core_credit_acquire(&link->credit[FRAME_CREDIT_EAGER], CORE_NOTE_COST);
	core_fill_want(link, &xfer->job);
	return xfer->send.has_credit;
}

/* Acquires eager credit for the SENDs that wait, in the order of their numbers, until one gets
 * none. The sources of all SENDs that may leave eagerly are then filled, not only that of the first
 * SEND. Does nothing while CANCELs of SENDs wait for credit. */
void core_sendrecv_acquire(struct core_link *link)
{
	struct list_node *pos;

	if (!list_empty(&link->sendq.cancelled) || list_empty(&link->sendq.sends) ||
	    core_job_xfer(LIST_ENTRY(link->sendq.sends.prev, struct core_job, node))
		    ->send.has_credit)
		return;
	LIST_FOREACH(pos, &link->sendq.sends)
		if (!core_send_acquire(link, core_job_xfer(LIST_ENTRY(pos, struct core_job, node))))
			return;
}
