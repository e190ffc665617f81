/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pieces of a window's transfers lie. */
#include "perf_layout.h"

#include <stdlib.h>

#include "base/rng.h"

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

/* A comparison under way. */
struct compare {
	const uint8_t *dst;
	struct perf_wrong wrong;
	uint64_t since; /* bytes compared since it was asked whether to leave */
	const struct perf_leave *leave;
	tcpx_status status;
};

/* Part of a piece, or of the bytes between pieces: pos is where in the source they came from. */
static void compare_part(struct compare *c, uint64_t at, uint64_t len, const uint64_t *pos,
			 uint64_t key)
{
	size_t first = 0;
	uint64_t wrong = pos ? perf_pattern_check(c->dst + at, *pos, len, key, &first)
			     : perf_poison_check(c->dst + at, len, &first);

	if (wrong && !c->wrong.count)
		c->wrong.first = at + first;
	c->wrong.count += wrong;
	c->since += len;
	if (c->since < PERF_PIECE_BYTES)
		return;
	c->since = 0;
	c->status = c->leave->ask(c->leave->arg);
}

/* pos NULL: nothing was to arrive there. */
static void compare(struct compare *c, uint64_t at, uint64_t len, const uint64_t *pos, uint64_t key)
{
	uint64_t from = pos ? *pos : 0;

	while (len && c->status == TCPX_OK) {
		uint64_t part = len < PERF_PIECE_BYTES ? len : PERF_PIECE_BYTES;

		compare_part(c, at, part, pos ? &from : NULL, key);
		at += part;
		from += part;
		len -= part;
	}
}

tcpx_status perf_layout_check(const struct perf_layout *layout, const void *dst, uint32_t used,
			      uint64_t key, const struct perf_leave *leave,
			      struct perf_wrong *out_wrong)
{
	struct compare c = {.dst = dst, .leave = leave};
	uint32_t pieces = layout->transfers * layout->batch, with_data = used * layout->batch;
	uint64_t gap = layout->stride - layout->piece, end = pieces * layout->stride;

	for (uint32_t p = 0; p < pieces && c.status == TCPX_OK; p++) {
		uint64_t at = perf_layout_dst(layout, p), from = perf_layout_src(layout, p);

		compare(&c, at, layout->piece, p < with_data ? &from : NULL, key);
		compare(&c, at + layout->piece, gap, NULL, key);
	}
	compare(&c, end, layout->working_set - end, NULL, key);
	if (c.status == TCPX_OK)
		*out_wrong = c.wrong;
	return c.status;
}
