/* SPDX-License-Identifier: Apache-2.0 */
/* SEND meets RECV: in order, eager ones within a budget, large ones after a clear-to-send. */
#include "core/link_priv.h"

#include <string.h>

void core_message_free(struct core_link *link, struct core_send_in *msg)
{
	list_remove(&msg->node);
	link->cfg.ops->free(link->cfg.arg, msg, sizeof(*msg) + (msg->eager ? msg->bytes : 0));
}

static void send_final(struct core_link *link, uint64_t sender, tcpx_status status, uint64_t bytes)
{
	struct frame final = {.type = FRAME_FINAL,
			      .xfer = sender,
			      .linear = core_status_pack(status),
			      .offset = bytes};

	core_ctl_queue(link, &final);
}

static void consumed(struct core_link *link, const struct core_send_in *msg)
{
	core_link_give(link, FRAME_CREDIT_EAGER, msg->cost, list_empty(&link->messages));
}

/* recv and msg belong together; data: the eager payload. */
static void pair(struct core_link *link, struct core_xfer *recv, const struct core_send_in *msg,
		 const void *data)
{
	uint64_t room = recv->prog ? recv->prog->total : 0;
	uint64_t bytes = msg->bytes < room ? msg->bytes : room;
	tcpx_status status;

	list_remove(&recv->recv);
	link->recv_next++;
	recv->matched = true;
	recv->sender = msg->sender;
	recv->message_bytes = msg->bytes;
	recv->truncated = msg->bytes > room;
	recv->limit = bytes;
	consumed(link, msg);
	if (msg->dead) {
		recv->matched = false; /* the sender knows */
		core_xfer_end(link, recv, msg->status);
		return;
	}
	if (!msg->eager) {
		struct frame cts = {.type = FRAME_CTS,
				    .xfer = msg->sender,
				    .key = recv->id,
				    .offset = bytes,
				    .flags = (uint16_t)((recv->local_staged ? FRAME_F_STAGED : 0) |
							core_path_flag(recv->path))};

		if (bytes)
			core_ctl_queue(link, &cts);
		core_xfer_check(link, recv);
		return;
	}
	status = bytes ? link->cfg.ops->deliver(link->cfg.arg, recv, data, bytes) : TCPX_OK;
	if (status == TCPX_IN_PROGRESS) {
		recv->refs++; /* until core_recv_applied */
		return;
	}
	if (status != TCPX_OK) {
		core_xfer_end(link, recv, status);
		return;
	}
	recv->applied = bytes;
	link->rx_bytes += bytes;
	core_xfer_check(link, recv);
}

void core_recv_applied(struct core_link *link, struct core_xfer *recv, tcpx_status status)
{
	recv->refs--;
	if (recv->state == CORE_ACTIVE && status != TCPX_OK) {
		core_xfer_end(link, recv, status);
		return;
	}
	recv->applied = recv->limit;
	link->rx_bytes += recv->limit;
	core_xfer_check(link, recv);
}

void core_message_match(struct core_link *link)
{
	while (!list_empty(&link->receives) && !list_empty(&link->messages)) {
		struct core_send_in *msg =
			LIST_ENTRY(link->messages.next, struct core_send_in, node);
		struct core_xfer *recv = LIST_ENTRY(link->receives.next, struct core_xfer, recv);

		if (msg->number != link->recv_next)
			return;
		list_remove(&msg->node);
		pair(link, recv, msg, msg->data);
		core_message_free(link, msg);
	}
}

static struct core_send_in *message_find(struct core_link *link, uint64_t number)
{
	struct list_node *pos;

	for (pos = link->messages.prev; pos != &link->messages; pos = pos->prev) {
		struct core_send_in *msg = LIST_ENTRY(pos, struct core_send_in, node);

		if (msg->number <= number)
			return msg->number == number ? msg : NULL;
	}
	return NULL;
}

/* Keeps a message, which is paid for, until its RECV comes, in the order of the numbers. */
static tcpx_status message_keep(struct core_link *link, const struct core_send_in *head,
				const void *data)
{
	uint64_t bytes = head->eager ? head->bytes : 0;
	struct core_send_in *msg = link->cfg.ops->alloc(link->cfg.arg, sizeof(*msg) + bytes);
	struct list_node *pos;

	if (!msg) {
		core_credit_unpay(&link->credit[FRAME_CREDIT_EAGER], head->cost);
		return TCPX_ERR_NO_MEMORY;
	}
	memcpy(msg, head, sizeof(*head));
	if (bytes)
		memcpy(msg->data, data, bytes);
	pos = link->messages.prev;
	while (pos != &link->messages &&
	       LIST_ENTRY(pos, struct core_send_in, node)->number > msg->number)
		pos = pos->prev;
	list_insert_before(pos->next, &msg->node);
	core_message_match(link);
	return TCPX_OK;
}

/* A SEND (with its payload) or an RTS arrived. */
tcpx_status core_message_arrived(struct core_link *link, const struct frame *frame,
				 const void *data)
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
	if (frame->linear < link->recv_next || message_find(link, frame->linear))
		return TCPX_OK; /* its CANCEL came first */
	if (!core_link_pay(link, FRAME_CREDIT_EAGER, head.cost))
		return TCPX_ERR_PROTOCOL;
	if (!list_empty(&link->receives) && frame->linear == link->recv_next) {
		pair(link, LIST_ENTRY(link->receives.next, struct core_xfer, recv), &head, data);
		core_message_match(link);
		return TCPX_OK;
	}
	return message_keep(link, &head, data);
}

void core_message_cts(struct core_link *link, const struct frame *frame)
{
	struct core_xfer *send = core_xfer_find(link, frame->xfer);
	struct core_job *job;

	if (!send || send->op != TCPX_OP_SEND || send->state != CORE_ACTIVE) {
		send_final(link, frame->key, TCPX_ERR_REMOTE, 0);
		return;
	}
	job = &send->job;
	if (!job->announced || send->eager || job->cleared || frame->offset > send->prog->total)
		return;
	core_redo_free(link, job); /* an announcement that was to go again */
	job->cleared = true;
	job->peer_xfer = frame->key;
	job->linear = 0;
	job->at = (struct core_cursor){0};
	job->end = frame->offset;
	job->path = core_path_of(frame) == send->path ? send->path : CORE_PATH_STREAM;
	job->small = core_job_is_small(link, job);
	job->fills &= job->path == CORE_PATH_STREAM;
	job->staged = frame->flags & FRAME_F_STAGED && job->path == CORE_PATH_STREAM;
	if (job->staged)
		core_stage_want(link, job->end);
	core_fill_want(link, job);
	core_job_queue(link, job);
}

/* A SEND is over at the sender. Its number must be filled all the same: the SEND may have been cut
 * short, or never come. */
tcpx_status core_message_cancelled(struct core_link *link, const struct frame *frame)
{
	struct core_send_in *msg = message_find(link, frame->linear);
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
	if (frame->linear >= link->recv_next) {
		if (frame->offset > CORE_SMALL_BYTES ||
		    !core_link_pay(link, FRAME_CREDIT_EAGER, head.cost))
			return TCPX_ERR_PROTOCOL;
		return message_keep(link, &head, NULL);
	}
	LIST_FOREACH_SAFE(pos, tmp, &link->active) {
		struct core_xfer *xfer = LIST_ENTRY(pos, struct core_xfer, node);

		if (xfer->op != TCPX_OP_RECV || !xfer->matched || xfer->sender != frame->xfer)
			continue;
		xfer->matched = false; /* the sender need not hear of it */
		core_xfer_end(link, xfer, TCPX_ERR_REMOTE);
		break;
	}
	return TCPX_OK;
}

void core_message_final(struct core_link *link, const struct frame *frame)
{
	struct core_xfer *xfer = core_xfer_find(link, frame->xfer);
	tcpx_status status = core_status_unpack(frame->linear);

	if (!xfer || xfer->state == CORE_ENDING)
		return;
	if (xfer->state == CORE_NOTIFYING)
		return; /* a READ that has its bytes: the source is too late to matter */
	if (xfer->op == TCPX_OP_SEND) {
		if (!xfer->job.announced)
			return; /* the peer cannot know of it yet */
		xfer->matched = true;
		xfer->applied = frame->offset <= xfer->prog->total ? frame->offset : 0;
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

/* A SEND goes eagerly within the budget, else it is announced. False: no credit, all SENDs wait. */
bool core_send_charge(struct core_link *link, struct core_xfer *xfer)
{
	uint64_t total = xfer->prog->total;

	if (xfer->charged)
		return true;
	xfer->eager = total <= CORE_SMALL_BYTES && xfer->path != CORE_PATH_MESSAGE &&
		      xfer->prog->nseg <= CORE_PIECES_MAX &&
		      core_credit_take(&link->credit[FRAME_CREDIT_EAGER], total + CORE_NOTE_COST);
	xfer->charged =
		xfer->eager || core_credit_take(&link->credit[FRAME_CREDIT_EAGER], CORE_NOTE_COST);
	core_fill_want(link, &xfer->job);
	return xfer->charged;
}

/* Charges SENDs after the first one, too: in their order, as the peer gives the credit back. */
void core_sends_charge(struct core_link *link)
{
	struct list_node *pos;

	if (!list_empty(&link->voids) || list_empty(&link->sends) ||
	    core_job_xfer(LIST_ENTRY(link->sends.prev, struct core_job, node))->charged)
		return;
	LIST_FOREACH(pos, &link->sends)
		if (!core_send_charge(link, core_job_xfer(LIST_ENTRY(pos, struct core_job, node))))
			return;
}
