/* SPDX-License-Identifier: Apache-2.0 */
/* A validated segment list ("segs"), and cursors that walk it. */
#ifndef CORE_SEGS_H
#define CORE_SEGS_H

#include <stdbool.h>
#include <stdint.h>

/* A segment. `linear` is the offset in the transfer at which it begins. Its length is the `linear`
 * of the next entry minus its own, so the array ends with a sentinel. `local` and `remote` are
 * indices into core_segs.local and core_segs.remote. */
struct core_seg {
	uint64_t linear;
	uint64_t local_off;
	uint64_t remote_off;
	uint32_t local, remote;
};

struct core_segs {
	uint64_t total;		/* bytes of all segments */
	uint32_t nseg;		/* number of segments, without the sentinel */
	struct core_seg *seg;	/* nseg + 1 entries */
	void *const *local;	/* regions of the engine, opaque to the core */
	const uint64_t *remote; /* region keys */
	uint32_t nlocal, nremote;
	/* for the engine: 1 if the memory of a local region may vanish (mem_region_vanishes) */
	int vanishing;
};

/* A place in a segment list. */
struct core_cursor {
	uint32_t seg; /* index of the segment */
	uint64_t off; /* bytes from the segment's start */
};

static inline uint64_t core_seg_length(const struct core_segs *segs, uint32_t seg)
{
	return segs->seg[seg + 1].linear - segs->seg[seg].linear;
}

/* Returns the cursor's offset in the transfer. */
static inline uint64_t core_cursor_linear(const struct core_segs *segs, struct core_cursor at)
{
	return segs->seg[at.seg].linear + at.off;
}

/* Consecutive bytes of one segment: `length` of them from offset `off` on. */
struct core_piece {
	const struct core_seg *seg;
	uint64_t off, length;
};

/* Sets *out_piece to the next piece: as many of the *bytes bytes from *at on as lie in one segment.
 * Moves *at past the piece and reduces *bytes by its length. Returns false if *bytes is 0. */
static inline bool core_piece_next(const struct core_segs *segs, struct core_cursor *at,
				   uint64_t *bytes, struct core_piece *out_piece)
{
	uint64_t left;

	if (!*bytes)
		return false;
	left = core_seg_length(segs, at->seg) - at->off;
	out_piece->seg = &segs->seg[at->seg];
	out_piece->off = at->off;
	out_piece->length = left < *bytes ? left : *bytes;
	*bytes -= out_piece->length;
	at->off += out_piece->length;
	if (out_piece->length == left) {
		at->seg++;
		at->off = 0;
	}
	return true;
}

/* Moves *at forward by at most `bytes` bytes and at most `pieces` pieces, and not past the end of
 * the list. Returns the number of bytes passed. *out_pieces is the number of pieces that they lie
 * in. */
uint64_t core_cursor_advance(const struct core_segs *segs, struct core_cursor *at, uint64_t bytes,
			     uint32_t pieces, uint32_t *out_pieces);

/* Returns the cursor at the offset `linear` of the transfer, which must be below `total`. Uses a
 * binary search. */
struct core_cursor core_cursor_at(const struct core_segs *segs, uint64_t linear);

#endif
