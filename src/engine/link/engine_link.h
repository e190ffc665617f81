/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A link: the part of a peer that moves data. It contains the lock, the core, the channels, and
 * work that waits for the lock to be free or for the control thread. Identity, addresses and
 * liveness of the peer are in struct engine_peer, which contains the link.
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

/* What a thread that runs link_events.posted() sends itself: nothing; the frames of the priority
 * channel; or these frames and those of one bulk channel. */
enum post_sends { POST_NOTHING, POST_PRIO, POST_FIRST };

struct link;

/* Functions of higher layers that a link calls, with no lock held. The first three may be called by
 * any thread, the others only by the control thread. */
struct link_events {
	/* Does the deferred work: kicks the channels that have work, releases memory. */
	void (*deferred)(struct link *link);
	/* Like deferred(), but for a thread that posts or that has ended copies, which may also
	 * send some frames itself. */
	void (*posted)(struct link *link, enum post_sends sends);
	void (*free)(struct link *link); /* called when the last reference was dropped */

	/* Called when the peer is about to end. Cancels the peer's dials. */
	void (*dying)(struct link *link);
	/* Does the work in link->wake. */
	void (*woken)(struct sys_post *post);
	/* Starts a channel on the connection `chan`, which the function takes over. An error means
	 * that the channel is not needed any more or cannot be made. */
	tcpx_status (*attach)(struct link *link, uint32_t channel, uint32_t epoch,
			      struct net_chan *chan);
	/* Called when a plugin channel is up or was given up: checks whether the peer is up now. */
	void (*settled)(struct link *link);
	/* dials the channel again after a pause */
	void (*dial_later)(struct link *link, uint32_t channel);
	/* functions for frames of the control connection; their argument is the peer */
	const struct ctl_link_ops *control;
	/* Makes sure that the session listens for peers on this host. Returns false on failure. */
	bool (*listen_local)(struct link *link);
};

/* Defined in session/hooks.c, because their functions are in higher layers. */
extern const struct core_ops engine_core_ops;
extern const struct link_events engine_link_events;

struct link {
	struct handle_slot slot; /* must be the first member: the handle's id and reference count */
	const struct link_events *events;
	struct engine_session *session;
	pthread_mutex_t lock;
	struct core_link core;
	bool core_ready, core_done; /* under lock: `core` is initialised; the peer is dead */
	/* under lock: the channels, by index; only the control thread writes */
	struct engine_chan *chan[CORE_CHANNELS_MAX];
	_Atomic uint64_t kick_mask; /* bit mask, by index, of the channels to kick */
	/* under lock: number of posts in a row that found no other transfer under way */
	uint32_t solo_streak;
	struct link_flush flush;
	struct link_wake wake;
	struct link_quota quota;
	struct link_blocks blocks;
	struct link_prefill prefill;
	struct link_rouse rouse;
	struct link_pins pins;
	struct peer_account account;
};

/* Locks the link. base/law.h says what is forbidden while the lock is held. Work that the core
 * defers under the lock is run by link_unlock(), so no caller can forget it. */
static inline void link_lock(struct link *link)
{
	pthread_mutex_lock(&link->lock);
	law_enter();
}

/* Unlocks without running deferred work. For callers that defer none, or that call
 * link_run_deferred(), link_run_posted() or copies_wake_later() next. */
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

/* Runs link_events.posted(). Called after link_unlock_only(), at the end of a post or of copies. */
static inline void link_run_posted(struct link *link, enum post_sends sends)
{
	link->events->posted(link, sends);
}

static inline void link_get(struct link *link)
{
	atomic_fetch_add(&link->slot.refs, 1);
}

/* Drops a reference. Called with no lock held. */
static inline void link_put(struct link *link)
{
	if (atomic_fetch_sub(&link->slot.refs, 1) == 1)
		link->events->free(link);
}

/* Makes the control thread do the work in link->wake. Called by any thread, under any lock. */
void link_wake(struct link *link);
/* Wakes tcpx_peer_flush() when a transfer, a notification or the peer has ended. Any thread. */
void link_progress(struct link *link);
/* Called by the control thread. Sends a frame over the peer's control link, if that link is up. */
void link_tell(struct link *link, const struct frame *frame, const void *payload);
/* Returns the peer after `peer` in the session's list, or the first one if `peer` is NULL, with a
 * reference; NULL at the end. Drops the reference to `peer`. A loop over the peers thus holds no
 * lock. If `peer` has left the list, the loop begins again and may visit a peer twice. */
struct engine_peer *session_next_peer(struct engine_session *session, struct engine_peer *peer);

#endif
