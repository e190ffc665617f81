/* SPDX-License-Identifier: Apache-2.0 */
/* Tests a request, waits for its end, and tells why it failed. */
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/request/reconnect.h"
#include "engine/request/request_calls.h"
#include "engine/channel/comms.h"
#include "engine/channel/lead.h"
#include "engine/channel/app_poll.h"
#include "engine/link/vanish.h"
#include "sys/futex.h"

/* Returns IN_PROGRESS while the request is active. After its end, returns the status of its
 * completion and stores the completion in *out (unless `out` is NULL). Returns ERR_STATE if the
 * request was never posted, and ERR_STALE if `id` is stale. */
static tcpx_status request_look(struct engine_request *request, uint64_t id, tcpx_completion *out)
{
	uint32_t state = atomic_load_explicit(&request->state, memory_order_acquire);
	tcpx_completion completion;
	struct engine_peer *peer;

	if (atomic_load(&request->slot.id) != id)
		return request_stale();
	if (state == REQUEST_ACTIVE)
		return TCPX_IN_PROGRESS;
	if (state == REQUEST_IDLE) {
		error_set(TCPX_ERR_STATE, 0, "request was never posted");
		return error_next("post it with tcpx_request_post() first");
	}
	/* locked, because another thread may post the request again */
	peer = request_lock(request);
	completion = request->completion;
	request_unlock(peer);
	if (out)
		*out = completion;
	return completion.status;
}

/* Sets the thread's last error to that of a request that ended with `status`, as if the call that
 * returns the status had failed itself. Returns the status. */
static tcpx_status request_raise(struct engine_session *session, uint64_t id, tcpx_status status)
{
	tcpx_error error;

	if (status < TCPX_OK && status != TCPX_ERR_STATE && status != TCPX_ERR_STALE &&
	    engine_request_error(session, id, &error) == TCPX_OK && error.status == status)
		error_raise(&error);
	return status;
}

tcpx_status engine_request_test(struct engine_session *session, uint64_t id,
				tcpx_completion *out_completion)
{
	struct engine_request *request = request_get(session, id);
	tcpx_status status;

	if (!request)
		return TCPX_ERR_STALE;
	status = request_look(request, id, out_completion);
	if (status == TCPX_IN_PROGRESS) {
		struct engine_peer *peer = request_peer(request);

		if (app_poll_missed(session, peer, atomic_load(&request->leads)))
			status = request_look(request, id, out_completion);
		peer_put(peer);
	}
	if (status != TCPX_IN_PROGRESS)
		app_poll_found(session);
	request_put(request);
	return request_raise(session, id, status);
}

static bool request_has_ended(void *arg)
{
	struct engine_request *request = arg;

	return atomic_load(&request->state) != REQUEST_ACTIVE;
}

/* Waits for the request's end while this thread receives on the peer's priority channel. Returns
 * false if this thread cannot receive there (lead_wait()); the caller must then wait in another
 * way. */
static bool request_lead(struct engine_request *request, int64_t deadline)
{
	struct engine_peer *peer = request_peer(request);
	bool led = lead_wait(request->session, peer, &request->lead, &peer->link.lock,
			     request_has_ended, request, deadline);

	peer_put(peer);
	return led;
}

/* Waits until the request has ended. Returns what request_look() returns then, or IN_PROGRESS at
 * the timeout. If the request's end arrives on the priority channel (`leads`), this thread receives
 * on that channel; otherwise it sleeps until the state of the request changes. */
static tcpx_status request_await(struct engine_request *request, uint64_t id, int64_t timeout_ns,
				 tcpx_completion *out_completion)
{
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);
	tcpx_status status;

	for (;;) {
		int rc = 0;

		status = request_look(request, id, out_completion);
		if (status != TCPX_IN_PROGRESS || !timeout_ns)
			return status;
		if (atomic_load(&request->leads) && request_lead(request, deadline)) {
			if (request_has_ended(request) || deadline < 0 || clock_now_ns() < deadline)
				continue;
			return TCPX_IN_PROGRESS;
		}
		app_poll_ends(request->session);
		atomic_fetch_add(&request->waiters, 1);
		if (!request_has_ended(request))
			rc = sys_futex_wait(&request->state, REQUEST_ACTIVE, deadline);
		atomic_fetch_sub(&request->waiters, 1);
		if (rc < 0 && !request_has_ended(request))
			return TCPX_IN_PROGRESS;
	}
}

tcpx_status engine_request_wait(struct engine_session *session, uint64_t id, int64_t timeout_ns,
				tcpx_completion *out_completion)
{
	struct engine_request *request = request_get(session, id);
	tcpx_status status;

	if (!request)
		return TCPX_ERR_STALE;
	status = request_await(request, id, timeout_ns, out_completion);
	request_put(request);
	return request_raise(session, id, status);
}

tcpx_status engine_request_error(struct engine_session *session, uint64_t id, tcpx_error *out_error)
{
	struct engine_request *request = request_get(session, id);
	tcpx_completion completion = {.status = TCPX_IN_PROGRESS};
	struct engine_peer *peer;
	const char *lost = "";
	tcpx_status status;
	char gone[96];

	if (!request)
		return TCPX_ERR_STALE;
	status = request_look(request, id, &completion);
	if (status == TCPX_IN_PROGRESS || status == TCPX_ERR_STATE || status == TCPX_ERR_STALE)
		goto out;
	status = TCPX_OK;
	peer = request_lock(request);
	if (completion.status == TCPX_ERR_CHANNEL_LOST && peer->comms)
		lost = peer->comms->lost; /* why a plugin channel of the peer was lost last */
	vanish_words(request, gone, sizeof(gone));
	if (completion.status <= TCPX_ERR_PEER_CLOSED && peer->error.status == completion.status)
		*out_error = peer->error;
	else
		error_fill(out_error, completion.status, 0,
			   "%s of %llu bytes%s with peer '%s': %s%s%s",
			   (const char *[]){"", "WRITE", "READ", "SEND", "RECV",
					    "notification"}[request->xfer.op],
			   (unsigned long long)request->segs.total, gone, peer->who.name,
			   error_status_text(completion.status), *lost ? ": " : "", lost);
	if (*gone)
		text_format(out_error->next, sizeof(out_error->next),
			    "keep memory allocated until its region is deregistered");
	/* the general advice for this status is about a channel, not about a request */
	if (completion.status == TCPX_ERR_CHANNEL_LOST)
		text_format(out_error->next, sizeof(out_error->next),
			    "remove the cause, then post it again");
	out_error->bytes_done = completion.bytes;
	out_error->bytes_total = request->segs.total;
	request_unlock(peer);
out:
	request_put(request);
	return status;
}
