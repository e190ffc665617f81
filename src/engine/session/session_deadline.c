/* SPDX-License-Identifier: Apache-2.0 */
/* Ends requests that have reached their deadlines, on the control thread. */
#include "engine/session/calls.h"

#include "base/clock.h"
#include "engine/request/pending.h"

static void deadline_run(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_session *session = LIST_ENTRY(timer, struct engine_session, deadline.timer);
	struct engine_peer *peer;
	int64_t next = 0;

	for (peer = session_next_peer(session, NULL); peer;
	     peer = session_next_peer(session, peer)) {
		int64_t due = 0;

		link_lock(&peer->link);
		if (peer->link.core_ready && !peer->link.core.dead)
			due = core_link_expire(&peer->link.core, now_ns);
		else
			due = pending_expire(peer, now_ns);
		link_unlock(&peer->link);
		if (due && (!next || due < next))
			next = due;
	}
	if (next)
		sys_timer_set(&engine_runtime.loop, &session->deadline.timer, next);
}

static void deadline_posted(struct sys_post *post)
{
	struct engine_session *session = LIST_ENTRY(post, struct engine_session, deadline.post);

	atomic_store(&session->deadline.posted, 0);
	deadline_run(&session->deadline.timer, clock_now_ns());
}

void session_deadline_init(struct session_deadline *deadline)
{
	list_init(&deadline->timer.node);
	list_init(&deadline->post.node);
	deadline->timer.fn = deadline_run;
	deadline->post.fn = deadline_posted;
}

void session_deadline_stop(struct session_deadline *deadline)
{
	sys_timer_del(&engine_runtime.loop, &deadline->timer);
}
