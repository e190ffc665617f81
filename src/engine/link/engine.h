/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's objects: one runtime a process, sessions, peers, channels, requests.
 * Locks, in the order they may be taken: runtime.lock, session.lock, link.lock, then the leaves
 * (worker.lock, session.queue.lock). Under the first three nothing is called out of the library, no
 * line is logged, and no system call but a wake-up is made (base/law.h). Locks that are held across
 * a call of a transport (chan.poll.lock) are taken by the owners of the channel's directions, and
 * never by the control thread.
 */
#ifndef ENGINE_LINK_ENGINE_H
#define ENGINE_LINK_ENGINE_H

#include "base/law.h"
#include "engine/link/channel.h"
#include "engine/link/engine_peer.h"
#include "engine/link/engine_request.h"
#include "engine/link/engine_session.h"
#include "engine/link/worker.h"
#include "engine/runtime/engine_runtime.h"
#include <tcpx/tcpx.h>

#define ENGINE_SHARE_BUCKETS 64

static inline struct engine_peer *link_peer(struct link *link)
{
	return LIST_ENTRY(link, struct engine_peer, link);
}

static inline void peer_get(struct engine_peer *peer)
{
	link_get(&peer->link);
}

static inline void peer_put(struct engine_peer *peer)
{
	link_put(&peer->link);
}

/* base/law.h says what may not be done while session.lock is held. */
static inline void session_lock(struct engine_session *of)
{
	pthread_mutex_lock(&of->lock);
	law_enter();
}

static inline void session_unlock(struct engine_session *of)
{
	law_leave();
	pthread_mutex_unlock(&of->lock);
}

/* Functions of peer_find.c, for any thread. A live peer of this uuid other than `except`; NULL:
 * none. keyed: one that has proven its key, or must prove it; else one that only claims the uuid.
 * peer_by_uuid() returns a reference. peer_linked() does not, so session.lock must be held while
 * its peer is used. */
struct engine_peer *peer_by_uuid(struct engine_session *session, const uint8_t *uuid, bool keyed,
				 const struct engine_peer *except);
struct engine_peer *peer_linked(struct engine_session *session, const uint8_t *uuid, bool keyed,
				const struct engine_peer *except);
/* whether the peer has this uuid */
bool peer_is(struct engine_peer *peer, const uint8_t *uuid);

/* Makes the control thread set the session's timer again, because a deadline may be earlier than
 * the one that the timer is set to. Any thread. */
void session_timer_kick(struct engine_session *session);

#endif
