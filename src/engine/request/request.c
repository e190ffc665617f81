/* SPDX-License-Identifier: Apache-2.0 */
/* Prepares, cancels and releases requests. */
#include <limits.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/request/reconnect.h"
#include "engine/request/request_calls.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "engine/channel/lead.h"
#include "engine/path/solo.h"
#include "engine/link/segments.h"
#include "engine/request/ready.h"
#include "engine/path/paths.h"
#include "sys/futex.h"

tcpx_status engine_request_prepare(struct engine_session *session, uint64_t peer_id,
				   enum tcpx_op op, const tcpx_segment *segments, size_t count,
				   const tcpx_request_opts *opts, tcpx_request *out_request)
{
	struct engine_peer *peer = reconnect_use(session, peer_id, true);
	struct engine_request *request;
	tcpx_status status;

	if (!peer)
		return TCPX_ERR_STALE;
	request = handle_take(&session->requests);
	if (!request) {
		peer_put(peer);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a request");
	}
	request->session = session;
	request->peer = peer;
	request->peer_id = peer_id;
	request->xfer.op = op;
	list_init(&request->done);
	status = request_take_options(request, opts);
	if (status == TCPX_OK)
		status = segments_build(request, op, segments, count);
	if (status != TCPX_OK) {
		request_put(request);
		return status;
	}
	request->xfer.segs = &request->segs;
	path_prepared(request);
	handle_publish(&session->requests, request);
	out_request->id = request->slot.id;
	return TCPX_OK;
}

/* Cancels an active request. It ends at once if it waits for the link (`pending`) or for a goodbye,
 * else as soon as its memory is no longer used. The caller holds link.lock. */
static void request_stop(struct engine_request *request)
{
	if (request->pending)
		pending_end(request, TCPX_ERR_CANCELLED);
	else if (request->awaits_goodbye)
		goodbye_wait_end(request);
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
		request_stop(request);
	else
		status = error_set(TCPX_ERR_STATE, 0,
				   "request is not active: it was never posted, or it has ended");
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
		request->detached = true;
		request_stop(request);
	}
	link_unlock(&peer->link);
	if (!active) {
		completion_discard(request);
		/* drops the handle's reference; that of an active request is dropped at its end */
		request_put(request);
	}
	peer_put(peer);
	request_put(request);
	return TCPX_OK;
}
