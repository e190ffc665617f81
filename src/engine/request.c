/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: prepared, posted, ended, released. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/again.h"
#include "engine/calls.h"
#include "engine/comms.h"
#include "engine/doubt.h"
#include "engine/early.h"
#include "engine/lead.h"
#include "engine/lone.h"
#include "engine/program.h"
#include "engine/rx_into.h"
#include "engine/share.h"
#include "sys/futex.h"

#define MEASURED_BYTES 65536

tcpx_status request_stale(void)
{
	return error_set(TCPX_ERR_STALE, 0, "request handle is not valid any more");
}

struct engine_request *request_get(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = handle_get(&session->requests, id);

	if (!request)
		request_stale();
	return request;
}

void request_put(struct engine_request *request)
{
	handle_put(&request->session->requests, request);
}

tcpx_status engine_request_prepare(struct engine_session *session, uint64_t peer_id,
				   enum tcpx_op op, const tcpx_segment *segments, size_t count,
				   const tcpx_request_opts *opts, tcpx_request *out_request)
{
	struct engine_peer *peer = again_use(session, peer_id, true);
	struct engine_request *request;
	tcpx_status status;

	if (!peer)
		return TCPX_ERR_STALE;
	request = handle_take(&session->requests);
	if (!request) {
		peer_put(peer);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "request");
	}
	request->session = session;
	request->peer = peer;
	request->peer_id = peer_id;
	request->xfer.op = op;
	list_init(&request->done);
	status = request_take_options(request, opts);
	if (status == TCPX_OK)
		status = program_build(request, op, segments, count);
	if (status != TCPX_OK) {
		request_put(request);
		return status;
	}
	request->xfer.prog = &request->prog;
	share_ahead(request);
	handle_publish(&session->requests, request);
	out_request->id = request->slot.id;
	return TCPX_OK;
}

static void io_put(struct engine_request *request)
{
	if (!request->io_held)
		return;
	request->io_held = false;
	for (uint32_t i = 0; i < request->nregions; i++)
		mem_region_io_put(request->regions[i]);
}

static tcpx_status io_get(struct engine_request *request)
{
	uint32_t i;

	for (i = 0; i < request->nregions; i++)
		if (!mem_region_io_get(request->regions[i]))
			break;
	request->io_held = i == request->nregions;
	if (request->io_held)
		return TCPX_OK;
	while (i)
		mem_region_io_put(request->regions[--i]);
	return error_set(TCPX_ERR_DEREGISTERED, 0,
			 "a local region of the request was deregistered");
}

/* Its callback waits to be dispatched. */
static void done_enter(struct engine_request *request)
{
	struct engine_session *session = request->session;

	pthread_mutex_lock(&session->queue_lock);
	request->in_done = true;
	list_push_back(&session->done, &request->done);
	session_signal(session);
	pthread_mutex_unlock(&session->queue_lock);
}

/* True: it was waiting, and does not any more. */
static bool done_leave(struct engine_request *request)
{
	struct engine_session *session = request->session;
	bool was;

	pthread_mutex_lock(&session->queue_lock);
	was = request->in_done;
	if (was)
		list_remove(&request->done);
	request->in_done = false;
	pthread_mutex_unlock(&session->queue_lock);
	return was;
}

/* peer.lock held: not active any more, which whoever waits is to hear. */
static void set_state(struct engine_request *request, uint32_t state)
{
	struct engine_session *session = request->session;

	/* Sequentially consistent, as the waiters' side is: who counts himself in and still sees it
	 * active is seen here. */
	atomic_store(&request->state, state);
	if (request->lead)
		lead_wake(request->lead);
	if (atomic_load(&request->waiters))
		sys_futex_wake(&request->state, INT_MAX);
	if (atomic_load(&session->any_waiters)) {
		atomic_fetch_add(&session->done_word, 1);
		sys_futex_wake(&session->done_word, INT_MAX);
	}
}

/* peer.lock held: how fast whole transfers go. What is smaller measures the way there and back. */
static void measure(struct engine_request *request)
{
	const tcpx_completion *end = &request->completion;
	uint32_t op = request->xfer.op;
	uint64_t *mean, now;

	if (end->status != TCPX_OK || end->bytes < MEASURED_BYTES || !end->elapsed_ns ||
	    (op != TCPX_OP_READ && op != TCPX_OP_WRITE))
		return;
	mean = &request->peer->rate[op == TCPX_OP_WRITE];
	now = (uint64_t)((double)end->bytes * 1e9 / (double)end->elapsed_ns);
	*mean = *mean ? *mean - *mean / 5 + now / 5 : now;
}

void request_quiet(struct engine_request *request)
{
	io_put(request);
	lone_over(request);
}

/* peer.lock held, from the core: the memory is the caller's again. */
void request_ended(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct core_xfer *xfer = &request->xfer;
	struct engine_peer *peer = request->peer;
	bool zombie = request->zombie;

	request_quiet(request);
	request->completion =
		(tcpx_completion){.status = xfer->status,
				  .bytes = xfer->applied,
				  .message_bytes = xfer->message_bytes,
				  .request = {request->slot.id},
				  .user = request->user,
				  .elapsed_ns = (uint64_t)(clock_now_ns() - request->posted_ns)};
	measure(request);
	atomic_fetch_sub(&session->active, 1);
	atomic_fetch_add(xfer->status == TCPX_OK ? &session->done_count : &session->failed, 1);
	if (request->callback && !zombie)
		done_enter(request);
	set_state(request, REQUEST_FINAL);
	peer_progress(peer);
	if (zombie) { /* released while active: nobody looks any more */
		list_push_back(&peer->buried, &request->done);
		peer_wake_control(peer);
	}
}

/* The last reference went: no lock held, the request is not active. */
void request_free(void *object)
{
	struct engine_request *request = object;
	struct engine_session *session = request->session;
	struct engine_peer *peer = request->peer;

	program_free(request);
	free(request->notify);
	request->notify = NULL;
	handle_give(&session->requests, request);
	peer_put(peer);
}

/* Why the core did not take it. */
static tcpx_status post_error(struct engine_request *request, tcpx_status status)
{
	struct engine_peer *peer = request->peer;

	switch (status) {
	case TCPX_ERR_AGAIN:
		if (request->xfer.op == TCPX_OP_SEND)
			return error_set(status, 0, "peer '%s' receives none of %d cancelled SENDs",
					 peer->name, CORE_VOIDS_MAX);
		return error_set(status, 0, "notification budget of peer '%s' is used up",
				 peer->name);
	case TCPX_ERR_LIMIT:
		return error_set(status, 0, "notification is larger than the budget of peer '%s'",
				 peer->name);
	case TCPX_ERR_NO_MEMORY:
		return session_memory_error(peer->session);
	default:
		return error_raise(&peer->error);
	}
}

tcpx_status request_hand_over(struct engine_request *request)
{
	tcpx_status status;

	share_route(request);
	comms_route(request);
	lone_route(request);
	status = core_xfer_post(&request->peer->core, &request->xfer);
	if (status != TCPX_OK)
		lone_over(request);
	return status;
}

/* peer.lock held, the request is active: it ends as soon as its memory is quiet. */
static void stop(struct engine_request *request)
{
	if (request->early)
		early_end(request, TCPX_ERR_CANCELLED);
	else if (request->doubted)
		doubt_end(request);
	else
		core_xfer_cancel(&request->peer->core, &request->xfer, TCPX_ERR_CANCELLED);
}

/* peer.lock held. When it fails, everything is as before: the last end, and its callback. */
static tcpx_status start(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct engine_peer *peer = request->peer;
	uint32_t before = atomic_load(&request->state);
	tcpx_status status = io_get(request);
	bool was_done;

	if (status != TCPX_OK)
		return status;
	was_done = done_leave(request);
	request->xfer.deadline_ns = request->deadline_ns ? clock_after(request->deadline_ns) : 0;
	atomic_store(&request->state, REQUEST_ACTIVE);
	atomic_fetch_add(&session->active, 1);
	request->post_seq = ++peer->post_seq;
	request->posted_ns = clock_now_ns();
	request->gone_base = 0;
	if (!peer->core_ready) {
		early_add(request);
		return TCPX_OK;
	}
	status = request_hand_over(request);
	if (status == TCPX_OK)
		return TCPX_OK;
	atomic_fetch_sub(&session->active, 1);
	io_put(request);
	if (was_done)
		done_enter(request);
	set_state(request, before);
	return post_error(request, status);
}

/* What a post has to send, roughly: a READ's is its list, the bytes are for the peer to send. */
static uint64_t own_bytes(const struct engine_request *request)
{
	if (request->xfer.op == TCPX_OP_READ)
		return (uint64_t)request->prog.nseg * sizeof(struct core_seg);
	return request->prog.total;
}

static enum post_sends what_to_send(const struct engine_session *session, uint64_t bytes, bool lone)
{
	if (session->flags & TCPX_SESSION_NO_INLINE)
		return POST_NOTHING;
	if (lone)
		return POST_FIRST;
	return bytes <= session->inline_bytes ? POST_LANE : POST_NOTHING;
}

static tcpx_status post(struct engine_request *request, uint64_t id)
{
	struct engine_session *session = request->session;
	struct engine_peer *peer = request_lock(request);
	enum post_sends sends;
	tcpx_status status;

	if (request->slot.id != id) /* released since it was found */
		status = request_stale();
	else if (atomic_load(&request->state) == REQUEST_ACTIVE)
		status = error_set(TCPX_ERR_STATE, 0, "request is active");
	else if (peer->core_done && !peer->core_ready)
		status = error_raise(&peer->error);
	else
		status = start(request);
	sends = what_to_send(session, own_bytes(request), request->sends);
	link_unlock(peer);
	if (status == TCPX_OK) {
		atomic_fetch_add(&session->posted, 1);
		if (request->deadline_ns)
			session_timer_kick(session);
		peer_kick_posted(peer, sends);
	}
	peer_put(peer);
	return status;
}

tcpx_status engine_request_post(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = request_get(session, id);
	tcpx_status status;

	if (!request)
		return TCPX_ERR_STALE;
	status = post(request, id);
	if (status != TCPX_OK) {
		tcpx_error why = *error_last();

		status = again_request(request, id) ? post(request, id) : error_raise(&why);
	}
	request_put(request);
	return status;
}

tcpx_status engine_request_cancel(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = request_get(session, id);
	struct engine_peer *peer;
	tcpx_status status = TCPX_OK;

	if (!request)
		return TCPX_ERR_STALE;
	peer = request_lock(request);
	if (request->slot.id != id)
		status = request_stale();
	else if (atomic_load(&request->state) == REQUEST_ACTIVE)
		stop(request);
	else
		status = error_set(TCPX_ERR_STATE, 0, "request is not active");
	link_unlock(peer);
	peer_kick(peer, true);
	peer_put(peer);
	request_put(request);
	return status;
}

tcpx_status engine_request_release(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = request_get(session, id);
	struct engine_peer *peer;
	bool active;

	if (!request)
		return TCPX_ERR_STALE;
	peer = request_lock(request);
	if (request->slot.id != id) {
		request_unlock(peer);
		request_put(request);
		return request_stale();
	}
	handle_hide(request);
	active = atomic_load(&request->state) == REQUEST_ACTIVE;
	done_leave(request);
	if (active) {
		request->zombie = true;
		stop(request);
	}
	link_unlock(peer);
	if (active)
		peer_kick(peer, true);
	else
		request_put(request); /* the handle's; that of an active one goes with its end */
	peer_put(peer);
	request_put(request);
	return TCPX_OK;
}

static void refused(const struct engine_peer *peer, tcpx_status status, size_t bytes)
{
	error_set(status, 0, "notification of %zu bytes to peer '%s'%s", bytes, peer->name,
		  status == TCPX_ERR_AGAIN ? ", whose budget for those it has not read is used up"
					   : "");
	if (status == TCPX_ERR_AGAIN || status == TCPX_ERR_LIMIT)
		error_next("let it take some first, or raise notify_budget_bytes and, at least "
			   "twice as much, memory_budget_bytes of its session");
}

tcpx_status engine_notify_send(struct engine_session *session, uint64_t peer_id, const void *data,
			       size_t bytes)
{
	struct engine_peer *peer = again_use(session, peer_id, false);
	tcpx_status status;

	if (!peer)
		return TCPX_ERR_STALE;
	link_lock(peer);
	if (peer->core_ready && list_empty(&peer->early_notes))
		status = core_note_send(&peer->core, data, bytes);
	else
		status = peer->core_done ? peer->error.status : early_note(peer, data, bytes);
	if (status == TCPX_ERR_NO_MEMORY)
		status = session_memory_error(session);
	else if (status <= TCPX_ERR_PEER_CLOSED)
		error_raise(&peer->error);
	else if (status != TCPX_OK)
		refused(peer, status, bytes);
	link_unlock(peer);
	if (status == TCPX_OK) {
		atomic_fetch_add(&session->notes_out, 1);
		peer_kick_posted(peer, what_to_send(session, bytes, false));
	}
	peer_put(peer);
	return status;
}
