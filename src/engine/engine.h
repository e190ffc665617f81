/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine's objects: one runtime a process, sessions, peers, channels, requests.
 *
 * Locks, in the order they may be taken: runtime.lock, session.lock, peer.lock, then the leaves
 * (worker.lock, session.queue.lock). Under the first three nothing is called out of the library, no
 * line is logged, and no system call but a wake-up is made (base/law.h). Locks that are held across
 * a call of a transport (chan.poll_lock) are its owner's, and never the control thread's.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/law.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/channel.h"
#include "engine/peer/engine_peer.h"
#include "engine/request/engine_request.h"
#include "engine/runtime/engine_runtime.h"
#include "engine/session/engine_session.h"
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

/* base/law.h says what is not done while it is held. */
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

#endif
