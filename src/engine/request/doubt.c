/* SPDX-License-Identifier: Apache-2.0 */
/* Refused requests that wait for a goodbye of the peer, in the order of their refusals. */
#include "engine/engine.h"
#include "engine/request/doubt.h"

#include "base/clock.h"

static void doubt_due(struct sys_timer *timer, int64_t now_ns);

void doubt_init(struct engine_peer *peer)
{
	list_init(&peer->doubt.waiting);
	list_init(&peer->doubt.timer.node);
	peer->doubt.timer.fn = doubt_due;
}

bool doubt_add(struct engine_request *request)
{
	struct engine_peer *peer = atomic_load(&request->peer);

	if (request->xfer.status != TCPX_ERR_REMOTE_KEY)
		return false;
	if (peer->link.core_done) { /* the goodbye came before the request's memory was free */
		request->xfer.status = peer->error.status;
		return false;
	}
	if (request->zombie || peer->link.core.dead || !peer->link.session->tuning.goodbye_ns)
		return false;
	request_quiet(request);
	request->doubted = true;
	request->doubt_ns = clock_after(peer->link.session->tuning.goodbye_ns);
	list_push_back(&peer->doubt.waiting, &request->done);
	link_wake(&peer->link);
	return true;
}

static void doubt_end_with(struct engine_request *request, tcpx_status status)
{
	list_remove(&request->done);
	request->doubted = false;
	request->xfer.status = status;
	request_ended(request);
}

void doubt_end(struct engine_request *request)
{
	doubt_end_with(request, request->xfer.status);
}

bool doubt_waits(const struct engine_peer *peer, uint64_t until)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &peer->doubt.waiting)
		if (LIST_ENTRY(pos, struct engine_request, done)->post_seq <= until)
			return true;
	return false;
}

void doubts_fail(struct engine_peer *peer, tcpx_status status)
{
	while (!list_empty(&peer->doubt.waiting))
		doubt_end_with(LIST_ENTRY(peer->doubt.waiting.next, struct engine_request, done),
			       status);
}

/* Ends the requests whose time is over at `now_ns`. Returns the time of the next one, or 0. */
static int64_t doubts_expire(struct engine_peer *peer, int64_t now_ns)
{
	int64_t next = 0;

	link_lock(&peer->link);
	while (!list_empty(&peer->doubt.waiting) && !next) {
		struct engine_request *first =
			LIST_ENTRY(peer->doubt.waiting.next, struct engine_request, done);

		if (first->doubt_ns > now_ns)
			next = first->doubt_ns;
		else
			doubt_end(first);
	}
	link_unlock(&peer->link);
	return next;
}

static void doubts_watch(struct engine_peer *peer, int64_t now_ns)
{
	int64_t next = doubts_expire(peer, now_ns);

	if (next)
		sys_timer_set(&engine_runtime.loop, &peer->doubt.timer, next);
}

static void doubt_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, doubt.timer);

	peer_get(peer);
	/* The timer may be late on a busy machine: the goodbye may have arrived unread. */
	if (peer->control.link)
		ctl_link_poll(peer->control.link);
	if (!peer->died)
		doubts_watch(peer, now_ns);
	peer_put(peer);
}

void doubts_look(struct engine_peer *peer)
{
	if (!peer->died && list_empty(&peer->doubt.timer.node))
		doubts_watch(peer, 0);
}
