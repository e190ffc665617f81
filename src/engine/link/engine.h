/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's objects: one runtime per process, sessions, peers, channels, requests. Locks, in
 * the order in which they may be taken: runtime.lock, session.lock, link.lock, then the leaf locks
 * (such as worker.lock and session.queue.lock). A thread that holds session.lock or link.lock calls
 * no code outside the library, logs nothing above level debug, and makes no system calls except
 * wake-ups (base/law.h). Locks that are held across a call of a transport (chan.poll.lock) are
 * taken by the owners of the channel's directions, and by the control thread only in
 * chan_start(). */
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

/* Returns the peer's channel with a reference, or NULL if it has no such channel. The caller holds
 * link.lock. */
static inline struct engine_chan *peer_chan_get(struct engine_peer *peer, uint32_t channel)
{
	struct engine_chan *chan = peer->link.chan[channel];

	if (chan)
		chan_get(chan);
	return chan;
}

/* Locks the session. base/law.h says what is forbidden while the lock is held. */
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

/* Return a live peer with this uuid other than `except`, or NULL if no peer has it. If `keyed` is
 * true, the peer must have proved its key, or must be about to prove it; else the peer merely
 * claims the uuid. peer_by_uuid() takes session.lock itself and returns a reference. peer_linked()
 * returns no reference: the caller must hold session.lock while it uses the peer. May be called by
 * any thread. */
struct engine_peer *peer_by_uuid(struct engine_session *session, const uint8_t *uuid, bool keyed,
				 const struct engine_peer *except);
struct engine_peer *peer_linked(struct engine_session *session, const uint8_t *uuid, bool keyed,
				const struct engine_peer *except);
/* Returns whether the peer has this uuid. */
bool peer_is(struct engine_peer *peer, const uint8_t *uuid);

/* Makes the control thread set the session's timer again, because a new deadline may be earlier
 * than the one for which the timer is set. May be called by any thread. */
void session_timer_kick(struct engine_session *session);

#endif
