/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: prepared, posted, ended, released. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/program.h"
#include "engine/rx_into.h"
#include "sys/futex.h"

static tcpx_status stale(void)
{
	return error_set(TCPX_ERR_STALE, 0, "request handle is not valid any more");
}

static struct engine_request *find(struct engine_session *session, uint64_t id)
{
	return handle_find(&session->requests, id);
}

static tcpx_status take_options(struct engine_request *request, enum tcpx_op op,
				const tcpx_request_opts *opts)
{
	struct core_xfer *xfer = &request->xfer;

	xfer->strict = request->session->flags & TCPX_SESSION_STRICT_CANCEL;
	if (!opts)
		return TCPX_OK;
	if (opts->notify_bytes > TCPX_NOTIFY_MAX)
		return error_set(TCPX_ERR_LIMIT, 0, "notification of %zu bytes, at most %u",
				 opts->notify_bytes, TCPX_NOTIFY_MAX);
	if (opts->notify_bytes && !opts->notify)
		return error_set(TCPX_ERR_INVALID, 0, "notify is NULL with notify_bytes %zu",
				 opts->notify_bytes);
	if (opts->deadline_ns < 0)
		return error_set(TCPX_ERR_INVALID, 0, "deadline_ns is negative");
	xfer->has_notify = op != TCPX_OP_NOTIFY && (opts->has_notify || opts->notify_bytes);
	if (xfer->has_notify && op != TCPX_OP_WRITE && op != TCPX_OP_READ)
		return error_set(TCPX_ERR_INVALID, 0, "only WRITE and READ carry a notification");
	if (opts->notify_bytes) {
		request->notify = malloc(opts->notify_bytes);
		if (!request->notify)
			return error_set(TCPX_ERR_NO_MEMORY, 0, "notification of %zu bytes",
					 opts->notify_bytes);
		memcpy(request->notify, opts->notify, opts->notify_bytes);
	}
	xfer->notify = request->notify;
	xfer->notify_bytes = (uint32_t)opts->notify_bytes;
	xfer->priority = opts->priority;
	request->deadline_ns = opts->deadline_ns;
	request->callback = opts->callback;
	request->user = opts->user;
	return TCPX_OK;
}

tcpx_status engine_request_prepare(struct engine_session *session, uint64_t peer_id,
				   enum tcpx_op op, const tcpx_segment *segments, size_t count,
				   const tcpx_request_opts *opts, tcpx_request *out_request)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
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
	request->xfer.op = op;
	list_init(&request->done);
	status = take_options(request, op, opts);
	if (status == TCPX_OK)
		status = program_build(request, op, segments, count);
	if (status != TCPX_OK) {
		free(request->notify);
		handle_give(&session->requests, request);
		peer_put(peer);
		return status;
	}
	request->xfer.prog = &request->prog;
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

/* peer.lock held, from the core: the memory is the caller's again. */
void request_ended(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct core_xfer *xfer = &request->xfer;
	struct engine_peer *peer = request->peer;
	bool zombie = request->zombie;

	io_put(request);
	request->completion = (tcpx_completion){.status = xfer->status,
						.bytes = xfer->applied,
						.message_bytes = xfer->message_bytes,
						.request = {request->slot.id},
						.user = request->user};
	atomic_fetch_sub(&session->active, 1);
	atomic_fetch_add(xfer->status == TCPX_OK ? &session->done_count : &session->failed, 1);
	if (request->callback && !zombie) {
		pthread_mutex_lock(&session->queue_lock);
		request->in_done = true;
		list_push_back(&session->done, &request->done);
		session_signal(session);
		pthread_mutex_unlock(&session->queue_lock);
	}
	/* Sequentially consistent, as the waiters' side is: who counts himself in and still sees it
	 * active is seen here. */
	atomic_store(&request->state, REQUEST_FINAL);
	if (request->lead)
		lead_wake(request->lead);
	if (atomic_load(&request->waiters))
		sys_futex_wake(&request->state, INT_MAX);
	if (atomic_load(&session->any_waiters)) {
		atomic_fetch_add(&session->done_word, 1);
		sys_futex_wake(&session->done_word, INT_MAX);
	}
	peer_progress(peer);
	if (zombie) { /* released while active: nobody looks any more */
		list_push_back(&peer->buried, &request->done);
		peer_wake_control(peer);
	}
}

/* No lock held; the request is not active. */
void request_free(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct engine_peer *peer = request->peer;

	program_free(request);
	free(request->notify);
	request->notify = NULL;
	handle_give(&session->requests, request);
	peer_put(peer);
}

static tcpx_status post_error(struct engine_request *request, tcpx_status status)
{
	struct engine_peer *peer = request->peer;

	switch (status) {
	case TCPX_ERR_STATE:
		return error_set(status, 0, "request is active");
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

tcpx_status engine_request_post(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = find(session, id);
	struct engine_peer *peer;
	uint64_t bytes;
	tcpx_status status;

	if (!request)
		return stale();
	peer = request->peer;
	pthread_mutex_lock(&peer->lock);
	if (request->slot.id != id)
		status = TCPX_ERR_STALE;
	else if (atomic_load(&request->state) == REQUEST_ACTIVE)
		status = TCPX_ERR_STATE;
	else if (!peer->core_ready)
		status = peer->core_done ? peer->error.status : TCPX_ERR_STATE;
	else
		status = io_get(request);
	if (status == TCPX_OK) {
		pthread_mutex_lock(&session->queue_lock);
		if (request->in_done)
			list_remove(&request->done);
		request->in_done = false;
		pthread_mutex_unlock(&session->queue_lock);
		request->xfer.deadline_ns =
			request->deadline_ns ? clock_after(request->deadline_ns) : 0;
		atomic_store(&request->state, REQUEST_ACTIVE);
		atomic_fetch_add(&session->active, 1);
		request->post_seq = ++peer->post_seq;
		status = core_xfer_post(&peer->core, &request->xfer);
		if (status != TCPX_OK) {
			atomic_fetch_sub(&session->active, 1);
			atomic_store(&request->state, REQUEST_IDLE);
			io_put(request);
			status = post_error(request, status);
		}
	} else if (status == TCPX_ERR_STATE && !peer->core_ready) {
		status = error_set(status, 0, "peer is not connected yet");
	} else if (status != TCPX_ERR_DEREGISTERED) {
		status = post_error(request, status);
	}
	bytes = request->prog.total;
	pthread_mutex_unlock(&peer->lock);
	if (status != TCPX_OK)
		return status;
	atomic_fetch_add(&session->posted, 1);
	if (request->deadline_ns)
		session_timer_kick(session);
	peer_kick_posted(peer, bytes <= session->inline_bytes &&
				       !(session->flags & TCPX_SESSION_NO_INLINE));
	return TCPX_OK;
}

static tcpx_status look(struct engine_request *request, uint64_t id, tcpx_completion *out)
{
	uint32_t state = atomic_load_explicit(&request->state, memory_order_acquire);

	if (atomic_load(&request->slot.id) != id)
		return stale();
	if (state == REQUEST_ACTIVE)
		return TCPX_IN_PROGRESS;
	if (state == REQUEST_IDLE)
		return error_set(TCPX_ERR_STATE, 0, "request was never posted");
	if (out)
		*out = request->completion;
	return request->completion.status;
}

tcpx_status engine_request_test(struct engine_session *session, uint64_t id,
				tcpx_completion *out_completion)
{
	struct engine_request *request = find(session, id);

	return request ? look(request, id, out_completion) : stale();
}

static bool ended(void *arg)
{
	struct engine_request *request = arg;

	return atomic_load(&request->state) != REQUEST_ACTIVE;
}

tcpx_status engine_request_wait(struct engine_session *session, uint64_t id, int64_t timeout_ns,
				tcpx_completion *out_completion)
{
	struct engine_request *request = find(session, id);
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);
	bool small;
	tcpx_status status;

	if (!request)
		return stale();
	small = request->prog.total <= CORE_SMALL_BYTES;
	for (;;) {
		int rc = 0;

		status = look(request, id, out_completion);
		if (status != TCPX_IN_PROGRESS || !timeout_ns)
			return status;
		if (small && lead_wait(session, request->peer, &request->lead, &request->peer->lock,
				       ended, request, deadline)) {
			if (ended(request) || deadline < 0 || clock_now_ns() < deadline)
				continue;
			return TCPX_IN_PROGRESS;
		}
		atomic_fetch_add(&request->waiters, 1);
		if (!ended(request))
			rc = sys_futex_wait(&request->state, REQUEST_ACTIVE, deadline);
		atomic_fetch_sub(&request->waiters, 1);
		if (rc < 0 && !ended(request))
			return TCPX_IN_PROGRESS;
	}
}

tcpx_status engine_request_wait_any(struct engine_session *session, const tcpx_request *requests,
				    size_t count, int64_t timeout_ns, size_t *out_index)
{
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);
	tcpx_status result = TCPX_IN_PROGRESS;

	atomic_fetch_add(&session->any_waiters, 1);
	while (result == TCPX_IN_PROGRESS) {
		uint32_t word = atomic_load(&session->done_word);
		size_t i, active = 0;

		for (i = 0; i < count; i++) {
			struct engine_request *request = find(session, requests[i].id);
			uint32_t state;

			if (!request) {
				result = stale();
				break;
			}
			state = atomic_load(&request->state);
			active += state == REQUEST_ACTIVE;
			if (state != REQUEST_FINAL)
				continue;
			*out_index = i;
			result = TCPX_OK;
			break;
		}
		if (result != TCPX_IN_PROGRESS)
			break;
		if (!active)
			result = error_set(TCPX_ERR_STATE, 0, "none of the requests is active");
		else if (sys_futex_wait(&session->done_word, word, deadline) < 0)
			break;
	}
	atomic_fetch_sub(&session->any_waiters, 1);
	return result;
}

tcpx_status engine_request_cancel(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = find(session, id);
	struct engine_peer *peer;
	tcpx_status status = TCPX_OK;

	if (!request)
		return stale();
	peer = request->peer;
	pthread_mutex_lock(&peer->lock);
	if (request->slot.id != id)
		status = stale();
	else if (atomic_load(&request->state) == REQUEST_ACTIVE)
		core_xfer_cancel(&peer->core, &request->xfer, TCPX_ERR_CANCELLED);
	else
		status = error_set(TCPX_ERR_STATE, 0, "request is not active");
	pthread_mutex_unlock(&peer->lock);
	peer_kick(peer, true);
	return status;
}

tcpx_status engine_request_release(struct engine_session *session, uint64_t id)
{
	struct engine_request *request = find(session, id);
	struct engine_peer *peer;
	bool active;

	if (!request)
		return stale();
	peer = request->peer;
	pthread_mutex_lock(&peer->lock);
	if (request->slot.id != id) {
		pthread_mutex_unlock(&peer->lock);
		return stale();
	}
	handle_hide(request);
	active = atomic_load(&request->state) == REQUEST_ACTIVE;
	pthread_mutex_lock(&session->queue_lock);
	if (request->in_done)
		list_remove(&request->done);
	request->in_done = false;
	pthread_mutex_unlock(&session->queue_lock);
	if (active) {
		request->zombie = true;
		core_xfer_cancel(&peer->core, &request->xfer, TCPX_ERR_CANCELLED);
	}
	pthread_mutex_unlock(&peer->lock);
	if (active)
		peer_kick(peer, true);
	else
		request_free(request);
	return TCPX_OK;
}

tcpx_status engine_request_error(struct engine_session *session, uint64_t id, tcpx_error *out_error)
{
	struct engine_request *request = find(session, id);
	struct engine_peer *peer;
	tcpx_completion completion = {.status = TCPX_IN_PROGRESS};
	tcpx_status status;

	if (!request)
		return stale();
	status = look(request, id, &completion);
	if (status == TCPX_IN_PROGRESS || status == TCPX_ERR_STATE || status == TCPX_ERR_STALE)
		return status;
	peer = request->peer;
	pthread_mutex_lock(&peer->lock);
	if (completion.status <= TCPX_ERR_PEER_CLOSED && peer->error.status == completion.status)
		*out_error = peer->error;
	else
		error_fill(out_error, completion.status, 0, "%s of %llu bytes with peer '%s'",
			   (const char *[]){"", "WRITE", "READ", "SEND", "RECV",
					    "notification"}[request->xfer.op],
			   (unsigned long long)request->prog.total, peer->name);
	out_error->bytes_done = completion.bytes;
	out_error->bytes_total = request->prog.total;
	pthread_mutex_unlock(&peer->lock);
	return TCPX_OK;
}

tcpx_status engine_notify_send(struct engine_session *session, uint64_t peer_id, const void *data,
			       size_t bytes)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
	tcpx_status status;

	if (!peer)
		return TCPX_ERR_STALE;
	pthread_mutex_lock(&peer->lock);
	if (peer->core_ready)
		status = core_note_send(&peer->core, data, bytes);
	else
		status = peer->core_done ? peer->error.status : TCPX_ERR_STATE;
	if (status == TCPX_ERR_STATE)
		error_set(status, 0, "peer is not connected yet");
	else if (status == TCPX_ERR_NO_MEMORY)
		status = session_memory_error(session);
	else if (status <= TCPX_ERR_PEER_CLOSED)
		error_raise(&peer->error);
	else if (status != TCPX_OK)
		error_set(status, 0, "notification of %zu bytes to peer '%s'", bytes, peer->name);
	pthread_mutex_unlock(&peer->lock);
	if (status == TCPX_OK) {
		atomic_fetch_add(&session->notes_out, 1);
		peer_kick_posted(peer, bytes <= session->inline_bytes &&
					       !(session->flags & TCPX_SESSION_NO_INLINE));
	}
	peer_put(peer);
	return status;
}
