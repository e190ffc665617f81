/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a staging slot and pieces of regions, and moves between regions and memory of
 * another session. Consecutive pieces of the same memory kind and device are copied together. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/law.h"
#include "core/job.h"
#include "engine/link/engine.h"
#include "engine/link/stage.h"

#define MOVE_BYTES CORE_REF_MOST /* a part of a move with so many bytes gets no more pieces */
/* Most pieces of the first part of a move; later parts may have more. A small first part gives the
 * GPU work early. */
#define LIST_FIRST 512u

tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status))
{
	memset(copies, 0, sizeof(*copies));
	copies->slot = slot;
	copies->done = done;
	copies->last = copies->waiting = &copies->first;
	atomic_store(&copies->left, 1); /* dropped when copies_start() has started all parts */
	copies->pieces = copies->inside;
	copies->cap = STAGE_PIECES_INSIDE;
	if (npieces <= STAGE_PIECES_INSIDE)
		return TCPX_OK;
	copies->pieces = malloc(npieces * sizeof(*copies->pieces));
	copies->cap = copies->pieces ? npieces : 0;
	return copies->pieces ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

tcpx_status copies_init_moves(struct stage_copies *copies, uint32_t npieces, bool eager,
			      void (*done)(struct stage_copies *copies, tcpx_status status))
{
	tcpx_status status = copies_init(copies, NULL, npieces, done);

	copies->sources = copies->sources_inside;
	copies->eager = eager;
	if (status != TCPX_OK || npieces <= STAGE_PIECES_INSIDE)
		return status;
	copies->sources = malloc(npieces * sizeof(*copies->sources));
	return copies->sources ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

void copies_free(struct stage_copies *copies)
{
	struct stage_part *part = copies->first.next;

	while (part) {
		struct stage_part *next = part->next;

		free(part);
		part = next;
	}
	if (copies->lent)
		return;
	if (copies->pieces != copies->inside)
		free(copies->pieces);
	if (copies->sources != copies->sources_inside)
		free(copies->sources);
}

/* Returns the part to which a piece of the region is added: the last part if the part has the
 * region's kind and device and `fits` is true, otherwise a new part. Returns NULL if there is no
 * memory. */
static struct stage_part *copies_part_for(struct stage_copies *copies,
					  const struct mem_region *region, bool fits)
{
	struct stage_part *part = copies->last;

	if (part->kind &&
	    (!fits || part->kind != region->kind || part->copy.device != region->device)) {
		part->next = calloc(1, sizeof(*part));
		part = part->next;
	}
	if (!part || part->kind)
		return part;
	copies->last = part;
	part->kind = region->kind;
	part->copy.device = region->device;
	part->copy.slot = copies->slot + copies->bytes;
	part->copy.pieces = &copies->pieces[copies->npieces];
	return part;
}

static const struct mem_region *region_at(const struct core_segs *segs, uint32_t seg)
{
	return segs->local[segs->seg[seg].local];
}

tcpx_status copies_add_local(struct stage_copies *copies, const struct core_segs *segs,
			     struct core_cursor at, uint64_t bytes)
{
	tcpx_status status = TCPX_OK;
	struct core_piece piece;

	while (status == TCPX_OK && core_piece_next(segs, &at, &bytes, &piece))
		status = copies_add(copies, segs->local[piece.seg->local],
				    piece.seg->local_off + piece.off, piece.length);
	return status;
}

const struct mem_region *copies_staged_in(const struct core_segs *segs, struct core_cursor at,
					  uint32_t pieces)
{
	uint32_t i;

	for (i = 0; i < pieces; i++)
		if (region_at(segs, at.seg + i)->kind->staged)
			return region_at(segs, at.seg + i);
	return region_at(segs, at.seg);
}

/* Called when one copy has ended, and when copies_start() has started all copies. Decrements
 * `left`, and calls done() when `left` becomes 0. */
static void copies_one_ended(struct stage_copies *copies, tcpx_status status)
{
	int none = TCPX_OK;

	if (status != TCPX_OK)
		atomic_compare_exchange_strong(&copies->status, &none, (int)status);
	if (atomic_fetch_sub(&copies->left, 1) == 1)
		copies->done(copies, (tcpx_status)atomic_load(&copies->status));
}

/* The link whose deferred work waits until this thread has reported the ends of a batch of copies.
 * Waking other threads is expensive, so it is done once for the batch. */
static _Thread_local struct {
	bool more;		  /* another copy of the batch ends right after this one */
	struct engine_peer *peer; /* with a reference; NULL: no deferred work waits */
} batch;

static void batch_flush(void)
{
	struct engine_peer *peer = batch.peer;

	batch.peer = NULL;
	if (!peer)
		return;
	link_run_posted(&peer->link, POST_PRIO);
	peer_put(peer);
}

void copies_wake_later(struct engine_peer *peer)
{
	if (batch.peer == peer)
		return;
	batch_flush();
	peer_get(peer);
	batch.peer = peer;
}

static void copy_done(struct mem_copy *copy, tcpx_status status)
{
	batch.more = copy->more; /* read first, since copies_one_ended() may free `copy` */
	copies_one_ended(copy->owner, status);
	if (!batch.more)
		batch_flush();
}

/* Starts a part of a move. A single piece is passed without a list, so that the memory kind may
 * join the copy with neighbouring ones. */
static tcpx_status move_start(struct stage_part *part)
{
	struct mem_copy *copy = &part->copy;

	if (copy->npieces == 1) {
		copy->slot = (void *)(uintptr_t)copy->sources[0];
		copy->sources = NULL;
	}
	return part->kind->move(copy);
}

/* Starts the first part that is not started yet. When the function returns, the part may have
 * ended, but `copies` still exists. */
static tcpx_status part_start(struct stage_copies *copies, bool to_slot)
{
	struct stage_part *part = copies->waiting;
	tcpx_status status;

	copies->waiting = part->next;
	part->copy.owner = copies;
	part->copy.done = copy_done;
	atomic_fetch_add(&copies->left, 1);
	if (part->copy.sources)
		status = move_start(part);
	else
		status = (to_slot ? part->kind->fill : part->kind->commit)(&part->copy);
	if (status != TCPX_OK)
		atomic_fetch_sub(&copies->left, 1);
	return status;
}

/* Returns how many pieces the last part of a move may have. */
static uint32_t list_most(const struct stage_copies *copies)
{
	uint32_t before = copies->npieces - copies->last->copy.npieces;

	return before + LIST_FIRST < MEM_MOVE_LIST ? before + LIST_FIRST : MEM_MOVE_LIST;
}

/* Adds a piece of `length` bytes at `addr`. `region` is the local memory that the copy reads or
 * writes. Returns TCPX_ERR_NO_MEMORY if there is no room for the piece. */
static tcpx_status piece_add(struct stage_copies *copies, struct stage_part *part,
			     const struct mem_region *region, void *addr, uint64_t length)
{
	if (!part || copies->npieces == copies->cap)
		return TCPX_ERR_NO_MEMORY;
	copies->pieces[copies->npieces++] = (struct mem_piece){addr, length};
	copies->bytes += length;
	part->copy.npieces++;
	part->copy.vanishing |= mem_region_vanishes(region);
	return TCPX_OK;
}

/* Adds a piece to a move: the region's device copies `length` bytes from `source` to `dest`.
 * `source` is an offset in `mapping`, or an address if `mapping` is NULL. `within` is 1 if both are
 * memory of the device. */
static tcpx_status move_add(struct stage_copies *copies, const struct mem_region *region,
			    struct mem_mapping *mapping, int within, uint64_t source, void *dest,
			    uint64_t length)
{
	const struct mem_copy *last = &copies->last->copy;
	bool fits = last->from == mapping && last->npieces < list_most(copies) &&
		    copies->part_bytes < MOVE_BYTES;
	struct stage_part *part = copies_part_for(copies, region, fits);
	uint32_t at = copies->npieces;
	tcpx_status status = TCPX_OK;

	if (part && !part->copy.npieces) {
		part->copy.from = mapping;
		part->copy.slot = NULL;
		part->copy.sources = &copies->sources[at];
		copies->part_bytes = 0;
		if (copies->eager && part != &copies->first)
			status = part_start(copies, false);
		if (status != TCPX_OK)
			return status;
	}
	if (at < copies->cap)
		copies->sources[at] = source;
	copies->part_bytes += length;
	if (part)
		part->copy.within |= within;
	return piece_add(copies, part, region, dest, length);
}

tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from)
{
	int within;
	uint64_t base = region->kind->mapped_at(mapping, region->device, &within);

	/* If the device can access the mapping already, the source is given as an address, so
	 * pieces of several mappings may share a part. */
	return move_add(copies, region, base ? NULL : mapping, within, base + from,
			region->base + offset, length);
}

tcpx_status copies_move_out(struct stage_copies *copies, const struct mem_region *region,
			    uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			    uint64_t to)
{
	int within;
	uint64_t base = region->kind->mapped_at(mapping, region->device, &within);

	return move_add(copies, region, NULL, within, (uintptr_t)(region->base + offset),
			(void *)(uintptr_t)(base + to), length);
}

tcpx_status copies_move_list(struct stage_copies *copies, const struct mem_region *region,
			     int within, struct mem_piece *pieces, uint64_t *sources,
			     uint32_t npieces)
{
	copies->lent = true;
	copies->pieces = pieces;
	copies->sources = sources;
	copies->cap = npieces;
	while (copies->npieces < npieces) {
		struct stage_part *part = copies_part_for(copies, region, false);
		tcpx_status status =
			part && part != &copies->first ? part_start(copies, false) : TCPX_OK;
		uint32_t most;

		if (!part)
			return TCPX_ERR_NO_MEMORY;
		if (status != TCPX_OK)
			return status;
		part->copy.slot = NULL;
		part->copy.sources = &sources[copies->npieces];
		part->copy.within = within;
		copies->part_bytes = 0;
		for (most = list_most(copies); copies->npieces < npieces && most--;) {
			uint64_t length = pieces[copies->npieces++].length;

			part->copy.npieces++;
			copies->bytes += length;
			copies->part_bytes += length;
			if (copies->part_bytes >= MOVE_BYTES)
				break;
		}
	}
	return TCPX_OK;
}

bool copies_mapped(const struct mem_region *region, const struct mem_mapping *mapping)
{
	int within;

	return region->kind->mapped_at(mapping, region->device, &within) != 0;
}

tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length)
{
	return piece_add(copies, copies_part_for(copies, region, true), region,
			 region->base + offset, length);
}

void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status)
{
	law_free("a memory kind");
	while (copies->waiting && copies->waiting->kind && status == TCPX_OK)
		status = part_start(copies, to_slot);
	copies_one_ended(copies, status);
	if (!batch.more)
		batch_flush();
}
