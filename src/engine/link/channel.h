/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: one data connection of a peer, and the owners of its two directions. Between
 * chan_start and chan_stop only the owners call its transport. The control thread does not, since
 * the kernel holds the lock of a socket while a call waits for a page.
 */
#ifndef ENGINE_LINK_CHANNEL_H
#define ENGINE_LINK_CHANNEL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"
#include "core/chan.h"
#include "core/link.h"
#include "engine/link/chan_frames.h"
#include "engine/runtime/reaper.h"
#include "net/net.h"
#include "sys/loop.h"
#include "wire/table.h"
#include <tcpx/types.h>

struct engine_chan;
struct engine_comms;
struct engine_peer;
struct engine_worker;

/* The owner of a direction of a channel: a thread that sends or receives. */
enum engine_owner {
	OWNER_FREE = 0,
	OWNER_BUSY,
	OWNER_AGAIN, /* busy, and another thread has asked for the direction meanwhile */
	OWNER_LAST,  /* busy, and its owner closes it at the end */
	OWNER_CLOSED
};

/* What the worker, or the holder of a reference, calls. No lock held. */
struct chan_calls {
	void (*event)(struct engine_chan *chan, uint32_t events); /* events: of epoll */
	void (*kicked)(struct engine_chan *chan); /* the worker took it from its list */
	void (*buried)(struct engine_chan *chan); /* after worker_bury(): drops its reference */
	void (*free)(struct engine_chan *chan);	  /* the last reference is gone */
};

/* What its worker's epoll watches. */
struct chan_poll {
	pthread_mutex_t lock; /* guards the three below; held across a call of the transport */
	uint32_t events;      /* registered with epoll: those of both directions */
	uint32_t recv_events, send_events;
	_Atomic bool watched; /* the descriptor is in the worker's epoll set */
};

/* An application that polls receives on the channel itself: look.c. */
struct chan_look {
	struct list_node node;	   /* worker.lock: worker->looked_at */
	_Atomic bool kept;	   /* rx owner writes it: epoll reports nothing to the worker */
	_Atomic int64_t looked_ns; /* last time */
};

/* Its place in its worker's list of channels to run. */
struct chan_kick {
	struct list_node node; /* worker.lock */
	_Atomic int queued;
	bool closed;	   /* worker.lock: it never enters the list again */
	_Atomic int again; /* the worker is to receive without an event */
};

/* The transport's own figures, as the worker last saw them. */
struct chan_sample {
	_Atomic uint32_t asked;	  /* futex: a sample was asked for, and the worker owes it */
	_Atomic int64_t asked_ns; /* since when */
	pthread_mutex_t lock;	  /* guards info; never held across a call of the transport */
	struct net_chan_info info;
	bool late; /* control thread: the worker still owed a sample at the last heartbeat */
};

/* Its end, from chan_stop on. */
struct chan_stop {
	_Atomic int shutdown;			/* the worker is to shut the transport down */
	_Atomic uint32_t inside;		/* directions that are still busy */
	void (*left)(struct engine_chan *chan); /* control thread: once none is */
	struct sys_post left_post;
	struct list_node grave; /* worker.lock: the worker drops its reference after a round */
};

/* Frames that it sent without a copy: hold.h. */
struct chan_pins {
	struct list_node frames; /* link.lock */
	struct list_node node;	 /* link.pins.lost or fenced, with a reference */
	struct reap_item reap;	 /* of a dead peer, with a reference */
	int64_t until_ns;	 /* control thread: the latest end of reap */
};

/* Of a stopped channel: the memory that its last frame lent to the peer: lease.c. */
struct chan_lease {
	struct reap_item reap; /* with a reference */
	struct core_io io;
};

struct engine_chan {
	const struct chan_calls *calls;
	struct engine_peer *peer;
	uint32_t index, epoch;
	uint32_t iface; /* index of its local address's interface; 0: none */
	struct net_chan *net;
	struct engine_worker *worker;
	struct engine_comms *comms;	/* of a plugin channel; else NULL */
	_Atomic int tx_owner, rx_owner; /* enum engine_owner */
	_Atomic int tx_blocked;		/* the transport had no room; epoll tells when it has */
	struct chan_kick kick;
	struct chan_poll poll;
	struct chan_look look;
	_Atomic int failed; /* the first failure's status */
	_Atomic int failed_errno;
	struct chan_tx tx;
	struct chan_rx rx;
	_Atomic int64_t heard_ns; /* when something last arrived */
	int64_t trimmed_ns;	  /* control thread: heard_ns when its memory was given back */
	int64_t stuck_ns;	  /* control thread: how long nothing sent was acknowledged */
	_Atomic uint32_t refs;
	struct chan_sample sample;
	struct sockaddr_storage ends[2]; /* addresses of the connection: local, remote */
	bool ends_known;
	struct chan_pins pins;
	struct chan_lease lease;
	struct chan_stop stop;
};

/* link.lock is held, or a reference. */
static inline void chan_get(struct engine_chan *chan)
{
	atomic_fetch_add(&chan->refs, 1);
}

static inline void chan_put(struct engine_chan *chan)
{
	if (atomic_fetch_sub(&chan->refs, 1) == 1)
		chan->calls->free(chan);
}

#endif
