/* SPDX-License-Identifier: Apache-2.0 */
/* Takes and releases blocks of staging memory, among them those that receive payloads (block.h). */
#include "engine/link/engine.h"
#include "engine/link/block.h"

#include <stdlib.h>

#include "engine/link/prefill.h"

void block_peer_init(struct engine_peer *peer)
{
	list_init(&peer->link.blocks.landings);
	list_init(&peer->link.prefill.dropped);
	list_init(&peer->link.prefill.spent);
	list_init(&peer->link.prefill.deliveries);
}

static struct mem_stager *stager_of(const struct stage_block *block)
{
	return block->share ? &block->share->stager : NULL;
}

/* Returns the memory of a new block: from its pool, or ordinary memory if `want` allows that.
 * Returns NULL if there is none. Sets *out_waits to true if the peer must wait for the pool. */
static uint8_t *block_memory(struct stage_block *block, struct engine_peer *peer,
			     enum block_want want, bool *out_waits)
{
	bool ahead = block->share && block->share->ahead, lined = false;
	uint8_t *addr = NULL;

	if (block->pool)
		addr = mem_staging_take(block->pool, block->bytes, stager_of(block), ahead,
					want == BLOCK_OR_WAIT ? &lined : NULL);
	if (lined)
		peer_get(peer); /* a reference for the pool's queue */
	if (addr || (want == BLOCK_OR_NOTHING && block->pool))
		return addr;
	if (want == BLOCK_OR_WAIT && block->pool) {
		*out_waits = true;
		if (!ahead)
			prefill_watch();
		return NULL;
	}
	block->pool = NULL;
	addr = want == BLOCK_ANYHOW ? mem_spill_alloc(block->bytes) : NULL;
	if (addr && block->share)
		block->share->spilled++;
	return addr;
}

struct stage_block *block_open(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, enum mem_direction direction, uint64_t linear,
			       uint64_t bytes, struct stage_share *share, enum block_want want,
			       bool *out_waits)
{
	struct stage_block *block = calloc(1, sizeof(*block));

	if (!block)
		return NULL;
	list_init(&block->node);
	block->pool = mem_staging_get(kind->kind, device, direction);
	block->share = share;
	block->kind = kind;
	block->device = device;
	block->linear = linear;
	block->bytes = bytes;
	block->addr = block_memory(block, peer, want, out_waits);
	if (!block->addr) {
		free(block);
		return NULL;
	}
	atomic_store(&block->refs, 1);
	block->peer = peer;
	peer_get(peer);
	return block;
}

void block_get(struct stage_block *block)
{
	atomic_fetch_add(&block->refs, 1);
}

void block_offer(struct mem_staging *pool)
{
	struct mem_stager *stager;

	while ((stager = mem_staging_offer(pool))) {
		struct engine_peer *peer = LIST_ENTRY(stager, struct stage_share, stager)->peer;

		prefill_pump(peer);
		peer_put(peer); /* the reference of the pool's queue */
	}
}

void block_put(struct stage_block *block)
{
	struct engine_peer *peer = block->peer;
	struct mem_staging *pool = block->pool;
	bool last, counted = block->share;

	/* Under link.lock, because block_land() may find the block, and add a reference, as long as
	 * the block is in blocks.landings. */
	link_lock(&peer->link);
	last = atomic_fetch_sub(&block->refs, 1) == 1;
	if (last)
		list_remove(&block->node);
	if (last && counted && !pool)
		block->share->spilled--;
	link_unlock_only(&peer->link);
	if (!last)
		return;
	if (pool)
		mem_staging_give(pool, block->addr, block->bytes, stager_of(block));
	else
		free(block->addr);
	free(block);
	if (pool)
		block_offer(pool);
	if (counted)
		/* if this was the peer's last block, the peer's next one need not wait for the
		 * pool */
		prefill_pump(peer);
	peer_put(peer);
}

struct stage_share *block_share(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device)
{
	struct mem_staging *pool = mem_staging_get(kind->kind, device, MEM_OUT);
	struct stage_share *share;

	for (share = peer->link.blocks.shares; share; share = share->next)
		if (share->stager.pool == pool)
			return share;
	share = pool ? calloc(1, sizeof(*share)) : NULL;
	if (!share)
		return NULL;
	mem_stager_init(&share->stager, pool);
	share->peer = peer;
	share->next = peer->link.blocks.shares;
	peer->link.blocks.shares = share;
	return share;
}

void block_shares_free(struct engine_peer *peer)
{
	while (peer->link.blocks.shares) {
		struct stage_share *share = peer->link.blocks.shares;

		peer->link.blocks.shares = share->next;
		free(share);
	}
}

/* Called under link.lock. Returns the block in blocks.landings that covers the frame's part of its
 * transfer, or NULL if there is none. */
static struct stage_block *block_landing(struct engine_peer *peer, const struct mem_kind *kind,
					 uint32_t device, const struct frame *frame)
{
	uint64_t end = frame->linear + frame->payload_bytes;
	struct list_node *pos;

	LIST_FOREACH(pos, &peer->link.blocks.landings) {
		struct stage_block *block = LIST_ENTRY(pos, struct stage_block, node);

		if (block->xfer == frame->xfer && block->type == frame->type &&
		    block->linear <= frame->linear && end <= block->linear + block->bytes &&
		    block->kind == kind && block->device == device)
			return block;
	}
	return NULL;
}

struct stage_block *block_land(struct engine_peer *peer, const struct mem_kind *kind,
			       uint32_t device, const struct frame *frame, uint64_t total)
{
	uint64_t begin = frame->linear / MEM_SLOT_MAX * MEM_SLOT_MAX, end;
	bool shared = false;
	struct stage_block *block = NULL;

	if (__builtin_add_overflow(begin, MEM_SLOT_MAX, &end) || end > total)
		end = total; /* the peer may send any `linear`, so the sum may overflow */
	if (frame->linear <= end && frame->payload_bytes <= end - frame->linear)
		shared = frame->payload_bytes < end - begin;
	link_lock(&peer->link);
	if (shared)
		block = block_landing(peer, kind, device, frame);
	if (block) {
		block_get(block);
	} else if (shared) {
		block = block_open(peer, kind, device, MEM_IN, begin, end - begin, NULL,
				   BLOCK_OR_NOTHING, NULL);
		if (block) {
			block->type = frame->type;
			block->xfer = frame->xfer;
			list_push_back(&peer->link.blocks.landings, &block->node);
		}
	}
	link_unlock_only(&peer->link);
	if (block)
		return block;
	return block_open(peer, kind, device, MEM_IN, frame->linear, frame->payload_bytes, NULL,
			  BLOCK_ANYHOW, NULL);
}
