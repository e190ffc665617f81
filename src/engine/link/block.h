/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of staging memory. Up to 4 MiB of consecutive bytes of a transfer lie in one block, so
 * that the owner thread of a GPU can copy neighbouring bytes in one call. Only the payload of a
 * larger frame has a larger block, in ordinary memory. Several channels may use parts of one block.
 * When the last reference is dropped, the block's memory is returned to its pool, or freed if it is
 * ordinary memory.
 */
#ifndef ENGINE_LINK_BLOCK_H
#define ENGINE_LINK_BLOCK_H

#include "base/frame.h"
#include "base/list.h"
#include "mem/staging.h"

struct engine_peer;
struct stage_share;

/* The blocks of a link. Guarded by link.lock. */
struct link_blocks {
	/* blocks that may still receive payloads of further frames */
	struct list_node landings;
	struct stage_share *shares; /* list: the peer's use of each staging pool */
};

struct stage_block {
	_Atomic uint32_t refs;
	struct engine_peer *peer; /* the peer that uses the block; the block holds a reference */
	/* the pool that owns `addr`; NULL: `addr` is ordinary memory */
	struct mem_staging *pool;
	/* the peer's use of the pool, in which this block is counted; NULL: the block is not
	 * counted */
	struct stage_share *share;
	uint8_t *addr;
	/* the block holds `bytes` bytes of the transfer, from position `linear` on */
	uint64_t linear, bytes;
	const struct mem_kind *kind;
	uint32_t device;
	/* The next three fields are under link.lock. While the block is in blocks.landings, `type`
	 * and `xfer` are the type and the transfer of the frames whose payloads it receives. */
	struct list_node node; /* entry in blocks.landings or prefill.spent */
	uint8_t type;
	uint64_t xfer;
};

/* How much of a staging pool a peer uses. */
struct stage_share {
	struct mem_stager stager;
	struct engine_peer *peer;
	struct stage_share *next;
	/* under link.lock: the peer's next fill is not urgent, so other clients of the pool come
	 * first */
	bool ahead;
	uint32_t spilled; /* under link.lock: number of the peer's blocks in ordinary memory */
};

enum block_want {
	BLOCK_OR_NOTHING, /* memory of the pool; fails if the pool has none free */
	BLOCK_OR_WAIT,	  /* memory of the pool; if none is free, the peer is queued for it */
	BLOCK_ANYHOW,	  /* memory of the pool, or ordinary memory if none is free */
};

/* Initialises the lists of blocks and of slices (link.blocks, link.prefill) of a new peer. */
void block_peer_init(struct engine_peer *peer);

/* Lets peers that wait for memory of the pool try again, one after the other, while the pool has
 * memory for one of them (mem_staging_offer()). The caller holds no link's lock. */
void block_offer(struct mem_staging *pool);

/* Makes a block with one reference. Returns NULL if there is no memory of the sort that `want`
 * allows. If `share` is NULL, the block is not counted for the peer. With BLOCK_OR_WAIT, sets
 * *out_waits to true if the peer must wait for the pool. May be called under any lock; with a
 * `share`, the caller holds link.lock. */
struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits);
void block_get(struct stage_block *block);
/* Drops a reference. With the last one, frees the block's memory and lets the peers that wait for
 * the pool try again, so the caller must hold no lock. */
void block_put(struct stage_block *block);

/* Returns the entry that counts the peer's use of the pool for sources of this kind and device.
 * Makes the entry if it is missing. Returns NULL if there is no such pool, or no memory for the
 * entry. Called under link.lock. */
struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device);
/* Frees the entries of block_share(). Called when the last reference to the peer is dropped. */
void block_shares_free(struct engine_peer *peer);

/* Returns the block into which a frame's payload is received, with a reference: the block of the
 * payload's neighbours in the transfer, or a new one. `total` is the length of the transfer, or the
 * part of it that this side knows. Returns NULL if there is no memory. Called by the owner of the
 * channel's receive direction, with no lock held. */
struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total);

#endif
