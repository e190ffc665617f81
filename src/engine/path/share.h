/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sharing of memory with a peer on the same host. The end that has a region offers it, and the peer
 * maps it and answers. After that, chunks of the region carry their location instead of their
 * bytes. docs/design/local.md has the rules.
 *
 * Invariant: a share has an io reference of its region until the offer is given up, the peer has
 * sent GONE, or the peer is dead and no longer reads. A deregister waits until then.
 */
#ifndef ENGINE_PATH_SHARE_H
#define ENGINE_PATH_SHARE_H

#include "engine/link/engine.h"

enum share_state {
	SHARE_NEW = 0,	 /* the export of the region has not begun */
	SHARE_EXPORTING, /* the memory kind is exporting the region */
	SHARE_TELL,	 /* the offer must be sent */
	SHARE_OFFERED,	 /* the offer was sent, and the peer has not answered */
	SHARE_OPEN,	 /* the peer has mapped the region */
	SHARE_REFUSED,	 /* not shared: bytes are sent, and there is no io reference */
	SHARE_REVOKE,	 /* a REVOKE frame must be sent */
	SHARE_REVOKED,	 /* REVOKE was sent, and the peer has not answered GONE */
};

/* A local region that is offered to the peer. Guarded by link.lock. After the peer's death only the
 * control thread uses it, or the thread of an export under way. */
struct engine_share {
	struct mem_share job;  /* must be the first member */
	struct list_node node; /* in engine_shares.out */
	struct list_node due;  /* in engine_shares.out_due or out_wait */
	struct reap_item reap; /* used after the peer's death */
	struct engine_peer *peer;
	struct mem_region *region;
	struct engine_chan *chan; /* on which the peer says whether it still reads */
	enum share_state state;
	uint64_t key;	  /* the peer names the region by it; sent with the offer; 0: not known */
	bool retired;	  /* the region is deregistered, so the share must be freed */
	bool by_fd;	  /* the peer fetches job.fd, which is open until the peer answers */
	bool counted;	  /* counted in engine_shares.out_fds */
	int64_t again_ns; /* in SHARE_REFUSED: a use after this time offers it again; 0: never */
};

enum map_state { MAP_OPENING = 0, MAP_OPEN, MAP_FAILED, MAP_CLOSING, MAP_CLOSED };

/* A region of the peer, as this end maps it. */
struct engine_map {
	struct mem_share job;	    /* must be the first member */
	struct list_node node, due; /* entries in engine_shares.in and in_due */
	struct list_node key_node;  /* in engine_shares.keys, if `key` is not 0 */
	struct engine_peer *peer;
	struct engine_chan *chan; /* on which this end says that it reads */
	struct mem_mapping *mapping;
	uint64_t id, key, length;
	enum map_state state;
	tcpx_status status;	   /* in MAP_FAILED: the reason */
	uint32_t uses;		   /* number of uses by chunks and direct requests */
	bool revoked;		   /* no new use may begin; closed after the last use */
	bool counted;		   /* counted in engine_shares.in_fds */
	struct local_fetch *fetch; /* the fetch of its descriptor, or NULL; control thread */
};

struct engine_shares {
	struct list_node out[ENGINE_SHARE_BUCKETS], in[ENGINE_SHARE_BUCKETS];
	struct list_node keys[ENGINE_SHARE_BUCKETS]; /* mappings of `in` that have a key, by key */
	struct list_node out_due, in_due;	     /* those for which share_run() has work */
	struct list_node out_wait; /* shares that wait because out_fds is at its limit */
	uint32_t out_fds, in_fds;  /* descriptors open for the peer; fetches by this end */
	uint32_t nin;		   /* number of mappings in `in` */
	uint64_t direct_bytes;	   /* bytes of direct requests (direct.h) under way */
	bool peer_lists;	   /* the peer has a kernel that copies lists */
	uint32_t norphans;	   /* shares that the reaper will free; control thread */
	struct engine_map *last;   /* the mapping that share_map_find() found last */
	char why[320];		   /* tcpx_peer_info.share_error */
};

/* Called by path_choose(), with link.lock held: returns whether the request may go by reference or
 * direct. Offers those local regions of a WRITE or SEND that the peer has not mapped. */
bool share_carries(struct engine_request *request);
/* Called by the rx owner, with no lock held, for an arriving chunk of a WRITE. Offers the chunk's
 * destination, so that the peer can copy the bytes of later WRITEs itself (direct.h). */
void share_written(struct engine_chan *chan);
/* Called when a request is prepared, with no lock held: offers the source of a WRITE or SEND, so
 * that the peer can map it before the post, and prepares direct copies (direct.h). */
void share_ahead(struct engine_request *request);
/* Makes the answer to a READ go by reference if the reader requested that (`asked`), or returns
 * ERR_REMOTE if that is not possible. If not `asked`, only offers memory for later READs. The
 * reader named the regions of resp->segs by `keys`; offers reveal no other keys. No lock held. */
tcpx_status share_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked);
/* Called when the region is deregistered, link.lock held: ends its share. */
void share_forget(struct engine_peer *peer, struct mem_region *region);

/* In share_msg.c, for the control thread. share_take() handles a SHARE frame of the peer. */
tcpx_status share_take(struct engine_peer *peer, const struct frame *frame, const void *payload);
void share_run(struct engine_peer *peer);   /* sends due frames, begins due exports */
void share_again(struct engine_peer *peer); /* sends again what is unanswered; link.lock */
/* In share_fetch.c, control thread: called when a process asks for the descriptor of a region. */
int share_fd_asked(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint64_t number);
/* In channel/share_end.c, for the control thread, no lock held. share_leased() returns whether a
 * dead peer may still read memory of this end. */
bool share_leased(struct engine_peer *peer);
void share_peer_dead(struct engine_peer *peer);	 /* ends all shares and mappings */
void share_lease_over(struct engine_peer *peer); /* ends requests if the peer's reads are over */
void share_peer_free(struct engine_peer *peer);

/* Below, "link.lock" means that the caller holds it, and "or NULL" that NULL may be returned. */
struct engine_shares *share_table(struct engine_peer *peer, bool make);	  /* link.lock; or NULL */
struct engine_map *share_map_find(struct engine_peer *peer, uint64_t id); /* link.lock; or NULL */
/* Returns the open mapping of the peer's region with that key, or NULL if there is none or it is
 * revoked. peer->shared must not be NULL. link.lock held. */
struct engine_map *share_map_of_key(struct engine_peer *peer, uint64_t key);
bool share_moves_lists(void); /* whether this end's GPUs have a kernel for lists; any thread */
struct engine_share *share_find(struct engine_peer *peer, uint64_t id); /* link.lock; or NULL */
struct engine_chan *share_chan(struct engine_peer *peer); /* link.lock; no reference; or NULL */
void share_due(struct engine_share *share);  /* link.lock; lets share_run() take the next step */
void share_free(struct engine_share *share); /* control thread, or the thread of the export */
void share_map_put(struct engine_map *map);  /* ends a use of the mapping; no lock held */
/* If true (open, revoked, unused), share_map_close() must be called after unlocking. link.lock. */
bool share_map_idle(struct engine_map *map);
void share_map_close(struct engine_map *map); /* no lock held */
void share_map_free(struct engine_map *map);  /* frees a mapping that is not open; no lock held */

/* In share_fetch.c. Counts the descriptor of an export that is about to begin. If too many are
 * open, returns false; the share becomes due again when its export may begin. link.lock held. */
bool share_fd_begin(struct engine_share *share);
/* Takes the descriptor, which the peer no longer needs, out of the share and returns it, or -1. The
 * caller must pass the result to share_fd_close() after unlocking. link.lock held. */
int share_fd_end(struct engine_share *share);
void share_fd_close(int fd);		      /* fd may be -1; no lock held */
bool share_fd_tell(struct engine_peer *peer); /* tells the peer where to fetch; false: nowhere */
/* Counts a fetch for the mapping. Returns false if too many are under way. link.lock held. */
bool share_fetch_begin(struct engine_map *map, struct engine_shares *table);
void share_fetch_end(struct engine_map *map); /* link.lock */
/* Begins a fetch of the descriptor, after which share_map_open() runs. Control thread, no lock. */
tcpx_status share_fetch_start(struct engine_map *map);
/* If a fetch for the mapping is under way, fails the mapping and returns true. Then the caller must
 * call share_fetch_cancel() after unlocking. Control thread, link.lock held. */
bool share_fetch_stop(struct engine_map *map);
void share_fetch_cancel(struct engine_map *map);
/* In share_msg.c. Begins to open the mapping, by its descriptor if it has one. `status` is the
 * result of the fetch, or OK; an error fails the mapping. No lock held. */
void share_map_open(struct engine_map *map, tcpx_status status);

/* Written before a frame by reference is sent, and read before its bytes are copied. This orders
 * the accesses to the bytes if both ends are in one process. The channel's ring does not: the ends
 * map it at different addresses, which C's memory model treats as different objects. */
extern _Atomic uint32_t share_gate;

#endif
