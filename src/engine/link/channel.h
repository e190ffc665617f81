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
	OWNER_AGAIN, /* the direction is busy, and another thread has asked for it meanwhile */
	OWNER_LAST,  /* the direction is busy, and its owner closes it when it is done */
	OWNER_CLOSED
};

/* Functions that the worker calls, or that the holder of a reference calls. No lock is held. */
struct chan_calls {
	void (*event)(struct engine_chan *chan, uint32_t events); /* events: of epoll */
	/* the worker took the channel from the list of kicked ones */
	void (*kicked)(struct engine_chan *chan);
	/* drops the worker's reference, some time after worker_bury() */
	void (*buried)(struct engine_chan *chan);
	void (*free)(struct engine_chan *chan); /* the last reference is gone */
};

/* What the worker's epoll set watches of the channel. */
struct chan_poll {
	/* guards the next three fields; may be held across a call of the transport */
	pthread_mutex_t lock;
	uint32_t events; /* what epoll watches, for both directions */
	uint32_t recv_events, send_events;
	_Atomic bool watched; /* the descriptor is in the worker's epoll set */
};

/* For an application that polls: it receives on the channel itself (app_poll.c). */
struct chan_app {
	struct list_node node; /* under worker.lock: worker->lent */
	_Atomic bool kept; /* written by the rx owner: the application receives, not the worker */
	_Atomic int64_t polled_ns; /* when an application polled last */
};

/* The channel's entry in its worker's list of channels with work. */
struct chan_kick {
	struct list_node node; /* under worker.lock */
	_Atomic int queued;
	bool closed;	   /* under worker.lock: the channel never enters the list again */
	_Atomic int again; /* the worker is to receive although epoll reports nothing */
};

/* The transport's own figures, as the worker last saw them. */
struct chan_sample {
	/* futex; not 0: the worker was asked for a sample and has not taken it yet */
	_Atomic uint32_t asked;
	_Atomic int64_t asked_ns; /* when the worker was asked */
	pthread_mutex_t lock;	  /* guards info; never held across a call of the transport */
	struct net_chan_info info;
	bool late; /* control thread: at the last heartbeat `asked` was still set */
};

/* How a channel ends, from chan_stop() on. */
struct chan_stop {
	_Atomic int shutdown;	 /* the worker is to shut the transport down */
	_Atomic uint32_t inside; /* number of directions with an owner inside */
	/* control thread: called once when `inside` becomes 0 */
	void (*left)(struct engine_chan *chan);
	struct sys_post left_post;
	/* under worker.lock: the worker drops its reference at the end of its round */
	struct list_node grave;
};

/* Memory of frames that were sent without a copy and may still be read: hold.h. */
struct chan_pins {
	struct list_node frames; /* under link.lock */
	struct list_node node;	 /* link.pins.lost or fenced, with a reference */
	struct reap_item reap;	 /* entry of the reaper if the peer is dead, with a reference */
	int64_t until_ns;	 /* control thread: the time at which `reap` gives up */
};

/* A stopped channel's last frame whose memory the peer may still read: lease.c. */
struct chan_lease {
	struct reap_item reap; /* with a reference */
	struct core_io io;
};

struct engine_chan {
	const struct chan_calls *calls;
	struct engine_peer *peer;
	uint32_t index, epoch;
	uint32_t iface; /* index of the interface of the channel's local address; 0: none */
	struct net_chan *net;
	struct engine_worker *worker;
	struct engine_comms *comms;	/* its comms if it is a channel of a plugin; else NULL */
	_Atomic int tx_owner, rx_owner; /* enum engine_owner */
	/* the transport is full; epoll reports when the transport takes more */
	_Atomic int tx_blocked;
	struct chan_kick kick;
	struct chan_poll poll;
	struct chan_app app;
	_Atomic int failed; /* the first failure's status */
	_Atomic int failed_errno;
	struct chan_tx tx;
	struct chan_rx rx;
	_Atomic int64_t heard_ns; /* when bytes arrived last */
	int64_t trimmed_ns;	  /* control thread: heard_ns when unused memory was given back */
	int64_t stuck_ns;	  /* control thread: for how long nothing sent was acknowledged */
	_Atomic uint32_t refs;
	struct chan_sample sample;
	struct sockaddr_storage ends[2]; /* addresses of the connection: local, remote */
	bool ends_known;
	struct chan_pins pins;
	struct chan_lease lease;
	struct chan_stop stop;
};

/* The caller holds link.lock, or a reference to the channel. */
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
