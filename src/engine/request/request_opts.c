/* SPDX-License-Identifier: Apache-2.0 */
/* Options of a request: notification, deadline, priority, completion queue. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/request/reconnect.h"
#include "engine/request/request_calls.h"

static tcpx_status request_copy_notify(enum tcpx_op op, const void *data, size_t bytes, int has,
				       void **out_copy)
{
	*out_copy = NULL;
	if (bytes > TCPX_NOTIFY_MAX)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "notification has %zu bytes, at most %u are allowed", bytes,
				 TCPX_NOTIFY_MAX);
	if (bytes && !data)
		return error_set(TCPX_ERR_INVALID, 0, "notify is NULL with notify_bytes %zu",
				 bytes);
	if ((has || bytes) && (op == TCPX_OP_SEND || op == TCPX_OP_RECV))
		return error_set(TCPX_ERR_INVALID, 0, "only WRITE and READ carry a notification");
	if (!bytes)
		return TCPX_OK;
	*out_copy = malloc(bytes);
	if (!*out_copy)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a notification of %zu bytes",
				 bytes);
	memcpy(*out_copy, data, bytes);
	return TCPX_OK;
}

/* Sets the notification of a request. Returns the previous one, which the caller frees. */
static void *request_set_notify(struct engine_request *request, void *copy, size_t bytes, int has)
{
	struct core_xfer *xfer = &request->xfer;
	void *before = request->notify;

	request->notify = copy;
	xfer->notify = copy;
	xfer->notify_bytes = (uint32_t)bytes;
	xfer->has_notify = xfer->op != TCPX_OP_NOTIFY && (has || bytes);
	return before;
}

tcpx_status request_take_options(struct engine_request *request, const tcpx_request_opts *opts)
{
	struct core_xfer *xfer = &request->xfer;
	tcpx_status status;
	void *copy;

	xfer->strict = request->session->flags & TCPX_SESSION_STRICT_CANCEL;
	if (!opts)
		return TCPX_OK;
	if (opts->deadline_ns < 0)
		return error_set(TCPX_ERR_INVALID, 0, "deadline_ns = %lld is negative",
				 (long long)opts->deadline_ns);
	if (opts->queue > 1)
		return error_set(TCPX_ERR_INVALID, 0, "queue = %u is neither 0 nor 1", opts->queue);
	status = request_copy_notify(xfer->op, opts->notify, opts->notify_bytes, opts->has_notify,
				     &copy);
	if (status != TCPX_OK)
		return status;
	request_set_notify(request, copy, opts->notify_bytes, opts->has_notify);
	xfer->priority = opts->priority;
	request->deadline_ns = opts->deadline_ns;
	request->wants_queue = opts->queue != 0;
	request->user = opts->user;
	return TCPX_OK;
}

tcpx_status engine_request_notify(struct engine_session *session, uint64_t id, const void *data,
				  size_t bytes, int has)
{
	struct engine_request *request = request_get(session, id);
	struct engine_peer *peer;
	tcpx_status status;
	void *spare;

	if (!request)
		return TCPX_ERR_STALE;
	status = request_copy_notify(request->xfer.op, data, bytes, has, &spare);
	peer = request_lock(request);
	if (request->slot.id != id)
		status = request_stale();
	else if (status == TCPX_OK && atomic_load(&request->state) == REQUEST_ACTIVE)
		status = request_still_active();
	if (status == TCPX_OK)
		spare = request_set_notify(request, spare, bytes, has);
	request_unlock(peer);
	free(spare);
	request_put(request);
	return status;
}
