/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a peer on this host copies from directly. The end that has a region offers it, and
 * the peer maps it and answers; from then on chunks of that region carry their location instead of
 * their bytes. docs/design/local.md has the rules.
 *
 * Invariant: from the offer until the peer has said GONE, or is dead and no longer reads, the share
 * has an io reference of its region, so deregister waits for the peer, too.
 */
#ifndef ENGINE_PATH_SHARE_H
#define ENGINE_PATH_SHARE_H

#include "engine/link/engine.h"

enum share_state {
	SHARE_NEW = 0,	 /* its export has not begun */
	SHARE_EXPORTING, /* the memory kind exports it */
	SHARE_TELL,	 /* the offer has to be sent */
	SHARE_OFFERED,	 /* the peer has not answered */
	SHARE_OPEN,	 /* the peer has mapped it */
	SHARE_REFUSED,	 /* the peer cannot map it, so bytes are sent; no io reference */
	SHARE_REVOKE,	 /* REVOKE has to be sent */
	SHARE_REVOKED,	 /* waits for the peer's GONE */
};

/* A region of this end that is offered. Guarded by link.lock; after the peer died it belongs to the
 * control thread. */
struct engine_share {
	struct mem_share job;  /* must be the first member */
	struct list_node node; /* engine_shares.out */
	struct list_node due;  /* engine_shares.out_due or out_wait */
	struct reap_item reap; /* used after the peer died */
	struct engine_peer *peer;
	struct mem_region *region;
	struct engine_chan *chan; /* it tells this end whether the peer still reads */
	enum share_state state;
	uint64_t key;	  /* by which the peer names the region, sent with the offer; 0: none */
	bool retired;	  /* the region is deregistered, and the share ends */
	bool by_fd;	  /* the peer fetches job.fd, which is open until the peer answers */
	bool counted;	  /* counted in engine_shares.out_fds */
	int64_t again_ns; /* in REFUSED: a use after this time offers it again; 0: none */
};

enum map_state { MAP_OPENING = 0, MAP_OPEN, MAP_FAILED, MAP_CLOSING, MAP_CLOSED };

/* A region that the peer offered, as this end maps it. */
struct engine_map {
	struct mem_share job;	    /* must be the first member */
	struct list_node node, due; /* engine_shares.in, in_due */
	struct list_node key_node;  /* engine_shares.keys, if it has a key */
	struct engine_peer *peer;
	struct engine_chan *chan; /* it tells the peer whether this end reads */
	struct mem_mapping *mapping;
	uint64_t id, key, length;
	enum map_state state;
	tcpx_status status;	   /* in FAILED: why */
	uint32_t uses;		   /* number of chunks and direct requests that use it */
	bool revoked;		   /* no new use begins; closed after the last use */
	bool counted;		   /* counted in engine_shares.in_fds until it is open */
	struct local_fetch *fetch; /* in OPENING: its descriptor is being fetched; control thread */
};

struct engine_shares {
	struct list_node out[ENGINE_SHARE_BUCKETS], in[ENGINE_SHARE_BUCKETS];
	struct list_node keys[ENGINE_SHARE_BUCKETS]; /* the mappings of `in`, by key */
	struct list_node out_due, in_due;	     /* a frame must be sent about them */
	struct list_node out_wait; /* shares that wait because out_fds is at its limit */
	uint32_t out_fds, in_fds;  /* descriptors that the peer, or this end, may fetch now */
	uint32_t nin;		   /* number of mappings in `in` */
	uint64_t direct_bytes;	   /* bytes of direct requests (direct.h) under way */
	bool peer_lists;	   /* the peer has a kernel that copies lists */
	uint32_t norphans;	   /* shares left to the reaper; control thread */
	struct engine_map *last;   /* the mapping that was found last */
};

/* Called at each post, with link.lock held: whether the request goes by reference or direct. Offers
 * memory that the peer has not mapped. */
bool share_carries(struct engine_request *request);
/* Called by the rx owner, no lock held, for a chunk of the peer's WRITE: offers its destination, so
 * that the peer can copy the bytes of later WRITEs itself (direct.h). */
void share_written(struct engine_chan *chan);
/* At prepare, no lock held: offers the source, so that the peer can map it before the post. */
void share_ahead(struct engine_request *request);
/* Prepares the answer to a READ: by reference if the reader asked for that (asked). keys: those by
 * which the reader named the regions of resp->segs, the only ones that an offer tells. ERR_REMOTE:
 * by reference is not possible. No lock held. */
tcpx_status share_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked);
/* Called when the region is deregistered, link.lock held: ends its share. */
void share_forget(struct engine_peer *peer, struct mem_region *region);

/* share_msg.c: control thread */
tcpx_status share_take(struct engine_peer *peer, const struct frame *frame, const void *payload);
void share_run(struct engine_peer *peer);   /* does what is due: sends frames, begins exports */
void share_again(struct engine_peer *peer); /* when the control link is back; link.lock held */
/* share_fetch.c: control thread */
int share_fd_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number);
/* share_end.c: control thread, no lock held. Whether a dead peer may still read memory of this
 * end. */
bool share_leased(struct engine_peer *peer);
void share_peer_dead(struct engine_peer *peer);	 /* ends all shares and mappings */
void share_lease_over(struct engine_peer *peer); /* if the dead peer reads no more: ends requests */
void share_peer_free(struct engine_peer *peer);

/* Used by several files. "link.lock": the caller holds it; "or NULL": the result may be NULL. */
struct engine_shares *share_table(struct engine_peer *peer, bool make);	  /* link.lock; or NULL */
struct engine_map *share_map_find(struct engine_peer *peer, uint64_t id); /* link.lock held */
/* The open mapping of the peer's region with that key, or NULL. peer->shared may not be NULL; the
 * caller holds link.lock. */
struct engine_map *share_map_of_key(struct engine_peer *peer, uint64_t key);
bool share_moves_lists(void); /* whether this end's GPUs have a kernel for lists; any thread */
struct engine_share *share_find(struct engine_peer *peer, uint64_t id); /* link.lock */
struct engine_chan *share_chan(struct engine_peer *peer); /* link.lock; no reference; or NULL */
void share_due(struct engine_share *share);  /* link.lock; share_run() takes its next step */
void share_free(struct engine_share *share); /* control thread, or the thread of its export */
void share_map_put(struct engine_map *map);  /* ends a use; no lock */
/* True: the mapping is revoked and not used, and after unlocking the caller must close it by
 * share_map_close(). link.lock held. */
bool share_map_idle(struct engine_map *map);
void share_map_close(struct engine_map *map); /* no lock */
void share_map_free(struct engine_map *map);  /* one that is not mapped now; no lock */

/* share_fetch.c. Counts the descriptor of an export that is to begin. False: too many descriptors
 * wait for the peer, and the share becomes due when the export may begin. link.lock held. */
bool share_fd_begin(struct engine_share *share);
/* Takes the descriptor, which the peer no longer needs, out of the share; -1: none. link.lock held.
 * After unlocking the caller closes the descriptor by share_fd_close(). */
int share_fd_end(struct engine_share *share);
void share_fd_close(int fd);		      /* fd may be -1; no lock held */
bool share_fd_tell(struct engine_peer *peer); /* false: peer cannot fetch. Control thread */
/* Counts a fetch for the mapping. False: too many fetches run. link.lock held. */
bool share_fetch_begin(struct engine_map *map, struct engine_shares *table);
void share_fetch_end(struct engine_map *map); /* link.lock */
/* Begins to fetch the descriptor; at the end calls share_map_open(). Control thread, no lock. */
tcpx_status share_fetch_start(struct engine_map *map);
/* Fails the mapping if its fetch is under way, and returns whether it is. Control thread, link.lock
 * held; after unlocking the caller calls share_fetch_cancel(). */
bool share_fetch_stop(struct engine_map *map);
void share_fetch_cancel(struct engine_map *map);
/* share_msg.c: begins to open the mapping, by its descriptor if it has one. status: how the fetch
 * ended; an error fails the mapping. No lock held. */
void share_map_open(struct engine_map *map, tcpx_status status);

/* Written before a frame by reference is sent, and read before the bytes that it names are copied:
 * orders the two if both ends are in one process. Accesses to the ring do not, since both ends map
 * it at different addresses, which C's memory model treats as different objects. */
extern _Atomic uint32_t share_gate;

#endif
