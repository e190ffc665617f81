/* SPDX-License-Identifier: Apache-2.0 */
/* How a request is found, given to the core, ended and freed. */
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/request/request_calls.h"
#include "engine/channel/lead.h"
#include "engine/path/direct.h"
#include "engine/path/solo.h"
#include "engine/path/paths.h"
#include "engine/link/segments.h"
#include "engine/request/ready.h"
#include "sys/futex.h"

/* smallest transfer whose speed is measured, in bytes */
#define MEASURED_BYTES 65536

tcpx_status request_stale(void)
{
	return error_set(TCPX_ERR_STALE, 0, "request handle is no longer valid");
}

tcpx_status request_still_active(void)
{
	error_set(TCPX_ERR_STATE, 0, "request is active");
	return error_next("wait for its end, or cancel it and wait");
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

void request_set_state(struct engine_request *request, uint32_t state)
{
	/* Sequentially consistent, like the accesses of a waiter. If a waiter counts itself in
	 * `waiters` and then still sees the request active, this thread sees the count. */
	atomic_store(&request->state, state);
	if (request->lead)
		lead_wake(request->lead);
	if (atomic_load(&request->waiters))
		sys_futex_wake(&request->state, INT_MAX);
}

void request_io_put(struct engine_request *request)
{
	if (!request->regions.held)
		return;
	request->regions.held = false;
	for (uint32_t i = 0; i < request->regions.count; i++)
		mem_region_io_put(request->regions.at[i]);
}

tcpx_status request_hand_over(struct engine_request *request)
{
	tcpx_status status;

	path_choose(request);
	solo_choose(request);
	status = core_xfer_post(&request->peer->link.core, &request->xfer);
	if (status != TCPX_OK)
		solo_over(request);
	direct_posted(request, status);
	return status;
}

/* Adds the speed of a READ or WRITE that succeeded to the peer's mean. Leaves out small transfers,
 * whose time is mostly that of the round trip. The caller holds link.lock. */
static void request_measure(struct engine_request *request)
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
	solo_over(request);
}

/* Called under link.lock when the request's memory belongs to the application again: makes the
 * completion, then sets the final state, then queues the completion if the application wants
 * that. */
void request_ended(struct engine_request *request)
{
	struct engine_session *session = request->session;
	struct core_xfer *xfer = &request->xfer;
	struct engine_peer *peer = request->peer;
	bool detached = request->detached;

	request_quiet(request);
	request->completion =
		(tcpx_completion){.sz = sizeof(tcpx_completion),
				  .status = xfer->status,
				  .bytes = xfer->applied,
				  .message_bytes = xfer->recv.message_bytes,
				  .request = {request->slot.id},
				  .user = request->user,
				  .elapsed_ns = (uint64_t)(clock_now_ns() - request->posted_ns)};
	request_measure(request);
	atomic_fetch_sub(&session->counters.active, 1);
	atomic_fetch_add(
		xfer->status == TCPX_OK ? &session->counters.done : &session->counters.failed, 1);
	request_set_state(request, REQUEST_FINAL);
	/* queued after the final state is set, so that the request has ended when its completion is
	 * taken */
	if (request->wants_queue && !detached)
		completion_enter(request);
	link_progress(&peer->link);
	if (detached) { /* released while it was active: the control thread frees it */
		list_push_back(&peer->link.wake.buried, &request->done);
		link_wake(&peer->link);
	}
}

/* Called when the last reference was dropped, with no lock held. The request is not active. */
void request_free(void *object)
{
	struct engine_request *request = object;
	struct engine_session *session = request->session;
	struct engine_peer *peer = request->peer;

	direct_plan_free(request);
	segments_free(request);
	free(request->notify);
	request->notify = NULL;
	handle_give(&session->requests, request);
	peer_put(peer);
}

struct engine_peer *request_peer(struct engine_request *request)
{
	for (;;) {
		struct engine_peer *peer = atomic_load(&request->peer);
		uint32_t refs = atomic_load(&peer->link.slot.refs);

		/* Before the reference is taken, the request may move to another peer and this peer
		 * may be freed. The peer's memory then still exists, with a reference count of
		 * 0. */
		while (refs &&
		       !atomic_compare_exchange_weak(&peer->link.slot.refs, &refs, refs + 1))
			;
		if (!refs)
			continue;
		if (atomic_load(&request->peer) == peer)
			return peer;
		peer_put(peer);
	}
}

struct engine_peer *request_lock(struct engine_request *request)
{
	for (;;) {
		struct engine_peer *peer = request_peer(request);

		link_lock(&peer->link);
		if (atomic_load(&request->peer) == peer)
			return peer;
		request_unlock(peer);
	}
}

void request_unlock(struct engine_peer *peer)
{
	link_unlock(&peer->link);
	peer_put(peer);
}
