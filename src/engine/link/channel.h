/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: one data connection of a peer, and whoever runs its two directions. Between chan_start
 * and chan_stop only the owners of its directions make calls of its transport; the control thread
 * makes none, since the kernel holds the socket's lock while a call waits for a page.
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
#include "net/net.h"
#include "sys/loop.h"
#include "wire/table.h"
#include <tcpx/types.h>

struct engine_chan;
struct engine_comms;
struct engine_peer;
struct engine_worker;

/* Who may run one direction of a channel. */
enum engine_owner {
	OWNER_FREE = 0,
	OWNER_BUSY,
	OWNER_AGAIN, /* busy, and somebody came by meanwhile */
	OWNER_LAST,  /* busy, and closes when it leaves */
	OWNER_CLOSED
};

/* What its worker, and who holds a reference, call of a channel. No lock held. */
struct chan_calls {
	void (*event)(struct engine_chan *chan, uint32_t events); /* of epoll */
	void (*kicked)(struct engine_chan *chan); /* the worker took it from its list */
	void (*buried)(struct engine_chan *chan); /* worker_bury(): its reference goes */
	void (*free)(struct engine_chan *chan);	  /* the last reference went */
};

struct engine_chan {
	const struct chan_calls *calls;
	struct engine_peer *peer;
	uint32_t index, epoch;
	uint32_t iface; /* index of its local address's interface; 0: none */
	struct net_chan *net;
	struct engine_worker *worker;
	struct engine_comms *comms;	/* of a channel of messages */
	_Atomic int tx_owner, rx_owner; /* enum engine_owner */
	_Atomic int tx_blocked;
	_Atomic int kicked; /* in the worker's list */
	struct list_node kick_node;
	bool stopped;		   /* worker.lock: enters the list no more */
	_Atomic int again;	   /* the worker is to receive without an event */
	pthread_mutex_t poll_lock; /* guards the three below; held across a call */
	uint32_t poll_events, recv_events, send_events;
	_Atomic bool polled;
	_Atomic int failed; /* the first failure's status */
	_Atomic int failed_errno;
	struct chan_tx tx;
	struct chan_rx rx;
	_Atomic int64_t heard_ns;
	_Atomic uint32_t refs;
	_Atomic uint32_t sample_asked; /* futex: somebody wants a sample, the worker owes it */
	_Atomic int64_t asked_ns;      /* since when */
	pthread_mutex_t sample_lock;   /* guards the next; never held across a call */
	struct net_chan_info sample;   /* the transport, as the worker saw it last */
	_Atomic int stopping;	       /* the worker is to shut it down */
	_Atomic uint32_t inside;       /* of a stopped channel: directions that are still busy */
	void (*left)(struct engine_chan *chan); /* control thread: when none is */
	struct sys_post left_post;
	struct sockaddr_storage ends[2]; /* of the connection: here, there */
	bool ends_known;
	bool busy;		 /* control thread: it owed a sample at the last look */
	int64_t stuck_ns;	 /* control thread: how long nothing sent was acknowledged */
	int64_t trimmed_ns;	 /* control thread: heard_ns when its memory was given back */
	struct list_node holds;	 /* peer.lock: frames sent without a copy */
	struct list_node lost;	 /* peer.lost, peer.fenced or runtime.holding, with a reference */
	int64_t held_until_ns;	 /* control thread: in runtime.holding not longer than that */
	struct core_io lease;	 /* of a stopped channel: what its last frame lent */
	struct list_node leased; /* runtime.leases, with a reference */
	struct list_node grave;	 /* worker's */
};

/* peer.lock, or a reference is held */
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
