/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pieces of a window's transfers lie. */
#include "perf_layout.h"

#include <stdlib.h>

#include "base/rng.h"
#include "perf_pattern.h"

static uint32_t *permutation(uint32_t count, uint64_t seed)
{
	uint32_t *slots = malloc(count * sizeof(*slots));
	struct rng rng;

	if (!slots)
		return NULL;
	rng_seed(&rng, seed);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t j = (uint32_t)rng_below(&rng, i + 1);

		slots[i] = slots[j];
		slots[j] = i;
	}
	return slots;
}

int perf_layout_init(struct perf_layout *layout, uint64_t working_set, uint64_t size,
		     uint32_t batch, uint64_t seed)
{
	uint64_t transfers = working_set / size, most = PERF_PIECES_MAX / batch;

	if (transfers > PERF_TRANSFERS_MAX)
		transfers = PERF_TRANSFERS_MAX;
	if (transfers > most)
		transfers = most;
	*layout = (struct perf_layout){
		.working_set = working_set,
		.size = size,
		.piece = size / batch,
		.batch = batch,
		.transfers = (uint32_t)transfers,
	};
	layout->stride = working_set / (transfers * batch);
	if (layout->stride > layout->piece && layout->stride - layout->piece >= 64)
		layout->stride &= ~63ULL;
	else
		layout->stride = layout->piece;
	if (batch == 1)
		return 0;
	layout->src_slot = permutation((uint32_t)transfers * batch, seed * 2 + 1);
	layout->dst_slot = permutation((uint32_t)transfers * batch, seed * 2 + 2);
	if (layout->src_slot && layout->dst_slot)
		return 0;
	perf_layout_fini(layout);
	return -1;
}

void perf_layout_fini(struct perf_layout *layout)
{
	free(layout->src_slot);
	free(layout->dst_slot);
	*layout = (struct perf_layout){0};
}

/* Wrong bytes so far, and where in the destination the first one is. */
struct found {
	const uint8_t *dst;
	uint64_t wrong, first;
};

static void add(struct found *found, uint64_t wrong, uint64_t at)
{
	if (wrong && !found->wrong)
		found->first = at;
	found->wrong += wrong;
}

static void check_poison(struct found *found, uint64_t at, uint64_t len)
{
	size_t first = 0;
	uint64_t wrong = perf_poison_check(found->dst + at, (size_t)len, &first);

	add(found, wrong, at + first);
}

static void check_pattern(struct found *found, uint64_t at, uint64_t pos, uint64_t len,
			  uint64_t key)
{
	size_t first = 0;
	uint64_t wrong = perf_pattern_check(found->dst + at, pos, (size_t)len, key, &first);

	add(found, wrong, at + first);
}

uint64_t perf_layout_check(const struct perf_layout *layout, const void *dst, uint32_t used,
			   uint64_t key, uint64_t *first)
{
	struct found found = {.dst = dst};
	uint32_t pieces = layout->transfers * layout->batch, with_data = used * layout->batch;
	uint64_t gap = layout->stride - layout->piece, end = pieces * layout->stride;

	for (uint32_t p = 0; p < pieces; p++) {
		uint64_t at = perf_layout_dst(layout, p);

		if (p < with_data)
			check_pattern(&found, at, perf_layout_src(layout, p), layout->piece, key);
		else
			check_poison(&found, at, layout->piece);
		check_poison(&found, at + layout->piece, gap);
	}
	check_poison(&found, end, layout->working_set - end);
	if (found.wrong)
		*first = found.first;
	return found.wrong;
}
