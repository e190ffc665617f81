/* SPDX-License-Identifier: Apache-2.0 */
/* Limits on inbound peers. Without limits, a process that has the key could dial as often as it
 * likes, and each peer takes about 40 KB. */
#include "engine/peer/inbound.h"

#include "engine/peer/peer_calls.h"
#include "sys/addr.h"

/* most peers of one source that still lack channels; a host may start many processes at once */
#define HALF_OF_SOURCE 256
#define DEAD_KEPT 64 /* most dead peers that are kept for queries */

void inbound_init(struct session_inbound *inbound)
{
	list_init(&inbound->half);
	list_init(&inbound->dead);
}

bool inbound_has_room(struct engine_session *session, const struct sockaddr_storage *from)
{
	const struct session_inbound *inbound = &session->inbound;
	uint64_t source = sys_addr_source(from);
	const struct list_node *pos;
	uint32_t same = 0;

	if (inbound->live >= inbound->most)
		return false;
	if (inbound->nhalf < HALF_OF_SOURCE)
		return true;
	LIST_FOREACH(pos, &inbound->half)
		same += LIST_ENTRY(pos, struct engine_peer, inbound.half)->inbound.source == source;
	return same < HALF_OF_SOURCE;
}

void inbound_begins(struct engine_peer *peer, const struct sockaddr_storage *from)
{
	struct session_inbound *inbound = &peer->link.session->inbound;

	peer->inbound.live = true;
	peer->inbound.source = sys_addr_source(from);
	list_push_back(&inbound->half, &peer->inbound.half);
	inbound->nhalf++;
	inbound->live++;
}

void inbound_is_up(struct engine_peer *peer)
{
	if (list_empty(&peer->inbound.half))
		return;
	list_remove(&peer->inbound.half);
	peer->link.session->inbound.nhalf--;
}

void inbound_ends(struct engine_peer *peer)
{
	inbound_is_up(peer);
	peer->link.session->inbound.live -= peer->inbound.live;
}

/* Removes the peer from the queue of tcpx_session_accept(), if it is still there. */
static void inbound_leave_accepts(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	bool queued;

	pthread_mutex_lock(&session->queue.lock);
	queued = !list_empty(&peer->accept_node);
	list_remove(&peer->accept_node);
	pthread_mutex_unlock(&session->queue.lock);
	if (queued)
		peer_put(peer);
}

void inbound_remember(struct engine_peer *peer)
{
	struct session_inbound *inbound = &peer->link.session->inbound;
	struct engine_peer *oldest;

	if (!peer->inbound.live)
		return;
	list_push_back(&inbound->dead, &peer->inbound.dead);
	if (++inbound->ndead <= DEAD_KEPT)
		return;
	oldest = LIST_ENTRY(inbound->dead.next, struct engine_peer, inbound.dead);
	inbound_leave_accepts(oldest);
	peer_forget(oldest);
}

void inbound_forget(struct engine_peer *peer)
{
	if (list_empty(&peer->inbound.dead))
		return;
	list_remove(&peer->inbound.dead);
	peer->link.session->inbound.ndead--;
}
