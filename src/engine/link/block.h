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

/* Blocks that belong to a link, under link.lock. */
struct link_blocks {
	/* blocks into which payloads of neighbouring frames may still be received */
	struct list_node landings;
	struct stage_share *shares; /* of staging pools */
};

struct stage_block {
	_Atomic uint32_t refs;
	struct engine_peer *peer; /* the peer that uses it, with a reference */
	struct mem_staging *pool; /* NULL: ordinary memory, since the pool had none */
	/* how its pool is shared; NULL: this block is not counted for the peer */
	struct stage_share *share;
	uint8_t *addr;
	uint64_t linear, bytes; /* which bytes of the transfer lie in it */
	const struct mem_kind *kind;
	uint32_t device;
	/* For received data, while neighbouring payloads may arrive; under link.lock. */
	struct list_node node; /* blocks.landings; prefill.spent */
	uint8_t type;
	uint64_t xfer;
};

/* What a peer uses of a pool. */
struct stage_share {
	struct mem_stager stager;
	struct engine_peer *peer;
	struct stage_share *next;
	/* under lock: the data may have to wait for the peer, so other clients are served first */
	bool ahead;
	uint32_t spilled; /* under lock: how many of its blocks are ordinary memory */
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

/* A block with one reference, or NULL. share NULL: it is not counted for the peer. *out_waits,
 * for BLOCK_OR_WAIT: true if the peer was queued for the pool, false if there is no memory at
 * all. May be called under any lock. */
struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits);
void block_get(struct stage_block *block);
/* Called with no lock held, because peers that wait for the pool may get the block's memory. */
void block_put(struct stage_block *block);

/* Called under link.lock. NULL: no memory. */
struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device);
/* called when the last reference to the peer is dropped */
void block_shares_free(struct engine_peer *peer);

/* The block into which a frame's payload is received, with one reference: the one of its
 * neighbours in the transfer, or a new one. total: bytes of the transfer, as far as known. Called
 * by the channel's rx owner with no lock held. */
struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total);

#endif
