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
#include "engine/account.h"
#include "engine/block.h"
#include "engine/handles.h"
#include "engine/hold.h"
#include "engine/prefill.h"
#include "sys/loop.h"

struct engine_chan;
struct engine_session;

/* What other threads leave to the control thread, which the post wakes. */
struct link_wake {
	struct sys_post post;
	_Atomic int posted;
	uint64_t free_mask, close_mask; /* lock: channels, by index */
	bool failed;			/* lock: the core cannot go on, */
	tcpx_status failed_status;	/* why */
	struct fence_out *fences;	/* lock: to be sent */
	struct list_node buried;	/* lock: requests released while active, now over */
};

struct fence_out {
	struct fence_out *next;
	uint32_t channel, epoch, count;
	uint64_t applied;
	struct core_nack nacks[];
};

/* Callers of tcpx_peer_flush(). */
struct link_flush {
	_Atomic uint32_t word, waiters; /* word: futex, counts what ended */
};

/* Of the session's staging memory. session.queue_lock. */
struct link_quota {
	uint64_t held, ahead;
	bool hungry; /* got less than it asked for */
};

struct link;

/* What a link calls of its owner. */
struct link_events {
	/* Any thread, no lock: kicks the channels that have something, lets go of memory. */
	void (*deferred)(struct link *link);
};

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
 * For code whose caller does what is deferred: the owner of a channel's direction, what runs as
 * deferred, and who holds session.lock. Such a caller ends with link_run_deferred().
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
	if (atomic_load(&link->kick_mask) ||
	    atomic_load_explicit(&link->prefill.due, memory_order_relaxed))
		link_run_deferred(link);
}

static inline void link_get(struct link *link)
{
	atomic_fetch_add(&link->slot.refs, 1);
}

#endif
