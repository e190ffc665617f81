/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a slot and pieces of regions: one for each run of pieces of one kind and
 * device. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/law.h"
#include "engine/link/engine.h"
#include "engine/link/stage.h"

tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status))
{
	memset(copies, 0, sizeof(*copies));
	copies->slot = slot;
	copies->done = done;
	copies->last = &copies->first;
	copies->pieces = copies->inside;
	copies->cap = STAGE_PIECES_INSIDE;
	if (npieces <= STAGE_PIECES_INSIDE)
		return TCPX_OK;
	copies->pieces = malloc(npieces * sizeof(*copies->pieces));
	copies->cap = copies->pieces ? npieces : 0;
	return copies->pieces ? TCPX_OK : TCPX_ERR_NO_MEMORY;
}

void copies_free(struct stage_copies *copies)
{
	struct stage_part *part = copies->first.next;

	while (part) {
		struct stage_part *next = part->next;

		free(part);
		part = next;
	}
	if (copies->pieces != copies->inside)
		free(copies->pieces);
}

/* The part that the next piece of the region belongs to: the last one if kind and device are the
 * same and behind says that the piece follows it, else a new one. NULL: no memory. */
static struct stage_part *copies_part_for(struct stage_copies *copies,
					  const struct mem_region *region, bool behind)
{
	struct stage_part *part = copies->last;

	if (part->kind &&
	    (!behind || part->kind != region->kind || part->copy.device != region->device)) {
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

static tcpx_status piece_add(struct stage_copies *copies, struct stage_part *part,
			     const struct mem_region *region, uint64_t offset, uint64_t length)
{
	if (!part || copies->npieces == copies->cap)
		return TCPX_ERR_NO_MEMORY;
	copies->pieces[copies->npieces++] = (struct mem_piece){region->base + offset, length};
	copies->bytes += length;
	part->copy.npieces++;
	part->copy.vanishing |= mem_region_vanishes(region);
	return TCPX_OK;
}

tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from)
{
	struct stage_part *last = copies->last, *part;
	bool behind = last->copy.from == mapping && from == copies->from_end;

	part = copies_part_for(copies, region, behind);
	if (part && !part->copy.npieces) {
		part->copy.from = mapping;
		part->copy.slot = (void *)(uintptr_t)from;
	}
	copies->from_end = from + length;
	return piece_add(copies, part, region, offset, length);
}

tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length)
{
	return piece_add(copies, copies_part_for(copies, region, true), region, offset, length);
}

static const struct mem_region *region_at(const struct core_prog *prog, uint32_t seg)
{
	return prog->local[prog->seg[seg].local];
}

tcpx_status copies_add_local(struct stage_copies *copies, const struct core_prog *prog,
			     struct core_cursor at, uint64_t bytes)
{
	tcpx_status status = TCPX_OK;
	struct core_piece piece;

	while (status == TCPX_OK && core_piece_next(prog, &at, &bytes, &piece))
		status = copies_add(copies, prog->local[piece.seg->local],
				    piece.seg->local_off + piece.off, piece.length);
	return status;
}

const struct mem_region *copies_staged_in(const struct core_prog *prog, struct core_cursor at,
					  uint32_t pieces)
{
	uint32_t i;

	for (i = 0; i < pieces; i++)
		if (region_at(prog, at.seg + i)->kind->staged)
			return region_at(prog, at.seg + i);
	return region_at(prog, at.seg);
}

/* A copy has ended, or all of them have been started. */
static void copies_end_one(struct stage_copies *copies, tcpx_status status)
{
	int none = TCPX_OK;

	if (status != TCPX_OK)
		atomic_compare_exchange_strong(&copies->status, &none, (int)status);
	if (atomic_fetch_sub(&copies->left, 1) == 1)
		copies->done(copies, (tcpx_status)atomic_load(&copies->status));
}

/* Deferred work of copies that end is run once, after the last copy of a batch, since waking other
 * threads is the largest cost. */
static _Thread_local struct {
	bool more;
	struct engine_peer *peer; /* with a reference; NULL: nothing waits */
} batch;

static void batch_flush(void)
{
	struct engine_peer *peer = batch.peer;

	batch.peer = NULL;
	if (!peer)
		return;
	link_run_posted(&peer->link, POST_LANE);
	peer_put(peer);
}

void copies_ended(struct engine_peer *peer)
{
	if (batch.peer == peer)
		return;
	batch_flush();
	peer_get(peer);
	batch.peer = peer;
}

static void copy_done(struct mem_copy *copy, tcpx_status status)
{
	batch.more = copy->more; /* copies_end_one() may free copy */
	copies_end_one(copy->owner, status);
	if (!batch.more)
		batch_flush();
}

void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status)
{
	struct stage_part *part, *next;

	law_free("a memory kind");
	atomic_store(&copies->left, 1);
	for (part = &copies->first; part && part->kind && status == TCPX_OK; part = next) {
		/* The count of 1 from above keeps copies alive until the last one is started. */
		next = part->next;
		part->copy.owner = copies;
		part->copy.done = copy_done;
		atomic_fetch_add(&copies->left, 1);
		if (part->copy.from)
			status = part->kind->move(&part->copy);
		else
			status = to_slot ? part->kind->fill(&part->copy)
					 : part->kind->commit(&part->copy);
		if (status != TCPX_OK)
			atomic_fetch_sub(&copies->left, 1);
	}
	copies_end_one(copies, status);
	if (!batch.more)
		batch_flush();
}
