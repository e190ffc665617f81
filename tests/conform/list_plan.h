/* SPDX-License-Identifier: Apache-2.0 */
/* A list of pieces that both sides compute from the same few numbers. */
#ifndef CONFORM_LIST_PLAN_H
#define CONFORM_LIST_PLAN_H

#include "conform.h"

#define PLAN_REGIONS 3
#define PLAN_SEED 100 /* source region i holds the pattern of this + i */

enum plan_kind {
	PLAN_RANDOM = 1, /* random part of its slot, slots in random order on both sides */
	PLAN_EQUAL,	 /* whole slots, random order */
	PLAN_STRIDE,	 /* equal parts of slots, ascending */
	PLAN_REVERSE,	 /* equal parts of slots, descending at the source */
	PLAN_JOINED,	 /* whole slots, ascending: one contiguous piece after folding */
};

struct plan {
	uint32_t kind;
	uint64_t seed;
	uint32_t count;	     /* pieces wanted */
	uint64_t slot_bytes; /* each piece lies in a slot of its own at either side */
	uint64_t region_bytes;
};

struct piece {
	uint32_t from, to; /* region */
	uint64_t from_off, to_off, len;
};

/* Pieces that fit into the slots. */
uint32_t plan_count(const struct plan *plan);
struct piece plan_piece(const struct plan *plan, uint32_t index);
/* Wrong bytes in the PLAN_REGIONS destination regions, poison between the pieces included. */
uint64_t plan_compare(const struct plan *plan, const struct buf *regions);

#endif
