/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of staging memory: up to 4 MiB of consecutive bytes of a transfer lie in one block, so
 * that the owner of the device copies neighbours in one call. Several channels use slices of a
 * block. The last reference returns it to its pool.
 */
#ifndef ENGINE_LINK_BLOCK_H
#define ENGINE_LINK_BLOCK_H

#include "base/frame.h"
#include "base/list.h"
#include "mem/staging.h"

struct engine_peer;
struct stage_share;

/* The blocks of a link; link.lock. */
struct link_blocks {
	struct list_node landings;  /* blocks that neighbours may land in */
	struct stage_share *shares; /* of staging pools */
};

struct stage_block {
	_Atomic uint32_t refs;
	struct engine_peer *peer;  /* with a reference */
	struct mem_staging *pool;  /* NULL: ordinary memory, since the pool had none */
	struct stage_share *share; /* NULL: not counted for the peer */
	uint8_t *addr;
	uint64_t linear, bytes; /* the bytes of the transfer that lie in it */
	const struct mem_kind *kind;
	uint32_t device;
	/* MEM_IN, while neighbours may arrive: link.lock */
	struct list_node node; /* blocks.landings; prefill.spent */
	uint8_t type;
	uint64_t xfer;
};

/* A peer's share of a pool. */
struct stage_share {
	struct mem_stager stager;
	struct engine_peer *peer;
	struct stage_share *next;
	bool ahead; /* lock: its data may have to wait for the peer, so other clients go first */
	uint32_t spilled; /* lock: its blocks in ordinary memory */
};

enum block_want {
	BLOCK_OR_NOTHING, /* memory of the pool, or none */
	BLOCK_OR_WAIT,	  /* the same; the peer is queued if there is none */
	BLOCK_ANYHOW,	  /* ordinary memory if the pool has none */
};

/* Initialises the lists of a new peer. */
void block_peer_init(struct engine_peer *peer);

/* Lets peers that wait for the pool try again, the longest waiting first. No link's lock held. */
void block_offer(struct mem_staging *pool);

/* A block with one reference, or NULL. share NULL: not counted for the peer. *out_waits, for
 * BLOCK_OR_WAIT: the peer is queued; otherwise there is no memory at all. Any lock may be held. */
struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits);
void block_get(struct stage_block *block);
/* No lock held: peers that wait may be served with the memory. */
void block_put(struct stage_block *block);

/* link.lock. NULL: no memory. */
struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device);
void block_shares_free(struct engine_peer *peer); /* the last reference of the peer is gone */

/* The block that a frame's payload lands in, with one reference: that of its neighbours, or a new
 * one. total: bytes of the transfer, as far as known. rx owner, no lock held. */
struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total);

#endif
