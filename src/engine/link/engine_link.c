/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a link that wake the control thread, wake callers of tcpx_peer_flush() or send
 * control frames. Also the loop over the peers of a session, and the wake-up for its deadlines. */
#include "engine/link/engine_link.h"

#include <limits.h>

#include "base/clock.h"
#include "engine/link/engine.h"
#include "sys/futex.h"

void link_wake(struct link *link)
{
	if (atomic_exchange(&link->wake.posted, 1))
		return;
	link_get(link);
	sys_loop_post(&engine_runtime.loop, &link->wake.post);
}

void link_progress(struct link *link)
{
	if (!atomic_load(&link->flush.waiters))
		return;
	atomic_fetch_add(&link->flush.word, 1);
	sys_futex_wake(&link->flush.word, INT_MAX);
}

void link_tell(struct link *link, const struct frame *frame, const void *payload)
{
	struct peer_control *control = &link_peer(link)->control;

	if (!control->link || control->full)
		return;
	if (ctl_link_send(control->link, frame, payload) == TCPX_ERR_LIMIT) {
		control->full = true;
		link_wake(link);
	} else {
		core_alive_sent(&control->alive, clock_now_ns());
	}
}

struct engine_peer *session_next_peer(struct engine_session *session, struct engine_peer *peer)
{
	struct engine_peer *next = NULL;
	struct list_node *node;

	session_lock(session);
	node = peer ? peer->node.next : session->peer_list.next;
	if (peer && node == &peer->node) /* `peer` is no longer in the list */
		node = session->peer_list.next;
	if (node != &session->peer_list) {
		next = LIST_ENTRY(node, struct engine_peer, node);
		peer_get(next);
	}
	session_unlock(session);
	if (peer)
		peer_put(peer);
	return next;
}

void session_timer_kick(struct engine_session *session)
{
	if (!atomic_exchange(&session->deadline.posted, 1))
		sys_loop_post(&engine_runtime.loop, &session->deadline.post);
}
