/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: the bottom half of a peer. Its lock, the core that decides, its channels, and what is
 * left to be done once the lock is free or by the control thread. Who the peer is, how it is
 * reached and whether it lives is the business of struct engine_peer, which contains the link.
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

/* What a post sends itself: nothing, what is for the lane, or the first channel's share, too. */
enum post_sends { POST_NOTHING, POST_LANE, POST_FIRST };

struct link;

/* What a link calls of its owner. Any thread, no lock. */
struct link_events {
	/* Kicks the channels that have something, lets go of memory. */
	void (*deferred)(struct link *link);
	/* The same, on the thread of a post. */
	void (*posted)(struct link *link, enum post_sends sends);
	void (*free)(struct link *link); /* the last reference went */

	/* Control thread. Nothing is dialled for it any more. */
	void (*dying)(struct link *link);
	/* Something of link->wake is there. */
	void (*woken)(struct sys_post *post);
	/* A channel is there; owns chan. An error: it is not wanted any more. */
	tcpx_status (*attach)(struct link *link, uint32_t channel, uint32_t epoch,
			      struct net_chan *chan);
	/* A channel came or is given up: the link may be up now. */
	void (*settled)(struct link *link);
	void (*dial_later)(struct link *link, uint32_t channel); /* anew, after a rest */
	const struct ctl_link_ops *control; /* of the control link; its argument: the peer */
	/* Peers on this host can reach the session from now on. False: they cannot. */
	bool (*listen_local)(struct link *link);
};

/* Both are in session/hooks.c, since what they call is in the folders above. */
extern const struct core_ops engine_core_ops;
extern const struct link_events engine_link_events;

struct link {
	struct handle_slot slot; /* first: id, references */
	const struct link_events *events;
	struct engine_session *session;
	pthread_mutex_t lock;
	struct core_link core;
	bool core_ready, core_done;		     /* lock */
	struct engine_chan *chan[CORE_CHANNELS_MAX]; /* lock; the control thread alone writes it */
	_Atomic uint64_t kick_mask;		     /* channels that have something to send */
	uint32_t lone_streak;			     /* lock: the last posts that had no company */
	struct link_flush flush;
	struct link_wake wake;
	struct link_quota quota;
	struct link_blocks blocks;
	struct link_prefill prefill;
	struct link_pins pins;
	struct peer_account account;
};

/*
 * base/law.h says what is not done while the lock is held. What the core asks for meanwhile waits,
 * and link_unlock() does it: nobody has to remember.
 */
static inline void link_lock(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	law_enter();
}

/*
 * For the owner of a channel's direction and for deferred work itself, whose callers end with
 * link_run_deferred(); and for holders of session.lock, who ask nothing of the core.
 */
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

/* On the thread of a post, which used link_unlock_only(). */
static inline void link_run_posted(struct link *link, enum post_sends sends)
{
	link->events->posted(link, sends);
}

static inline void link_get(struct link *link)
{
	atomic_fetch_add(&link->slot.refs, 1);
}

/* No lock. */
static inline void link_put(struct link *link)
{
	if (atomic_fetch_sub(&link->slot.refs, 1) == 1)
		link->events->free(link);
}

/* Any thread, any lock: the control thread is to look at link->wake. */
void link_wake(struct link *link);
/* Any thread: something ended, and callers of tcpx_peer_flush() look again. */
void link_progress(struct link *link);
/* Control thread: to the peer by its control link, if that stands. */
void link_tell(struct link *link, const struct frame *frame, const void *payload);
/* The first peer, or the one behind peer, with a reference; takes over peer's. So no lock is held
 * while something is done to each. Where peer left the list meanwhile they begin anew: what is done
 * may be done twice. Any thread. */
struct engine_peer *session_next_peer(struct engine_session *session, struct engine_peer *peer);

#endif
