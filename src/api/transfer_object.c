/* SPDX-License-Identifier: Apache-2.0 */
/* The transfer object: many posts to one peer, one wait, one release. Except for the check of the
 * peer, it uses public calls only. */
#include <stdlib.h>

#include "api/checks.h"
#include "base/clock.h"

struct tcpx_transfer {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_request *requests; /* the first `done` requests have ended */
	size_t count, cap, done;
	tcpx_status failed; /* status of the first request seen to fail, or TCPX_OK */
};

tcpx_status tcpx_transfer_create(tcpx_session *session, tcpx_peer peer,
				 tcpx_transfer **out_transfer)
{
	struct engine_peer *known;
	tcpx_transfer *transfer;

	API_ENTER(session);
	API_NOT_NULL(out_transfer);
	known = engine_peer_get(api_session(session), peer.id);
	if (!known)
		return TCPX_ERR_STALE;
	peer_put(known);
	transfer = calloc(1, sizeof(*transfer));
	if (!transfer)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a transfer object");
	transfer->session = session;
	transfer->peer = peer;
	*out_transfer = transfer;
	return TCPX_OK;
}

tcpx_status tcpx_transfer_post(tcpx_transfer *transfer, enum tcpx_op op,
			       const tcpx_segment *segment)
{
	tcpx_status status;

	API_NOT_NULL(transfer);
	API_NOT_NULL(segment);
	if (transfer->count == transfer->cap) {
		size_t cap = transfer->cap ? transfer->cap * 2 : 64;
		tcpx_request *more = realloc(transfer->requests, cap * sizeof(*more));

		if (!more)
			return error_set(TCPX_ERR_NO_MEMORY, 0,
					 "no memory for a transfer object of %zu posts",
					 transfer->count);
		transfer->requests = more;
		transfer->cap = cap;
	}
	status = tcpx_request_start(transfer->session, transfer->peer, op, segment, 1, NULL,
				    &transfer->requests[transfer->count]);
	if (status == TCPX_OK)
		transfer->count++;
	return status;
}

/* Tests the requests and moves those that have ended to the front, in any order. */
static void transfer_collect(tcpx_transfer *transfer)
{
	for (size_t i = transfer->done; i < transfer->count; i++) {
		tcpx_request request = transfer->requests[i];
		tcpx_status status = tcpx_request_test(transfer->session, request, NULL);

		if (status == TCPX_IN_PROGRESS)
			continue;
		if (status < 0 && transfer->failed == TCPX_OK)
			transfer->failed = status;
		transfer->requests[i] = transfer->requests[transfer->done];
		transfer->requests[transfer->done++] = request;
	}
}

bool tcpx_transfer_is_complete(tcpx_transfer *transfer)
{
	if (!transfer)
		return false;
	transfer_collect(transfer);
	return transfer->done == transfer->count;
}

uint64_t tcpx_transfer_completed(tcpx_transfer *transfer)
{
	if (!transfer)
		return 0;
	transfer_collect(transfer);
	return transfer->done;
}

uint64_t tcpx_transfer_total(const tcpx_transfer *transfer)
{
	return transfer ? transfer->count : 0;
}

tcpx_status tcpx_transfer_wait(tcpx_transfer *transfer, int64_t timeout_ns)
{
	int64_t deadline;

	API_NOT_NULL(transfer);
	deadline = timeout_ns < 0 ? 0 : clock_after(timeout_ns);
	for (;;) {
		int64_t left = timeout_ns < 0 ? TCPX_WAIT_FOREVER : deadline - clock_now_ns();

		transfer_collect(transfer);
		if (transfer->done == transfer->count)
			return transfer->failed;
		if (timeout_ns >= 0 && left <= 0)
			return TCPX_IN_PROGRESS;
		if (tcpx_request_wait(transfer->session, transfer->requests[transfer->done], left,
				      NULL) == TCPX_IN_PROGRESS)
			return TCPX_IN_PROGRESS;
	}
}

void tcpx_transfer_release(tcpx_transfer *transfer)
{
	if (!transfer)
		return;
	for (size_t i = 0; i < transfer->count; i++)
		tcpx_request_release(transfer->session, transfer->requests[i]);
	free(transfer->requests);
	free(transfer);
}
