/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A channel: one data connection to a peer. Each direction has an owner, the thread that sends or
 * receives at the moment. From chan_start to chan_stop only owners call the transport. The control
 * thread is an owner only in chan_trim(): it must not wait for a page of memory, as others may.
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

/* State of a direction of a channel. The owner is the thread that sends or receives. */
enum engine_owner {
	OWNER_FREE = 0,
	OWNER_BUSY,
	OWNER_AGAIN, /* busy; another thread has asked for a further run of the direction */
	OWNER_LAST,  /* busy; the owner closes the direction when it leaves */
	OWNER_CLOSED
};

/* Functions that the worker or the holder of a reference calls, with no lock held. */
struct chan_calls {
	void (*event)(struct engine_chan *chan, uint32_t events); /* `events`: as from epoll */
	/* the worker has taken the channel from its list of kicked channels */
	void (*kicked)(struct engine_chan *chan);
	/* drops the worker's reference; called some time after worker_bury() */
	void (*buried)(struct engine_chan *chan);
	void (*free)(struct engine_chan *chan); /* called when the last reference was dropped */
};

/* Which epoll events the worker watches for the channel. */
struct chan_poll {
	/* guards the next three fields; may be held across a call of the transport */
	pthread_mutex_t lock;
	uint32_t events; /* events watched for both directions together */
	uint32_t recv_events, send_events;
	_Atomic bool watched; /* the descriptor is in the worker's epoll set */
};

/* Used while an application polls and receives on the channel itself (app_poll.c). */
struct chan_app {
	struct list_node node; /* entry in worker->lent; under worker.lock */
	_Atomic bool kept; /* the application receives, not the worker; written by the rx owner */
	_Atomic int64_t polled_ns; /* when an application last received on the channel */
};

/* The channel's entry in its worker's list of kicked channels. */
struct chan_kick {
	struct list_node node; /* entry in worker->kicked; under worker.lock */
	_Atomic int queued;
	bool closed;	   /* under worker.lock: the channel never enters the list again */
	_Atomic int again; /* the worker must receive even if epoll reports nothing */
};

/* Figures that the worker last read from the transport. */
struct chan_sample {
	/* futex; not 0: a sample is requested, and the worker has not taken it yet */
	_Atomic uint32_t asked;
	_Atomic int64_t asked_ns; /* when the sample was requested */
	pthread_mutex_t lock;	  /* guards `info`; never held across a call of the transport */
	struct net_chan_info info;
	bool late; /* control thread: the worker had not taken the sample by the last heartbeat */
};

/* State of a channel that stops, from chan_stop() on. */
struct chan_stop {
	_Atomic int shutdown;	 /* the worker must shut the transport down */
	_Atomic uint32_t inside; /* number of directions whose owner has not left */
	/* called once by the control thread when `inside` is 0 */
	void (*left)(struct engine_chan *chan);
	struct sys_post left_post;
	/* entry in worker->graves; under worker.lock */
	struct list_node grave;
};

/* Memory of frames that were sent without a copy and may still be read: hold.h. */
struct chan_pins {
	struct list_node frames; /* pins of the channel's frames; under link.lock */
	struct list_node node;	 /* entry in link.pins.lost or .fenced; holds a reference */
	struct reap_item reap;	 /* if the peer is dead: the reaper's entry, with a reference */
	int64_t until_ns;	 /* control thread: when the reaper stops waiting for the peer */
};

/* The last frame of a stopped channel, while the peer may read the frame's memory: lease.c. */
struct chan_lease {
	struct reap_item reap; /* the reaper's entry, with a reference */
	struct core_io io;
};

struct engine_chan {
	const struct chan_calls *calls;
	struct engine_peer *peer;
	uint32_t index, epoch;
	uint32_t iface; /* index of the local address's interface; 0: none */
	struct net_chan *net;
	struct engine_worker *worker;
	struct engine_comms *comms;	/* of a plugin channel: its comms; else NULL */
	_Atomic int tx_owner, rx_owner; /* enum engine_owner */
	/* the transport is full; epoll reports when it takes more bytes */
	_Atomic int tx_blocked;
	struct chan_kick kick;
	struct chan_poll poll;
	struct chan_app app;
	_Atomic int failed; /* status of the first failure; 0: none */
	_Atomic int failed_errno;
	struct chan_tx tx;
	struct chan_rx rx;
	_Atomic int64_t heard_ns; /* when bytes last arrived */
	int64_t trimmed_ns;	  /* control thread: heard_ns at the last chan_trim() */
	int64_t stuck_ns;	  /* control thread: how long sent bytes have been unacknowledged */
	_Atomic uint32_t refs;
	struct chan_sample sample;
	struct sockaddr_storage ends[2]; /* addresses of the connection: local, remote */
	bool ends_known;
	struct chan_pins pins;
	struct chan_lease lease;
	struct chan_stop stop;
};

/* Adds a reference. The caller holds link.lock or another reference. */
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
