/* SPDX-License-Identifier: Apache-2.0 */
/* A validated segment list ("program"), and cursors that walk it. */
#ifndef CORE_PROG_H
#define CORE_PROG_H

#include <stdbool.h>
#include <stdint.h>

/* A segment. linear: where it begins in the transfer; its length is the difference to the next
 * one's linear, so the array has a sentinel. local and remote index the region tables. */
struct core_seg {
	uint64_t linear;
	uint64_t local_off;
	uint64_t remote_off;
	uint32_t local, remote;
};

struct core_prog {
	uint64_t total;
	uint32_t nseg;		/* without the sentinel */
	struct core_seg *seg;	/* nseg + 1 entries */
	void *const *local;	/* regions of the engine, opaque to the core */
	const uint64_t *remote; /* region keys */
	uint32_t nlocal, nremote;
	int vanishing; /* for the engine: pages of a local region may vanish at any time */
};

struct core_cursor {
	uint32_t seg;
	uint64_t off; /* inside the segment */
};

static inline uint64_t core_seg_length(const struct core_prog *prog, uint32_t seg)
{
	return prog->seg[seg + 1].linear - prog->seg[seg].linear;
}

static inline uint64_t core_cursor_linear(const struct core_prog *prog, struct core_cursor at)
{
	return prog->seg[at.seg].linear + at.off;
}

/* Consecutive bytes of one segment: `length` of them from offset `off` on. */
struct core_piece {
	const struct core_seg *seg;
	uint64_t off, length;
};

/* The next piece of *bytes bytes from *at on, which both move past it. False: *bytes is 0. */
static inline bool core_piece_next(const struct core_prog *prog, struct core_cursor *at,
				   uint64_t *bytes, struct core_piece *out_piece)
{
	uint64_t left;

	if (!*bytes)
		return false;
	left = core_seg_length(prog, at->seg) - at->off;
	out_piece->seg = &prog->seg[at->seg];
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

/* Moves on by at most `bytes` and at most `pieces` pieces; returns the bytes passed and the number
 * of pieces they touch. */
uint64_t core_cursor_advance(const struct core_prog *prog, struct core_cursor *at, uint64_t bytes,
			     uint32_t pieces, uint32_t *out_pieces);

/* The cursor of a linear offset < total, by bisection. */
struct core_cursor core_cursor_at(const struct core_prog *prog, uint64_t linear);

#endif
