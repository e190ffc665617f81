/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a peer on this host copies from by itself. The owner of a source offers a region, the
 * peer maps it and says so; from then on chunks of that region carry where they lie, not their
 * bytes. docs/design/local.md has the rules.
 *
 * Invariant: from the offer until the peer said GONE, or its lease ended, the share has an io
 * reference of its region: deregister waits for the peer, not for our own frames alone.
 */
#ifndef ENGINE_PATH_SHARE_H
#define ENGINE_PATH_SHARE_H

#include "engine/engine.h"

enum share_state {
	SHARE_NEW = 0,	 /* to be exported */
	SHARE_EXPORTING, /* the kind is at it */
	SHARE_TELL,	 /* the offer is to be sent */
	SHARE_OFFERED,
	SHARE_OPEN,
	SHARE_REFUSED, /* the peer cannot: bytes are sent. No io reference */
	SHARE_REVOKE,  /* that is to be sent */
	SHARE_REVOKED, /* GONE is to come */
};

/* A region of ours. Fields: peer.lock; in a list of the runtime: control thread. */
struct engine_share {
	struct mem_share job;  /* first */
	struct list_node node; /* engine_shares.out */
	struct list_node due;  /* engine_shares.out_due, or runtime.shares */
	struct engine_peer *peer;
	struct mem_region *region;
	struct engine_chan *chan; /* whose words tell whether the peer reads still */
	enum share_state state;
	uint64_t key;	  /* the peer's own word for it, told back; 0: it has none */
	bool retired;	  /* while EXPORTING: it is to end */
	bool by_fd;	  /* the peer asks for a descriptor, job.fd until it has answered */
	bool counted;	  /* among out_fds */
	int64_t again_ns; /* REFUSED: asked once more from then on; 0: never */
};

enum map_state { MAP_OPENING = 0, MAP_OPEN, MAP_FAILED, MAP_CLOSING, MAP_CLOSED };

/* A region of the peer's. */
struct engine_map {
	struct mem_share job;	    /* first */
	struct list_node node, due; /* engine_shares.in, in_due */
	struct list_node key_node;  /* engine_shares.keys, if it has one */
	struct engine_peer *peer;
	struct engine_chan *chan; /* where we say that we read */
	struct mem_mapping *mapping;
	uint64_t id, key, length;
	enum map_state state;
	tcpx_status status;	   /* FAILED: why */
	uint32_t uses;		   /* moves under way */
	bool revoked;		   /* no use begins; closed behind the last one */
	bool counted;		   /* among in_fds, until it is open */
	struct local_fetch *fetch; /* OPENING: its descriptor is asked for; control thread */
};

struct engine_shares {
	struct list_node out[ENGINE_SHARE_BUCKETS], in[ENGINE_SHARE_BUCKETS];
	struct list_node keys[ENGINE_SHARE_BUCKETS]; /* of in */
	struct list_node out_due, in_due;	     /* something is to be told */
	struct list_node out_wait;		     /* shares: other descriptors come first */
	uint32_t out_fds, in_fds;		     /* descriptors the peer, and we, may ask for */
	uint32_t nin;
	uint32_t norphans;	 /* shares in runtime.shares; control thread */
	struct engine_map *last; /* found */
};

/* peer.lock, at each post: by reference or not? Offers memory that the peer does not know yet. */
bool share_carries(struct engine_request *request);
/* Before the first post, so that its answer may be there by then. No lock. */
void share_ahead(struct engine_request *request);
/* A READ's source, regions in push->prog: by reference if the reader asks for it. keys: by which it
 * named them; it is told no other. ERR_REMOTE: it asks for what it cannot have. No lock. */
tcpx_status share_serve(struct engine_peer *peer, struct core_push *push, const uint64_t *keys,
			bool asked);
/* peer.lock: a region goes away. */
void share_forget(struct engine_peer *peer, struct mem_region *region);

/* share_msg.c: control thread */
tcpx_status share_take(struct engine_peer *peer, const struct frame *frame, const void *payload);
void share_run(struct engine_peer *peer);   /* tells what is due */
void share_again(struct engine_peer *peer); /* the control link came back; peer.lock */
/* share_fetch.c: control thread */
int share_fd_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number);
/* share_end.c: control thread */
/* The peer, which is dead, may still read memory of ours. No lock held. */
bool share_leased(struct engine_peer *peer);
void share_peer_dead(struct engine_peer *peer);
void share_lease_over(struct engine_peer *peer); /* if it is: of a dead peer */
void share_peer_free(struct engine_peer *peer);
void share_leases_init(struct engine_runtime *runtime);

/* between the files */
struct engine_shares *share_table(struct engine_peer *peer, bool make);	  /* peer.lock; or NULL */
struct engine_map *share_map_find(struct engine_peer *peer, uint64_t id); /* peer.lock */
struct engine_share *share_find(struct engine_peer *peer, uint64_t id);	  /* peer.lock */
struct engine_chan *share_chan(struct engine_peer *peer); /* peer.lock; no reference; or NULL */
void share_due(struct engine_share *share);		  /* peer.lock */
void share_free(struct engine_share *share);		  /* control thread, or its export's end */
void share_map_put(struct engine_map *map);		  /* a use ended; no lock */
/* peer.lock: 1: nobody uses it, and it is the caller's to close, by share_map_close. */
bool share_map_idle(struct engine_map *map);
void share_map_close(struct engine_map *map); /* no lock */
void share_map_free(struct engine_map *map);  /* it is not mapped; no lock */

/* share_fetch.c. Of an export to another process: false: not now. peer.lock */
bool share_fd_begin(struct engine_share *share);
/* Nobody asks for its descriptor any more. peer.lock; what it returns is closed behind it. */
int share_fd_end(struct engine_share *share);
void share_fd_close(int fd);		      /* or -1. No lock held */
bool share_fd_tell(struct engine_peer *peer); /* false: the peer cannot ask. Control thread */
/* Of a map: false: too many are under way. peer.lock */
bool share_fetch_begin(struct engine_map *map, struct engine_shares *table);
void share_fetch_end(struct engine_map *map); /* peer.lock */
/* Ends by share_map_open, if it started. Control thread, no lock. */
tcpx_status share_fetch_start(struct engine_map *map);
/* True: it was under way, and the map has FAILED. Control thread, peer.lock; behind that
 * share_fetch_cancel, without a lock. */
bool share_fetch_stop(struct engine_map *map);
void share_fetch_cancel(struct engine_map *map);
/* share_msg.c: with the descriptor, if it has one; status: what became of that. No lock. */
void share_map_open(struct engine_map *map, tcpx_status status);

/*
 * Both ends in one process have the ring mapped at addresses of their own, which are two objects to
 * C's memory model: what a frame by reference promises is ordered by this word instead.
 */
extern _Atomic uint32_t share_gate;

#endif
