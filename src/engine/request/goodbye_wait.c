/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that the peer refused and that wait for its goodbye, in the order of their refusal. */
#include "engine/request/request_calls.h"
#include "engine/request/goodbye_wait.h"

#include "base/clock.h"

static void goodbye_wait_due(struct sys_timer *timer, int64_t now_ns);

void goodbye_wait_init(struct engine_peer *peer)
{
	list_init(&peer->goodbye_wait.waiting);
	list_init(&peer->goodbye_wait.timer.node);
	peer->goodbye_wait.timer.fn = goodbye_wait_due;
}

bool goodbye_wait_add(struct engine_request *request)
{
	struct engine_peer *peer = atomic_load(&request->peer);

	if (request->xfer.status != TCPX_ERR_REMOTE_KEY)
		return false;
	/* the peer has ended already, while the request's memory was still in use */
	if (peer->link.core_done) {
		request->xfer.status = peer->error.status;
		return false;
	}
	if (request->detached || peer->link.core.dead || !peer->link.session->tuning.goodbye_ns)
		return false;
	request_quiet(request);
	request->awaits_goodbye = true;
	request->goodbye_ns = clock_after(peer->link.session->tuning.goodbye_ns);
	list_push_back(&peer->goodbye_wait.waiting, &request->done);
	link_wake(&peer->link);
	return true;
}

static void goodbye_wait_end_with(struct engine_request *request, tcpx_status status)
{
	list_remove(&request->done);
	request->awaits_goodbye = false;
	request->xfer.status = status;
	request_ended(request);
}

void goodbye_wait_end(struct engine_request *request)
{
	goodbye_wait_end_with(request, request->xfer.status);
}

bool goodbye_wait_has(const struct engine_peer *peer, uint64_t until)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &peer->goodbye_wait.waiting)
		if (LIST_ENTRY(pos, struct engine_request, done)->post_seq <= until)
			return true;
	return false;
}

void goodbye_waits_fail(struct engine_peer *peer, tcpx_status status)
{
	while (!list_empty(&peer->goodbye_wait.waiting))
		goodbye_wait_end_with(
			LIST_ENTRY(peer->goodbye_wait.waiting.next, struct engine_request, done),
			status);
}

/* Ends the requests whose wait is over at `now_ns`. Returns the time at which the next wait is
 * over, or 0 if no request waits. */
static int64_t goodbye_waits_expire(struct engine_peer *peer, int64_t now_ns)
{
	int64_t next = 0;

	link_lock(&peer->link);
	while (!list_empty(&peer->goodbye_wait.waiting) && !next) {
		struct engine_request *first =
			LIST_ENTRY(peer->goodbye_wait.waiting.next, struct engine_request, done);

		if (first->goodbye_ns > now_ns)
			next = first->goodbye_ns;
		else
			goodbye_wait_end(first);
	}
	link_unlock(&peer->link);
	return next;
}

/* Ends the requests whose wait is over, and sets the timer for the next one. */
static void goodbye_waits_watch(struct engine_peer *peer, int64_t now_ns)
{
	int64_t next = goodbye_waits_expire(peer, now_ns);

	if (next)
		sys_timer_set(&engine_runtime.loop, &peer->goodbye_wait.timer, next);
}

static void goodbye_wait_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, goodbye_wait.timer);

	peer_get(peer);
	/* On a busy machine the timer may be late, and a goodbye may have arrived that was not
	 * read. Read it before the waits end. */
	if (peer->control.link)
		ctl_link_poll(peer->control.link);
	if (!peer->died)
		goodbye_waits_watch(peer, now_ns);
	peer_put(peer);
}

void goodbye_waits_look(struct engine_peer *peer)
{
	if (!peer->died && list_empty(&peer->goodbye_wait.timer.node))
		goodbye_waits_watch(peer, 0);
}
