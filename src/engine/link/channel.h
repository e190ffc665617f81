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
#include "net/net.h"
#include "sys/loop.h"
#include "wire/table.h"
#include <tcpx/types.h>

#define ENGINE_CHUNK_BYTES (512u << 10) /* where neither side has a wish */
#define ENGINE_FILLED_CHUNK_BYTES (2u << 20)
#define ENGINE_CHUNK_MIN 4096u
#define ENGINE_CHUNK_MAX (16u << 20)
#define ENGINE_TX_BUFFER (128u << 10) /* a batch, the largest tables, a copied payload */
#define ENGINE_RX_BUFFER (FRAME_TABLE_MAX + 4096)
#define ENGINE_COPY_BYTES CORE_SMALL_BYTES /* up to here a payload is copied, above never */

struct engine_chan;
struct engine_comms;
struct engine_peer;
struct engine_runtime;
struct engine_stage;
struct engine_worker;
struct mem_region;
struct path_ops;
struct prefill_slice;

/* Who may run one direction of a channel. */
enum engine_owner {
	OWNER_FREE = 0,
	OWNER_BUSY,
	OWNER_AGAIN, /* busy, and somebody came by meanwhile */
	OWNER_LAST,  /* busy, and closes when it leaves */
	OWNER_CLOSED
};

/* Slices that one chunk may lie in: those of a chunk of 16 MiB, and one at each end. */
#define CHAN_SLICES_MAX (ENGINE_CHUNK_MAX / CORE_FILL_BYTES + 2)

struct chan_tx {
	uint8_t *buf;
	uint32_t start, end;
	bool big;     /* a frame whose payload is not copied ends the batch */
	bool posting; /* its path has not taken the frame yet */
	bool aborted; /* the rest of it comes from scratch */
	struct core_tx frame;
	const struct path_ops *path; /* of the frame; NULL: there was none yet */
	struct iovec *iov;
	uint32_t niov, at;
	uint64_t left;
	uint8_t trailer[FRAME_TRAILER_BYTES];
	uint32_t trailer_sent;
	struct prefill_slice *slices[CHAN_SLICES_MAX]; /* staged source: where it was filled */
	uint32_t nslices;
	bool vanishing;		    /* the source may vanish, and is sent from where it lies */
	struct engine_stage *stage; /* staged source: a slot of its own */
	_Atomic int filling; /* into the slot; orphan then takes the frame if its channel goes */
	struct core_io *orphan;
	bool held;	  /* the slices stay as they are until the peer has taken the frame */
	bool torn;	  /* the peer knows the frame for aborted, whatever its trailer says */
	_Atomic int lent; /* the peer may read the frame's memory now: the call stays open */
};

/* A region that a chunk is written to, with an io reference; its key, and pieces in a row. */
struct chan_held {
	struct mem_region *region;
	uint64_t key, pieces;
};

enum chan_rx_state { RX_HEADER = 0, RX_PAYLOAD, RX_TRAILER };

struct chan_rx {
	enum chan_rx_state state;
	uint8_t *buf, *message;
	uint32_t used, have;
	struct frame frame;
	const struct path_ops *path; /* of the frame */
	struct core_rx core;
	struct iovec *iov;
	uint32_t niov, at;
	struct core_cursor next; /* of a program: the first piece that iov has no room for */
	uint64_t beyond;	 /* bytes from there on */
	uint64_t left;
	bool aborted, vanishing; /* the rest goes to scratch; iov is memory that may vanish */
	bool bulk;		 /* the last frame was large: read little ahead */
	tcpx_status verdict;	 /* of a DATA frame's access */
	struct chan_held *held;
	uint32_t nheld, cap_held;
	bool torn; /* some of it was taken back by the sender: the frame counts as aborted */
	struct engine_stage *stage;  /* staged destination: its slot */
	struct engine_stage *commit; /* to be started behind core_rx_end */
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

/* chan.c */
tcpx_status chan_create(struct engine_peer *peer, uint32_t index, uint32_t epoch,
			struct net_chan *net, int node, struct engine_chan **out_chan);
void chan_start(struct engine_chan *chan); /* into its worker's set */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err);
/* Control thread, each beat: a channel that was idle since the last one keeps little memory. */
void chan_trim(struct engine_chan *chan, int64_t now_ns);
void chan_tx_kick(struct engine_chan *chan);
bool chan_tx_try(struct engine_chan *chan); /* false: whoever has it kicks the worker */
void chan_tx_leave(struct engine_chan *chan);
bool chan_rx_try(struct engine_chan *chan);
void chan_rx_leave(struct engine_chan *chan);
int chan_wait_recv(struct engine_chan *chan);
void chan_keep_recv(struct engine_chan *chan);
int chan_wait_send(struct engine_chan *chan);
void chan_sent_all(struct engine_chan *chan); /* tx owner: no more events for room */

/* chan_stop.c */
/* Control thread. Nobody gets in any more. True: nobody is inside either, and the channel is torn
 * down; the descriptor closes with the last reference. False: a call is under way, which may wait
 * for a page of the caller's memory for long; left is called on this thread when it has returned
 * and the channel is torn down. */
bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan));

/* chan_sample.c */
/* Asks the worker for a sample of the transport. False: it owes one since an earlier call. */
bool chan_sample_ask(struct engine_chan *chan);
void chan_sample_take(struct engine_chan *chan); /* the worker: the one that is asked for */
void chan_sample_drop(struct engine_chan *chan); /* there will be none any more */
/* The last one. Any thread. */
void chan_sample_read(struct engine_chan *chan, struct net_chan_info *out_info);
/* New ones of count channels; of a worker that is in a call for long the last one. No lock held. */
void chan_sample_all(struct engine_chan *const *chans, uint32_t count);

/* chan_tx.c, chan_rx.c: with the direction's ownership */
void chan_tx_run(struct engine_chan *chan, uint64_t budget);
void chan_tx_drop(struct engine_chan *chan);
/* lease.c, control thread: a stopped channel whose peer may be reading; takes the frame's io. */
void lease_start(struct engine_chan *chan);
void leases_init(struct engine_runtime *runtime);
void leases_forget(struct engine_runtime *runtime); /* the runtime stops */
/* Receives until nothing is there or budget bytes came; true when something came. */
void chan_rx_run(struct engine_chan *chan, uint64_t budget);
void chan_rx_drop(struct engine_chan *chan);
/* Before the worker sleeps on it: in the middle of a large payload not for every segment. */
void chan_rx_mark(struct engine_chan *chan);
/* peer.lock: the region goes away; what is parked lets go of it. */
void chan_rx_forget(struct engine_chan *chan, struct mem_region *region);

#endif
