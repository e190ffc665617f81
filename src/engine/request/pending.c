/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and notifications that are posted while the peer still connects. They wait until the
 * core of the link is started, and then go to it. If connecting fails, the requests end and the
 * notifications are lost. */
#include "engine/request/pending.h"
#include "engine/request/reconnect.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/request/request_calls.h"

#define LOSSES_SAID 10 /* most log lines about lost notifications in 10 s */

/* A notification that belongs to no request. */
struct pending_note {
	struct list_node node;
	size_t bytes;
	uint8_t data[];
};

void pending_init(struct engine_peer *peer)
{
	list_init(&peer->pending.requests);
	list_init(&peer->pending.notes);
	peer->pending.note_bytes = 0;
}

bool pending_waits(const struct engine_peer *peer)
{
	return !list_empty(&peer->pending.requests) || !list_empty(&peer->pending.notes);
}

void pending_add(struct engine_request *request)
{
	request->pending = true;
	list_push_back(&request->peer->pending.requests, &request->done);
}

static void pending_leave(struct engine_request *request)
{
	list_remove(&request->done);
	request->pending = false;
}

static void pending_ended(struct engine_request *request, tcpx_status status)
{
	request->xfer.status = status;
	request->xfer.applied = 0;
	request->xfer.recv.message_bytes = 0;
	request_ended(request);
}

void pending_end(struct engine_request *request, tcpx_status status)
{
	pending_leave(request);
	pending_ended(request, status);
}

tcpx_status pending_note(struct engine_peer *peer, const void *data, size_t bytes)
{
	struct engine_session *session = peer->link.session;
	size_t size = sizeof(struct pending_note) + bytes;
	struct pending_note *note;

	if (bytes > TCPX_NOTIFY_MAX)
		return TCPX_ERR_LIMIT;
	/* The peer's notification budget may not be known yet, so this session's budget is the
	 * limit. */
	if (peer->pending.note_bytes + size > session->tuning.notify_budget)
		return TCPX_ERR_AGAIN;
	note = session_alloc(session, size);
	if (!note)
		return TCPX_ERR_NO_MEMORY;
	note->bytes = bytes;
	if (bytes)
		memcpy(note->data, data, bytes);
	list_push_back(&peer->pending.notes, &note->node);
	peer->pending.note_bytes += size;
	return TCPX_OK;
}

/* Removes the oldest notification from the queue and frees it. */
static void pending_note_drop(struct engine_peer *peer)
{
	struct pending_note *note =
		LIST_ENTRY(list_pop_front(&peer->pending.notes), struct pending_note, node);
	size_t size = sizeof(*note) + note->bytes;

	peer->pending.note_bytes -= size;
	session_free(peer->link.session, note, size);
}

void pending_notes_go(struct engine_peer *peer)
{
	while (!list_empty(&peer->pending.notes)) {
		struct pending_note *note =
			LIST_ENTRY(peer->pending.notes.next, struct pending_note, node);
		tcpx_status status = core_note_send(&peer->link.core, note->data, note->bytes);

		if (status == TCPX_ERR_AGAIN || status == TCPX_ERR_NO_MEMORY)
			break; /* the next heartbeat tries again */
		if (status == TCPX_ERR_LIMIT)
			peer->pending.too_long = note->bytes;
		pending_note_drop(peer);
		link_progress(&peer->link);
	}
}

void pending_say_too_long(struct engine_peer *peer)
{
	if (peer->pending.too_long)
		LOG_WARN("peer '%s' does not accept notifications of %zu bytes: one sent while it "
			 "connected is dropped; next: raise TCPX_NOTIFY_BUDGET_BYTES there",
			 peer->who.name, peer->pending.too_long);
	peer->pending.too_long = 0;
}

void pending_start(struct engine_peer *peer)
{
	struct list_node *pos, *tmp;

	pending_notes_go(peer);
	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);
		tcpx_status status;

		pending_leave(request);
		status = request_hand_over(request);
		if (status != TCPX_OK)
			pending_ended(request, status);
	}
	link_progress(&peer->link);
}

uint32_t pending_fail(struct engine_peer *peer, tcpx_status status)
{
	struct list_node *pos, *tmp;
	uint32_t lost = 0;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests)
		pending_end(LIST_ENTRY(pos, struct engine_request, done), status);
	for (; !list_empty(&peer->pending.notes); lost++)
		pending_note_drop(peer);
	return lost;
}

void pending_say_lost(struct engine_peer *peer, uint32_t notes)
{
	static struct log_limit limit;

	notes = reconnect_count_lost(peer, notes);
	if (notes && log_allow(&limit, LOSSES_SAID))
		LOG_WARN("peer '%s': %u notifications that were sent while it connected are lost",
			 peer->who.name, notes);
}

void pending_forget(struct engine_peer *peer,
		    bool (*uses)(const struct engine_request *request,
				 const struct mem_region *region),
		    const struct mem_region *region)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);

		if (uses(request, region))
			pending_end(request, TCPX_ERR_DEREGISTERED);
	}
}

int64_t pending_expire(struct engine_peer *peer, int64_t now_ns)
{
	struct list_node *pos, *tmp;
	int64_t next = 0;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);
		int64_t due = request->xfer.deadline_ns;

		if (due && due <= now_ns)
			pending_end(request, TCPX_ERR_TIMED_OUT);
		else if (due && (!next || due < next))
			next = due;
	}
	return next;
}
