/* SPDX-License-Identifier: Apache-2.0 */
/* Places of the pieces of the transfers of a window. */
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

static uint32_t *inverse(const uint32_t *slots, uint32_t count)
{
	uint32_t *pieces = malloc(count * sizeof(*pieces));

	for (uint32_t i = 0; pieces && i < count; i++)
		pieces[slots[i]] = i;
	return pieces;
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
	if (layout->dst_slot)
		layout->dst_piece = inverse(layout->dst_slot, (uint32_t)transfers * batch);
	if (layout->src_slot && layout->dst_piece)
		return 0;
	perf_layout_fini(layout);
	return -1;
}

void perf_layout_fini(struct perf_layout *layout)
{
	free(layout->src_slot);
	free(layout->dst_slot);
	free(layout->dst_piece);
	*layout = (struct perf_layout){0};
}

/* State of a comparison. */
struct compare {
	const struct perf_view *view;
	struct perf_wrong wrong;
	uint64_t since; /* bytes compared since leave was last called */
	const struct perf_leave *leave;
	tcpx_status status;
};

/* Compares bytes of the view from at on; pos is their position in the source. */
static void compare_bytes(struct compare *c, const uint8_t *p, uint64_t at, uint64_t len,
			  const uint64_t *pos, uint64_t key)
{
	size_t first = 0;
	uint64_t wrong = pos ? perf_pattern_check(p, *pos, len, key, &first)
			     : perf_poison_check(p, len, &first);

	if (wrong && !c->wrong.count)
		c->wrong.first = at + first;
	c->wrong.count += wrong;
	c->since += len;
	if (c->since < PERF_PIECE_BYTES)
		return;
	c->since = 0;
	c->status = c->leave->ask(c->leave->arg);
}

/* Compares a piece, or the bytes between pieces; pos NULL: nothing should have arrived there. */
static void perf_layout_compare(struct compare *c, uint64_t at, uint64_t len, const uint64_t *pos,
				uint64_t key)
{
	uint64_t from = pos ? *pos : 0;

	while (len && c->status == TCPX_OK) {
		uint64_t part = len < PERF_PIECE_BYTES ? len : PERF_PIECE_BYTES;
		const uint8_t *p;

		c->status = c->view->look(c->view->arg, at, part, &p, &part);
		if (c->status == TCPX_OK)
			compare_bytes(c, p, at, part, pos ? &from : NULL, key);
		at += part;
		from += part;
		len -= part;
	}
}

tcpx_status perf_layout_check_view(const struct perf_layout *layout, const struct perf_view *view,
				   uint32_t used, uint64_t key, const struct perf_leave *leave,
				   struct perf_wrong *out_wrong)
{
	struct compare c = {.view = view, .leave = leave};
	uint32_t pieces = layout->transfers * layout->batch, with_data = used * layout->batch;
	uint64_t gap = layout->stride - layout->piece, end = pieces * layout->stride;

	for (uint32_t slot = 0; slot < pieces && c.status == TCPX_OK; slot++) {
		uint32_t p = layout->dst_piece ? layout->dst_piece[slot] : slot;
		uint64_t at = slot * layout->stride, from = perf_layout_src(layout, p);

		perf_layout_compare(&c, at, layout->piece, p < with_data ? &from : NULL, key);
		perf_layout_compare(&c, at + layout->piece, gap, NULL, key);
	}
	perf_layout_compare(&c, end, layout->working_set - end, NULL, key);
	if (c.status == TCPX_OK)
		*out_wrong = c.wrong;
	return c.status;
}

static tcpx_status look_host(void *arg, uint64_t at, uint64_t len, const uint8_t **out,
			     uint64_t *out_len)
{
	*out = (const uint8_t *)arg + at;
	*out_len = len;
	return TCPX_OK;
}

tcpx_status perf_layout_check(const struct perf_layout *layout, const void *dst, uint32_t used,
			      uint64_t key, const struct perf_leave *leave,
			      struct perf_wrong *out_wrong)
{
	struct perf_view view = {look_host, (void *)dst};

	return perf_layout_check_view(layout, &view, used, key, leave, out_wrong);
}
