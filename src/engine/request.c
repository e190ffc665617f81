/* SPDX-License-Identifier: Apache-2.0 */
/* Requests: prepared, posted, ended, released. */
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/again.h"
#include "engine/calls.h"
#include "engine/doubt.h"
#include "engine/early.h"
#include "engine/lead.h"
#include "engine/link/hooks.h"
#include "engine/lone.h"
#include "engine/program.h"
#include "engine/ready.h"
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

void request_set_state(struct engine_request *request, uint32_t state)
{
	/* Sequentially consistent, as the waiters' side is: who counts himself in and still sees it
	 * active is seen here. */
	atomic_store(&request->state, state);
	if (request->lead)
		lead_wake(request->lead);
	if (atomic_load(&request->waiters))
		sys_futex_wake(&request->state, INT_MAX);
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
	request_io_put(request);
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
		(tcpx_completion){.sz = sizeof(tcpx_completion),
				  .status = xfer->status,
				  .bytes = xfer->applied,
				  .message_bytes = xfer->message_bytes,
				  .request = {request->slot.id},
				  .user = request->user,
				  .elapsed_ns = (uint64_t)(clock_now_ns() - request->posted_ns)};
	measure(request);
	atomic_fetch_sub(&session->active, 1);
	atomic_fetch_add(xfer->status == TCPX_OK ? &session->done_count : &session->failed, 1);
	request_set_state(request, REQUEST_FINAL);
	if (request->wants_queue && !zombie) /* final before it can be taken */
		completion_enter(request);
	peer_progress(peer);
	if (zombie) { /* released while active: nobody looks any more */
		list_push_back(&peer->link.wake.buried, &request->done);
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

/* peer.lock held, the request is active: it ends as soon as its memory is quiet. */
static void stop(struct engine_request *request)
{
	if (request->early)
		early_end(request, TCPX_ERR_CANCELLED);
	else if (request->doubted)
		doubt_end(request);
	else
		core_xfer_cancel(&request->peer->link.core, &request->xfer, TCPX_ERR_CANCELLED);
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
	link_unlock(&peer->link);
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
	if (active) {
		request->zombie = true;
		stop(request);
	}
	link_unlock(&peer->link);
	if (!active) {
		completion_discard(request);
		request_put(request); /* the handle's; that of an active one goes with its end */
	}
	peer_put(peer);
	request_put(request);
	return TCPX_OK;
}
