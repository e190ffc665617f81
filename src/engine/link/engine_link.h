/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: the bottom half of a peer. It holds the lock, the core, the channels, and the work that
 * is deferred until the lock is free or to the control thread. Identity, addresses and liveness of
 * the peer belong to struct engine_peer, which contains the link.
 */
#ifndef ENGINE_LINK_ENGINE_LINK_H
#define ENGINE_LINK_ENGINE_LINK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/law.h"
#include "base/list.h"
#include "core/link.h"
#include "engine/link/account.h"
#include "engine/link/block.h"
#include "engine/runtime/handles.h"
#include "engine/link/hold.h"
#include "engine/link/deferred_state.h"
#include "engine/link/prefill.h"
#include "sys/loop.h"

struct engine_chan;
struct ctl_link_ops;
struct engine_session;
struct net_chan;

/* What the thread that posts sends itself: nothing; the frames of the priority channel; or the
 * first bulk channel's share as well. */
enum post_sends { POST_NOTHING, POST_PRIO, POST_FIRST };

struct link;

/* The functions that a link calls in the layers above. Any thread, no lock held. */
struct link_events {
	/* Kicks the channels that have work, and releases memory. */
	void (*deferred)(struct link *link);
	/* As deferred(), but on the thread that posts, which also sends some frames itself. */
	void (*posted)(struct link *link, enum post_sends sends);
	void (*free)(struct link *link); /* the last reference was dropped */

	/* Control thread: the peer is about to end, and nothing is dialled for it any more. */
	void (*dying)(struct link *link);
	/* link->wake has something to do. */
	void (*woken)(struct sys_post *post);
	/* A channel's connection is made; the callee owns chan. On an error the channel is not
	 * needed any more. */
	tcpx_status (*attach)(struct link *link, uint32_t channel, uint32_t epoch,
			      struct net_chan *chan);
	/* A channel is up or was given up, so the link may count as up now. */
	void (*settled)(struct link *link);
	/* dials the channel again after a pause */
	void (*dial_later)(struct link *link, uint32_t channel);
	/* functions for frames of the control connection; their argument is the peer */
	const struct ctl_link_ops *control;
	/* Lets peers on this host reach the session. False: it failed. */
	bool (*listen_local)(struct link *link);
};

/* Defined in session/hooks.c, because they call functions of the folders above this one. */
extern const struct core_ops engine_core_ops;
extern const struct link_events engine_link_events;

struct link {
	struct handle_slot slot; /* must be first: the handle's id and reference count */
	const struct link_events *events;
	struct engine_session *session;
	pthread_mutex_t lock;
	struct core_link core;
	bool core_ready, core_done; /* under lock: `core` is initialised; has ended */
	/* under lock; the control thread alone writes it */
	struct engine_chan *chan[CORE_CHANNELS_MAX];
	_Atomic uint64_t kick_mask; /* channels to be kicked (bit: index) */
	/* under lock: how many posts in a row have found no other transfer under way */
	uint32_t solo_streak;
	struct link_flush flush;
	struct link_wake wake;
	struct link_quota quota;
	struct link_blocks blocks;
	struct link_prefill prefill;
	struct link_pins pins;
	struct peer_account account;
};

/*
 * base/law.h lists what is forbidden while the lock is held. Work that the core asks for meanwhile
 * is deferred, and link_unlock() runs it, so no caller can forget it.
 */
static inline void link_lock(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	law_enter();
}

/* Unlocks without running deferred work. For the owner of a channel's direction and for deferred
 * work itself, whose callers end with link_run_deferred(); and for callers that defer nothing,
 * because they only read or because they hold session.lock. */
static inline void link_unlock_only(struct link *link)
{
	law_leave();
	pthread_mutex_unlock(&link->lock);
}

static inline void link_run_deferred(struct link *link)
{
	link->events->deferred(link);
}

static inline void link_unlock(struct link *link)
{
	link_unlock_only(link);
	law_free("link_unlock");
	if (atomic_load(&link->kick_mask) ||
	    atomic_load_explicit(&link->prefill.due, memory_order_relaxed))
		link_run_deferred(link);
}

/* For the thread that posts, after link_unlock_only(): runs link_events.posted(). */
static inline void link_run_posted(struct link *link, enum post_sends sends)
{
	link->events->posted(link, sends);
}

static inline void link_get(struct link *link)
{
	atomic_fetch_add(&link->slot.refs, 1);
}

/* Called with no lock held. */
static inline void link_put(struct link *link)
{
	if (atomic_fetch_sub(&link->slot.refs, 1) == 1)
		link->events->free(link);
}

/* Makes the control thread look at link->wake. Any thread, under any lock. */
void link_wake(struct link *link);
/* Any thread: a transfer ended, so callers of tcpx_peer_flush() check again. */
void link_progress(struct link *link);
/* Control thread: sends a frame to the peer by its control link, if that is up. */
void link_tell(struct link *link, const struct frame *frame, const void *payload);
/* The first peer of a session, or the one after `peer`, with a reference; drops the reference to
 * `peer`. With it a loop over all peers holds no lock. If `peer` has left the list meanwhile, the
 * loop begins again and may visit a peer twice. Any thread. */
struct engine_peer *session_next_peer(struct engine_session *session, struct engine_peer *peer);

#endif
