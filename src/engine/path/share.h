/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a peer on this host copies from directly. The owner of a source offers a region, and
 * the peer maps it and answers; from then on chunks of that region carry their location instead of
 * their bytes. docs/design/local.md has the rules.
 *
 * Invariant: from the offer until the peer has said GONE, or its lease has ended, the share has an
 * io reference of its region, so deregister waits for the peer, too.
 */
#ifndef ENGINE_PATH_SHARE_H
#define ENGINE_PATH_SHARE_H

#include "engine/link/engine.h"

enum share_state {
	SHARE_NEW = 0,	 /* its export has not begun */
	SHARE_EXPORTING, /* the memory kind exports it */
	SHARE_TELL,	 /* the offer has to be sent */
	SHARE_OFFERED,
	SHARE_OPEN,
	SHARE_REFUSED, /* the peer cannot map it, so bytes are sent; no io reference */
	SHARE_REVOKE,  /* REVOKE has to be sent */
	SHARE_REVOKED, /* waits for the peer's GONE */
};

/* A region of this end that is offered. Guarded by link.lock; at the reaper, by the control
 * thread. */
struct engine_share {
	struct mem_share job;  /* must be the first member */
	struct list_node node; /* engine_shares.out */
	struct list_node due;  /* engine_shares.out_due, or out_wait */
	struct reap_item reap; /* used after the peer died */
	struct engine_peer *peer;
	struct mem_region *region;
	struct engine_chan *chan; /* its shared memory says whether the peer still reads */
	enum share_state state;
	uint64_t key;	  /* the key by which the peer names it, sent with the offer; 0: none */
	bool retired;	  /* the region is deregistered, and the share ends */
	bool by_fd;	  /* the peer fetches a descriptor; job.fd is open until it answers */
	bool counted;	  /* counted in out_fds */
	int64_t again_ns; /* in REFUSED: offered again from this time on; 0: never */
};

enum map_state { MAP_OPENING = 0, MAP_OPEN, MAP_FAILED, MAP_CLOSING, MAP_CLOSED };

/* A region that the peer offered. */
struct engine_map {
	struct mem_share job;	    /* must be the first member */
	struct list_node node, due; /* engine_shares.in, in_due */
	struct list_node key_node;  /* engine_shares.keys, if it has a key */
	struct engine_peer *peer;
	struct engine_chan *chan; /* its shared memory tells the peer that this end reads */
	struct mem_mapping *mapping;
	uint64_t id, key, length;
	enum map_state state;
	tcpx_status status;	   /* in FAILED: why */
	uint32_t uses;		   /* number of chunks and direct requests that use it */
	bool revoked;		   /* no use begins any more; closed after the last use */
	bool counted;		   /* counted in in_fds until it is open */
	struct local_fetch *fetch; /* in OPENING: its descriptor is being fetched; control thread */
};

struct engine_shares {
	struct list_node out[ENGINE_SHARE_BUCKETS], in[ENGINE_SHARE_BUCKETS];
	struct list_node keys[ENGINE_SHARE_BUCKETS]; /* the mappings of in, by key */
	struct list_node out_due, in_due;	     /* those for which a frame has to be sent */
	struct list_node out_wait; /* shares that wait, since out_fds is at its limit */
	uint32_t out_fds, in_fds;  /* descriptors that the peer, or this end, may fetch now */
	uint32_t nin;
	uint64_t direct_bytes;	 /* of direct requests under way */
	bool peer_lists;	 /* the peer moves lists of small pieces by a kernel */
	uint32_t norphans;	 /* shares at the reaper; control thread */
	struct engine_map *last; /* the mapping that was found last */
};

/* Called at each post, with link.lock held: whether the request goes by reference. Offers memory
 * that the peer does not know yet. */
bool share_carries(struct engine_request *request);
/* A WRITE of the peer into memory of this end was accepted: offers that memory, so that the next
 * WRITE needs no chunk. Called by the rx owner without a lock. */
void share_written(struct engine_chan *chan);
/* Offers memory before the first post, so that the answer may have come by then. No lock. */
void share_ahead(struct engine_request *request);
/* The source of a READ, the regions of push->prog: answers by reference if the reader requests it.
 * keys: those by which the reader named the regions; it learns no others. ERR_REMOTE: the request
 * is not possible. No lock. */
tcpx_status share_serve(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			bool asked);
/* A region is deregistered. link.lock held. */
void share_forget(struct engine_peer *peer, struct mem_region *region);

/* share_msg.c: control thread */
tcpx_status share_take(struct engine_peer *peer, const struct frame *frame, const void *payload);
void share_run(struct engine_peer *peer);   /* sends the frames that are due */
void share_again(struct engine_peer *peer); /* the control link is back; link.lock held */
/* share_fetch.c: control thread */
int share_fd_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number);
/* share_end.c: control thread */
/* Whether a dead peer may still read memory of this end. No lock held. */
bool share_leased(struct engine_peer *peer);
void share_peer_dead(struct engine_peer *peer);
void share_lease_over(struct engine_peer *peer); /* dead peer: ends requests if no lease is left */
void share_peer_free(struct engine_peer *peer);

/* Used by several files. "link.lock": the caller holds it; "or NULL": so may the result be. */
struct engine_shares *share_table(struct engine_peer *peer, bool make);	  /* link.lock; or NULL */
struct engine_map *share_map_find(struct engine_peer *peer, uint64_t id); /* link.lock held */
/* The open mapping of the region with that key, or NULL. peer->shared is not NULL. link.lock
 * held. */
struct engine_map *share_map_of_key(struct engine_peer *peer, uint64_t key);
bool share_moves_lists(void); /* this end's GPUs have a kernel for lists; any thread */
struct engine_share *share_find(struct engine_peer *peer, uint64_t id); /* link.lock */
struct engine_chan *share_chan(struct engine_peer *peer); /* link.lock; no reference; or NULL */
void share_due(struct engine_share *share);		  /* link.lock */
void share_free(struct engine_share *share); /* control thread, or the end of its export */
void share_map_put(struct engine_map *map);  /* a use has ended; no lock */
/* True: the mapping is revoked and no longer used, and the caller must call share_map_close().
 * link.lock held. */
bool share_map_idle(struct engine_map *map);
void share_map_close(struct engine_map *map); /* no lock */
void share_map_free(struct engine_map *map);  /* it must not be mapped; no lock */

/* share_fetch.c. Whether an export may begin; false: it waits, since too many descriptors are in
 * use. link.lock held. */
bool share_fd_begin(struct engine_share *share);
/* Takes the descriptor, which the peer no longer needs, out of the share. link.lock held; the
 * caller then closes the descriptor by share_fd_close(). */
int share_fd_end(struct engine_share *share);
void share_fd_close(int fd);		      /* fd may be -1; no lock held */
bool share_fd_tell(struct engine_peer *peer); /* false: the peer cannot fetch. Control thread */
/* Whether the mapping may fetch a descriptor; false: too many are being fetched. link.lock held. */
bool share_fetch_begin(struct engine_map *map, struct engine_shares *table);
void share_fetch_end(struct engine_map *map); /* link.lock */
/* Begins to fetch the descriptor, which ends by share_map_open(). Control thread, no lock. */
tcpx_status share_fetch_start(struct engine_map *map);
/* True: the fetch was under way, and the mapping has FAILED. Control thread, link.lock held;
 * share_fetch_cancel() follows, without the lock. */
bool share_fetch_stop(struct engine_map *map);
void share_fetch_cancel(struct engine_map *map);
/* share_msg.c: opens the mapping, by its descriptor if it has one; status: how the fetch ended. No
 * lock. */
void share_map_open(struct engine_map *map, tcpx_status status);

/*
 * Two ends in one process map the ring at different addresses, which C's memory model treats as
 * different objects. Accesses to this variable order the memory that a frame by reference names.
 */
extern _Atomic uint32_t share_gate;

#endif
