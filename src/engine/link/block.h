/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of staging memory: up to 4 MiB of consecutive bytes of a transfer lie in one block, so
 * that the thread that makes a device's copies copies neighbours in one call. Several channels use
 * slices of a block. When its last reference is dropped, a block returns to its pool.
 */
#ifndef ENGINE_LINK_BLOCK_H
#define ENGINE_LINK_BLOCK_H

#include "base/frame.h"
#include "base/list.h"
#include "mem/staging.h"

struct engine_peer;
struct stage_share;

/* Blocks that belong to a link, under link.lock. */
struct link_blocks {
	/* blocks into which payloads of neighbouring frames may still be received */
	struct list_node landings;
	struct stage_share *shares; /* what the peer uses of each staging pool */
};

struct stage_block {
	_Atomic uint32_t refs;
	struct engine_peer *peer; /* the peer that uses the block, with a reference */
	/* NULL: ordinary memory, since the pool had none or there is no pool */
	struct mem_staging *pool;
	/* what the block is counted in as the peer's use of the pool; NULL: it is not counted */
	struct stage_share *share;
	uint8_t *addr;
	uint64_t linear, bytes; /* which bytes of the transfer lie in it */
	const struct mem_kind *kind;
	uint32_t device;
	/* For received data, while neighbouring payloads may arrive: which frames they come in.
	 * Under link.lock. */
	struct list_node node; /* in blocks.landings or prefill.spent */
	uint8_t type;
	uint64_t xfer;
};

/* What a peer uses of a staging pool. `lock` is link.lock. */
struct stage_share {
	struct mem_stager stager;
	struct engine_peer *peer;
	struct stage_share *next;
	/* under lock: what is filled next may have to wait for the peer, so other clients are
	 * served first */
	bool ahead;
	uint32_t spilled; /* under lock: how many of its blocks are ordinary memory */
};

enum block_want {
	BLOCK_OR_NOTHING, /* memory of the pool, or none */
	BLOCK_OR_WAIT,	  /* memory of the pool; if there is none, the peer is queued for it */
	BLOCK_ANYHOW,	  /* ordinary memory if the pool has none */
};

/* Initialises the lists of blocks and of slices (link.blocks, link.prefill) of a new peer. */
void block_peer_init(struct engine_peer *peer);

/* Lets peers that wait for the pool try again, the longest waiting first. No link's lock held. */
void block_offer(struct mem_staging *pool);

/* Makes a block with one reference. NULL: there is no memory of the sort that `want` allows. share
 * NULL: the block is not counted for the peer. *out_waits, for BLOCK_OR_WAIT: set to true if the
 * peer was queued for the pool, unchanged if there is no memory at all. May be called under any
 * lock. */
struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits);
void block_get(struct stage_block *block);
/* Drops a reference. No lock may be held: with the last reference the block's memory is free, and
 * peers that wait for the pool are served. */
void block_put(struct stage_block *block);

/* What the peer uses of the pool of sources of this kind and device. NULL: there is no such pool,
 * or no memory. Called under link.lock. */
struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device);
/* called when the last reference to the peer is dropped */
void block_shares_free(struct engine_peer *peer);

/* The block into which a frame's payload is received, with one reference: the block of the
 * payload's neighbours in the transfer, or a new one. total: bytes of the transfer, as far as
 * known. NULL: no memory. Called by the channel's rx owner with no lock held. */
struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total);

#endif
