/* SPDX-License-Identifier: Apache-2.0 */
/* Public calls of include/tcpx/transfer.h, without the transfer object. */
#include "api/checks.h"

static tcpx_status request_check_segments(enum tcpx_op op, const tcpx_segment *segments,
					  size_t count)
{
	if (op < TCPX_OP_WRITE || op > TCPX_OP_NOTIFY)
		return error_set(TCPX_ERR_INVALID, 0, "there is no operation %d", (int)op);
	if (count > TCPX_SEGMENTS_MAX)
		return error_set(TCPX_ERR_LIMIT, 0,
				 "a list of %zu segments, at most %u are allowed", count,
				 TCPX_SEGMENTS_MAX);
	if (count && !segments)
		return api_null("segments");
	if (op == TCPX_OP_NOTIFY && count)
		return error_set(TCPX_ERR_INVALID, 0, "a NOTIFY takes no segments, %zu are given",
				 count);
	if (!count && (op == TCPX_OP_WRITE || op == TCPX_OP_READ))
		return error_set(TCPX_ERR_INVALID, 0, "WRITE and READ need at least one segment");
	return TCPX_OK;
}

tcpx_status tcpx_request_prepare(tcpx_session *session, tcpx_peer peer, enum tcpx_op op,
				 const tcpx_segment *segments, size_t count,
				 const tcpx_request_opts *opts, tcpx_request *out_request)
{
	tcpx_request_opts copy;
	tcpx_status status;

	API_ENTER(session);
	API_NOT_NULL(out_request);
	status = request_check_segments(op, segments, count);
	if (status == TCPX_OK)
		status = api_opts("tcpx_request_opts", opts, sizeof(size_t), &copy, sizeof(copy));
	if (status != TCPX_OK)
		return status;
	return engine_request_prepare(api_session(session), peer.id, op, segments, count,
				      opts ? &copy : NULL, out_request);
}

tcpx_status tcpx_request_notify(tcpx_session *session, tcpx_request request, const void *data,
				size_t bytes, bool has)
{
	API_ENTER(session);
	return engine_request_notify(api_session(session), request.id, data, bytes, has);
}

tcpx_status tcpx_request_post(tcpx_session *session, tcpx_request request)
{
	API_ENTER(session);
	return engine_request_post(api_session(session), request.id);
}

tcpx_status tcpx_request_post_many(tcpx_session *session, const tcpx_request *requests,
				   uint32_t count, tcpx_status *statuses)
{
	tcpx_status status;

	if (!count)
		return engine_session_check(api_session(session));
	API_NOT_NULL(requests);
	API_NOT_NULL(statuses);
	status = engine_session_check(api_session(session));
	if (status == TCPX_OK)
		return engine_request_post_many(api_session(session), requests, count, statuses);
	for (uint32_t i = 0; i < count; i++)
		statuses[i] = status;
	return status;
}

tcpx_status tcpx_request_start(tcpx_session *session, tcpx_peer peer, enum tcpx_op op,
			       const tcpx_segment *segments, size_t count,
			       const tcpx_request_opts *opts, tcpx_request *out_request)
{
	tcpx_request request;
	tcpx_status status;

	API_NOT_NULL(out_request);
	status = tcpx_request_prepare(session, peer, op, segments, count, opts, &request);
	if (status != TCPX_OK)
		return status;
	status = tcpx_request_post(session, request);
	if (status != TCPX_OK) {
		tcpx_error error = *tcpx_last_error();

		engine_request_release(api_session(session), request.id);
		return error_raise(&error);
	}
	*out_request = request;
	return TCPX_OK;
}

tcpx_status tcpx_request_test(tcpx_session *session, tcpx_request request,
			      tcpx_completion *out_completion)
{
	/* sz stays 0 unless the engine writes a completion */
	tcpx_completion end = {.sz = 0};
	tcpx_status status;

	API_ENTER(session);
	if (!out_completion)
		return engine_request_test(api_session(session), request.id, NULL);
	API_OUT(tcpx_completion, out_completion, elapsed_ns);
	status = engine_request_test(api_session(session), request.id, &end);
	if (end.sz)
		api_out_write(out_completion, &end, sizeof(end));
	return status;
}

tcpx_status tcpx_request_wait(tcpx_session *session, tcpx_request request, int64_t timeout_ns,
			      tcpx_completion *out_completion)
{
	/* sz stays 0 unless the engine writes a completion */
	tcpx_completion end = {.sz = 0};
	tcpx_status status;

	API_ENTER(session);
	if (!out_completion)
		return engine_request_wait(api_session(session), request.id, timeout_ns, NULL);
	API_OUT(tcpx_completion, out_completion, elapsed_ns);
	status = engine_request_wait(api_session(session), request.id, timeout_ns, &end);
	if (end.sz)
		api_out_write(out_completion, &end, sizeof(end));
	return status;
}

tcpx_status tcpx_request_cancel(tcpx_session *session, tcpx_request request)
{
	API_ENTER(session);
	return engine_request_cancel(api_session(session), request.id);
}

tcpx_status tcpx_request_cancel_wait(tcpx_session *session, tcpx_request request,
				     int64_t timeout_ns)
{
	tcpx_status status;

	API_ENTER(session);
	status = engine_request_cancel(api_session(session), request.id);
	/* After ERR_STATE the request has ended or was never posted; the wait below says which. */
	if (status != TCPX_OK && status != TCPX_ERR_STATE)
		return status;
	return engine_request_wait(api_session(session), request.id, timeout_ns, NULL);
}

tcpx_status tcpx_request_release(tcpx_session *session, tcpx_request request)
{
	API_ENTER(session);
	return engine_request_release(api_session(session), request.id);
}

tcpx_status tcpx_request_error(tcpx_session *session, tcpx_request request, tcpx_error *out_error)
{
	tcpx_error error;
	tcpx_status status;

	API_ENTER(session);
	API_OUT(tcpx_error, out_error, next);
	status = engine_request_error(api_session(session), request.id, &error);
	if (status == TCPX_OK)
		api_out_write(out_error, &error, sizeof(error));
	return status;
}
