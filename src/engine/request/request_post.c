/* SPDX-License-Identifier: Apache-2.0 */
/* Posts one request, several requests under one lock, or a notification alone. */
#include "base/clock.h"
#include "base/error.h"
#include "engine/request/reconnect.h"
#include "engine/request/request_calls.h"
#include "engine/channel/comms.h"
#include "engine/link/rouse.h"
#include "engine/request/pending.h"
#include "engine/path/solo.h"
#include "engine/path/paths.h"
#include "engine/request/ready.h"
#include "engine/path/share.h"

#define READ_PIECE_BYTES 12 /* about how many bytes a segment of a READ takes in a READ_REQ */
#define POST_MOST 64	    /* most requests that are posted under one hold of a link's lock */

/* Requests to one peer that are posted under one hold of its link.lock. All channels that have work
 * are kicked once, after the lock is released. */
struct post_batch {
	struct engine_peer *peer; /* locked, with a reference; NULL if no batch has begun */
	/* `posted` is the number of requests; `most_bytes` is the largest post_own_bytes() of
	 * these */
	uint64_t posted, most_bytes;
	/* `sends` is true if the posting thread sends for a request (way.sends); `timed` is true if
	 * a request has a deadline */
	bool sends, timed;
	bool rouses; /* a READ needs workers that sleep: rouse_reader() is due */
	/* memory kind and device that the batch's last READ into staged memory fills first; NULL
	 * if there is no such READ */
	const struct mem_kind *awaits;
	uint32_t device;
};

/* Takes an io reference of each of the request's regions. If a region was deregistered, takes none
 * and returns ERR_DEREGISTERED. */
static tcpx_status request_io_get(struct engine_request *request)
{
	uint32_t i;

	for (i = 0; i < request->regions.count; i++)
		if (!mem_region_io_get(request->regions.at[i]))
			break;
	request->regions.held = i == request->regions.count;
	if (request->regions.held)
		return TCPX_OK;
	while (i)
		mem_region_io_put(request->regions.at[--i]);
	return error_set(TCPX_ERR_DEREGISTERED, 0,
			 "a local region of the request was deregistered");
}

/* Sets the last error to a text that explains the core's refusal. Returns the status of the
 * error. */
static tcpx_status post_error(struct engine_request *request, tcpx_status status)
{
	struct engine_peer *peer = request->peer;

	switch (status) {
	case TCPX_ERR_AGAIN:
		if (request->xfer.op == TCPX_OP_SEND)
			return error_set(status, 0,
					 "peer '%s' has not received %d cancelled SENDs yet",
					 peer->who.name, CORE_CANCELLED_MAX);
		return error_set(status, 0, "notification budget of peer '%s' is used up",
				 peer->who.name);
	case TCPX_ERR_LIMIT:
		return error_set(status, 0, "notification is larger than the budget of peer '%s'",
				 peer->who.name);
	case TCPX_ERR_NO_MEMORY:
		return session_memory_error(peer->link.session);
	default:
		return error_raise(&peer->error);
	}
}

/* Makes the request active and gives it to the core, or to pending.c while the peer connects. On an
 * error the request keeps its state and its last completion. The caller holds link.lock. */
static tcpx_status request_start(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct engine_peer *peer = request->peer;
	uint32_t before = atomic_load(&request->state);
	tcpx_status status = request_io_get(request);

	if (status != TCPX_OK)
		return status;
	request->xfer.deadline_ns = request->deadline_ns ? clock_after(request->deadline_ns) : 0;
	atomic_store(&request->state, REQUEST_ACTIVE);
	atomic_fetch_add(&session->counters.active, 1);
	request->post_seq = ++peer->post_seq;
	request->posted_ns = clock_now_ns();
	request->gone.base = 0;
	if (!peer->link.core_ready) {
		pending_add(request);
		return TCPX_OK;
	}
	status = request_hand_over(request);
	if (status == TCPX_OK)
		return TCPX_OK;
	atomic_fetch_sub(&session->counters.active, 1);
	request_io_put(request);
	request_set_state(request, before);
	return post_error(request, status);
}

/* Returns about how many bytes this end sends for the request. For a READ these are only the bytes
 * of its segment list, and for a RECV none, since the peer sends the data. */
static uint64_t post_own_bytes(const struct engine_request *request)
{
	if (request->xfer.op == TCPX_OP_READ)
		return (uint64_t)request->segs.nseg * READ_PIECE_BYTES;
	return request->xfer.op == TCPX_OP_RECV ? 0 : request->segs.total;
}

static enum post_sends post_sends_of(const struct engine_session *session, uint64_t bytes,
				     bool solo)
{
	if (session->flags & TCPX_SESSION_NO_INLINE)
		return POST_NOTHING;
	if (solo)
		return POST_FIRST;
	return bytes <= session->tuning.inline_bytes ? POST_PRIO : POST_NOTHING;
}

/* Posts the request. Returns an error if the request is released, active or still in the completion
 * queue, if its link ended before the link had a core, or if request_start() fails. The caller
 * holds link.lock. */
static tcpx_status post_one(struct engine_request *request, uint64_t id)
{
	struct engine_peer *peer = request->peer;

	if (request->slot.id != id) /* another thread has released the request */
		return request_stale();
	if (atomic_load(&request->state) == REQUEST_ACTIVE)
		return request_still_active();
	if (atomic_load_explicit(&request->queued, memory_order_acquire)) {
		error_set(TCPX_ERR_STATE, 0, "request is in the completion queue");
		return error_next("take its completion with tcpx_session_poll() before the next "
				  "post");
	}
	if (peer->link.core_done && !peer->link.core_ready)
		return error_raise(&peer->error);
	return request_start(request);
}

/* Unlocks the batch's peer, starts to send what was posted (perhaps some of it on this thread), and
 * empties the batch. */
static void batch_end(struct post_batch *batch)
{
	struct engine_peer *peer = batch->peer;
	struct engine_session *session;

	if (!peer)
		return;
	link_unlock_only(&peer->link);
	session = peer->link.session;
	if (batch->posted) {
		atomic_fetch_add(&session->counters.posted, batch->posted);
		if (batch->timed)
			session_timer_kick(session);
		link_run_posted(&peer->link,
				post_sends_of(session, batch->most_bytes, batch->sends));
		if (batch->rouses)
			rouse_reader(peer);
		if (batch->awaits && batch->awaits->rouse)
			/* wake the device's thread before the data arrives */
			batch->awaits->rouse(batch->device, MEM_CALL_COMMIT);
	} else {
		/* run the work that other threads deferred while the lock was held */
		link_run_deferred(&peer->link);
	}
	peer_put(peer);
	*batch = (struct post_batch){0};
}

/* Posts a request as part of the batch. If the request's peer is not the batch's, ends the batch
 * and begins a new one. */
static tcpx_status batch_post(struct post_batch *batch, struct engine_request *request, uint64_t id)
{
	uint64_t bytes = post_own_bytes(request);
	tcpx_status status;

	/* This comparison stays valid: while the lock is held, no request to this peer can move to
	 * another link. */
	if (batch->peer && atomic_load(&request->peer) != batch->peer)
		batch_end(batch);
	if (!batch->peer)
		batch->peer = request_lock(request);
	status = post_one(request, id);
	if (status != TCPX_OK)
		return status;
	batch->posted++;
	batch->sends |= request->way.sends;
	batch->timed |= request->deadline_ns != 0;
	batch->rouses |= rouse_expects(request);
	if (request->xfer.op == TCPX_OP_READ && request->xfer.local_staged &&
	    !request->xfer.direct) {
		const struct mem_region *into = request->segs.local[request->segs.seg->local];

		batch->awaits = into->kind;
		batch->device = into->device;
	}
	batch->most_bytes = bytes > batch->most_bytes ? bytes : batch->most_bytes;
	return TCPX_OK;
}

static tcpx_status post_alone(struct engine_request *request, uint64_t id)
{
	struct post_batch batch = {0};
	tcpx_status status = batch_post(&batch, request, id);

	batch_end(&batch);
	return status;
}

/* Called after a post that failed with `status`. Returns ERR_STATE and ERR_STALE at once. For
 * another error, if the request's link has ended, moves the request to the next link of its handle
 * and posts it there; otherwise restores the error of the post. Returns the final status. */
static tcpx_status post_again(struct engine_request *request, uint64_t id, tcpx_status status)
{
	tcpx_error why = *error_last();

	if (status == TCPX_ERR_STATE || status == TCPX_ERR_STALE)
		return status;
	return reconnect_request(request, id) ? post_alone(request, id) : error_raise(&why);
}

tcpx_status engine_request_post(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = request_get(session, id);
	tcpx_status status;

	if (!request)
		return TCPX_ERR_STALE;
	status = post_alone(request, id);
	if (status != TCPX_OK)
		status = post_again(request, id, status);
	request_put(request);
	return status;
}

/* Posts at most POST_MOST requests. *first is the first failure of all calls so far; its status is
 * OK if there was none. */
static void post_some(struct engine_session *session, const tcpx_request *requests, uint32_t count,
		      tcpx_status *statuses, tcpx_error *first)
{
	struct engine_request *got[POST_MOST];
	struct post_batch batch = {0};

	for (uint32_t i = 0; i < count; i++) {
		uint64_t id = requests[i].id;

		got[i] = handle_get(&session->requests, id);
		statuses[i] = got[i] ? batch_post(&batch, got[i], id) : TCPX_ERR_STALE;
		if (statuses[i] == TCPX_OK)
			continue;
		batch_end(&batch);
		statuses[i] = got[i] ? post_again(got[i], id, statuses[i]) : request_stale();
		if (statuses[i] != TCPX_OK && first->status == TCPX_OK)
			*first = *error_last();
	}
	batch_end(&batch);
	for (uint32_t i = 0; i < count; i++)
		if (got[i])
			request_put(got[i]);
}

tcpx_status engine_request_post_many(struct engine_session *session, const tcpx_request *requests,
				     uint32_t count, tcpx_status *statuses)
{
	tcpx_error first = {.status = TCPX_OK};

	for (uint32_t i = 0; i < count; i += POST_MOST)
		post_some(session, requests + i, count - i < POST_MOST ? count - i : POST_MOST,
			  statuses + i, &first);
	return first.status == TCPX_OK ? TCPX_OK : error_raise(&first);
}

static void note_refused(const struct engine_peer *peer, tcpx_status status, size_t bytes)
{
	error_set(status, 0, "peer '%s' cannot take a notification of %zu bytes%s", peer->who.name,
		  bytes, status == TCPX_ERR_AGAIN ? ": its budget for unread ones is used up" : "");
	if (status == TCPX_ERR_AGAIN || status == TCPX_ERR_LIMIT)
		error_next("wait until the peer has read some, or raise notify_budget_bytes "
			   "and, to at least twice as much, memory_budget_bytes of its session");
}

tcpx_status engine_notify_send(struct engine_session *session, uint64_t peer_id, const void *data,
			       size_t bytes)
{
	struct engine_peer *peer = reconnect_use(session, peer_id, false);
	tcpx_status status;

	if (!peer)
		return TCPX_ERR_STALE;
	link_lock(&peer->link);
	if (peer->link.core_ready && list_empty(&peer->pending.notes))
		status = core_note_send(&peer->link.core, data, bytes);
	else
		status =
			peer->link.core_done ? peer->error.status : pending_note(peer, data, bytes);
	if (status == TCPX_ERR_NO_MEMORY)
		status = session_memory_error(session);
	else if (status <= TCPX_ERR_PEER_CLOSED)
		error_raise(&peer->error);
	else if (status != TCPX_OK)
		note_refused(peer, status, bytes);
	link_unlock_only(&peer->link);
	if (status == TCPX_OK) {
		atomic_fetch_add(&session->counters.notes_out, 1);
		link_run_posted(&peer->link, post_sends_of(session, bytes, false));
	} else {
		/* run the work that other threads deferred while the lock was held */
		link_run_deferred(&peer->link);
	}
	peer_put(peer);
	return status;
}
