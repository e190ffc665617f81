/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of staging memory: a stretch of up to 4 MiB of a transfer's bytes lies in one block, side
 * by side, so that the owner of the device copies neighbours at once. Slices of a block are used by
 * several channels; it goes back to its pool with the last reference.
 */
#ifndef ENGINE_LINK_BLOCK_H
#define ENGINE_LINK_BLOCK_H

#include "base/frame.h"
#include "base/list.h"
#include "mem/staging.h"

struct engine_peer;
struct stage_share;

/* Of one link; its lock. */
struct link_blocks {
	struct list_node landings;  /* blocks that neighbours may land in */
	struct stage_share *shares; /* of staging pools */
};

struct stage_block {
	_Atomic uint32_t refs;
	struct engine_peer *peer;  /* with a reference */
	struct mem_staging *pool;  /* NULL: ordinary memory, the pool had none */
	struct stage_share *share; /* NULL: nobody's */
	uint8_t *addr;
	uint64_t linear, bytes; /* what of the transfer lies in it */
	const struct mem_kind *kind;
	uint32_t device;
	/* MEM_IN, while neighbours may come: peer.lock */
	struct list_node node; /* blocks.landings; prefill.spent */
	uint8_t type;
	uint64_t xfer;
};

/* A peer's share of a pool. */
struct stage_share {
	struct mem_stager stager;
	struct engine_peer *peer;
	struct stage_share *next;
	bool ahead;	  /* lock: what it takes may wait for the peer, so others go first */
	uint32_t spilled; /* lock: blocks in ordinary memory instead */
};

enum block_want {
	BLOCK_OR_NOTHING, /* of the pool */
	BLOCK_OR_WAIT,	  /* the same; else the peer stands in line */
	BLOCK_ANYHOW,	  /* ordinary memory if the pool has none; NULL: no memory at all */
};

/* A new peer. */
void block_peer_init(struct engine_peer *peer);

/* One reference. share NULL: not counted for the peer. out_waits, of BLOCK_OR_WAIT: it stands in
 * line now; else there is no memory at all. Any lock may be held. */
struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits);
void block_get(struct stage_block *block);
/* No lock held: others may get their turn with what comes free. */
void block_put(struct stage_block *block);

/* peer.lock. NULL: no memory. */
struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device);
void block_shares_free(struct engine_peer *peer); /* the peer's last reference went */

/* Where a frame's payload lands: its place in the block of its stretch, which this frame may be
 * the first of. total: bytes of the transfer, as far as known. One reference. rx owner, no lock
 * held. */
struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total);

#endif
