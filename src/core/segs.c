/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors over segment lists. */
#include "core/segs.h"

uint64_t core_cursor_advance(const struct core_segs *segs, struct core_cursor *at, uint64_t bytes,
			     uint32_t pieces, uint32_t *out_pieces)
{
	struct core_piece piece;
	uint64_t passed = 0;
	uint32_t touched = 0;

	while (touched < pieces && at->seg < segs->nseg &&
	       core_piece_next(segs, at, &bytes, &piece)) {
		passed += piece.length;
		touched++;
	}
	*out_pieces = touched;
	return passed;
}

struct core_cursor core_cursor_at(const struct core_segs *segs, uint64_t linear)
{
	uint32_t low = 0, high = segs->nseg; /* seg[low].linear <= linear < seg[high].linear */

	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;

		if (segs->seg[mid].linear <= linear)
			low = mid;
		else
			high = mid;
	}
	return (struct core_cursor){.seg = low, .off = linear - segs->seg[low].linear};
}
