/* SPDX-License-Identifier: Apache-2.0 */
/* What is posted while a peer still connects: it waits here, goes with the link, ends with it. */
#include "engine/request/early.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/calls.h"

#define LOSSES_SAID 10 /* in 10 s */

/* A notification of its own, copied. */
struct early_note {
	struct list_node node;
	size_t bytes;
	uint8_t data[];
};

void early_init(struct engine_peer *peer)
{
	list_init(&peer->pending.requests);
	list_init(&peer->pending.notes);
	peer->pending.note_bytes = 0;
}

bool early_waits(const struct engine_peer *peer)
{
	return !list_empty(&peer->pending.requests) || !list_empty(&peer->pending.notes);
}

void early_add(struct engine_request *request)
{
	request->early = true;
	list_push_back(&request->peer->pending.requests, &request->done);
}

static void leave(struct engine_request *request)
{
	list_remove(&request->done);
	request->early = false;
}

static void end(struct engine_request *request, tcpx_status status)
{
	request->xfer.status = status;
	request->xfer.applied = 0;
	request->xfer.recv.message_bytes = 0;
	request_ended(request);
}

void early_end(struct engine_request *request, tcpx_status status)
{
	leave(request);
	end(request, status);
}

tcpx_status early_note(struct engine_peer *peer, const void *data, size_t bytes)
{
	struct engine_session *session = peer->link.session;
	size_t size = sizeof(struct early_note) + bytes;
	struct early_note *note;

	if (bytes > TCPX_NOTIFY_MAX)
		return TCPX_ERR_LIMIT;
	/* what the peer will give is not known: no more than we would */
	if (peer->pending.note_bytes + size > session->notify_budget)
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

/* The first one is not wanted any more. */
static void note_pop(struct engine_peer *peer)
{
	struct early_note *note =
		LIST_ENTRY(list_pop_front(&peer->pending.notes), struct early_note, node);
	size_t size = sizeof(*note) + note->bytes;

	peer->pending.note_bytes -= size;
	session_free(peer->link.session, note, size);
}

void early_notes_go(struct engine_peer *peer)
{
	while (!list_empty(&peer->pending.notes)) {
		struct early_note *note =
			LIST_ENTRY(peer->pending.notes.next, struct early_note, node);
		tcpx_status status = core_note_send(&peer->link.core, note->data, note->bytes);

		if (status == TCPX_ERR_AGAIN || status == TCPX_ERR_NO_MEMORY)
			break; /* with the next beat */
		if (status == TCPX_ERR_LIMIT)
			LOG_WARN("peer '%s' takes no notification of %zu bytes: one that was sent "
				 "while it connected is dropped; raise its "
				 "TCPX_NOTIFY_BUDGET_BYTES",
				 peer->who.name, note->bytes);
		note_pop(peer);
		link_progress(&peer->link);
	}
}

void early_start(struct engine_peer *peer)
{
	struct list_node *pos, *tmp;

	early_notes_go(peer);
	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);
		tcpx_status status;

		leave(request);
		status = request_hand_over(request);
		if (status != TCPX_OK)
			end(request, status);
	}
	link_progress(&peer->link);
}

uint32_t early_fail(struct engine_peer *peer, tcpx_status status)
{
	struct list_node *pos, *tmp;
	uint32_t lost = 0;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests)
		early_end(LIST_ENTRY(pos, struct engine_request, done), status);
	for (; !list_empty(&peer->pending.notes); lost++)
		note_pop(peer);
	return lost;
}

void early_say_lost(const struct engine_peer *peer, uint32_t notes)
{
	static struct log_limit limit;

	if (notes && log_allow(&limit, LOSSES_SAID))
		LOG_WARN("peer '%s': %u notifications sent while it was dialled are lost",
			 peer->who.name, notes);
}

void early_forget(struct engine_peer *peer,
		  bool (*uses)(const struct engine_request *request,
			       const struct mem_region *region),
		  const struct mem_region *region)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);

		if (uses(request, region))
			early_end(request, TCPX_ERR_DEREGISTERED);
	}
}

int64_t early_expire(struct engine_peer *peer, int64_t now_ns)
{
	struct list_node *pos, *tmp;
	int64_t next = 0;

	LIST_FOREACH_SAFE(pos, tmp, &peer->pending.requests) {
		struct engine_request *request = LIST_ENTRY(pos, struct engine_request, done);
		int64_t due = request->xfer.deadline_ns;

		if (due && due <= now_ns)
			early_end(request, TCPX_ERR_TIMED_OUT);
		else if (due && (!next || due < next))
			next = due;
	}
	return next;
}
