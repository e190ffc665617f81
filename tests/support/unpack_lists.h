/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of fragments for tests of unpacking: as a plugin makes them, or anyhow. */
#ifndef SUPPORT_UNPACK_LISTS_H
#define SUPPORT_UNPACK_LISTS_H

#include "base/frag.h"
#include "base/rng.h"

/* What a list is made of. */
struct unpack_shape {
	uint32_t count;	  /* fragments, 1 or more */
	uint32_t most;	  /* bytes of one, 1 or more */
	uint32_t exactly; /* 1: each has as many, but for the last */
	uint32_t gaps;	  /* 1: some bytes of the destination belong to none */
	uint32_t
		shuffled; /* in any order; else ascending runs, as chunks of several sockets come */
	uint32_t skew;	  /* of the pages' first bytes; 0: they are aligned to 16 */
};

static inline void unpack_swap(struct base_frag *a, struct base_frag *b)
{
	struct base_frag keep = *a;

	*a = *b;
	*b = keep;
}

/* Fills frags for a pool of so many pages of page bytes, most + skew <= page. Returns the sum of
 * lengths; *out_span: the end of the last one at the destination. */
static inline uint64_t unpack_list_make(struct rng *rng, const struct unpack_shape *shape,
					uint32_t pages, uint32_t page, struct base_frag *frags,
					uint64_t *out_span)
{
	uint64_t at = shape->gaps ? rng_below(rng, 40) : 0, sum = 0;

	for (uint32_t i = 0; i < shape->count; i++) {
		uint32_t len =
			shape->exactly ? shape->most : (uint32_t)rng_range(rng, 1, shape->most);

		if (!shape->exactly && rng_one_in(rng, 4))
			len = (uint32_t)rng_range(rng, 1, len < 40 ? len : 40);
		frags[i].src = (uint32_t)rng_below(rng, pages) * page;
		if (shape->skew)
			frags[i].src += (uint32_t)rng_below(rng, shape->skew);
		frags[i].len = len;
		frags[i].dst = at;
		at += len;
		sum += len;
		if (shape->gaps && rng_one_in(rng, 3))
			at += rng_below(rng, 40);
	}
	*out_span = at;
	if (shape->shuffled)
		for (uint32_t i = shape->count; i > 1; i--)
			unpack_swap(&frags[i - 1], &frags[rng_below(rng, i)]);
	else if (shape->count > 3 && rng_one_in(rng, 2)) /* two runs, the later one first */
		for (uint32_t i = 0; i < shape->count / 2; i++)
			unpack_swap(&frags[i], &frags[i + (shape->count + 1) / 2]);
	return sum;
}

#endif
