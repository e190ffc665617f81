/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pieces of a window's transfers lie in the source and in the destination. */
#ifndef TOOLS_PERF_LAYOUT_H
#define TOOLS_PERF_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "perf_pattern.h"

#define PERF_TRANSFERS_MAX 4096 /* of one window */
#define PERF_PIECES_MAX (1u << 21)

/*
 * The working set is cut in equal slots, one piece each; transfer t owns pieces t * batch ... .
 * Batch 1 lies in order, larger batches at random slots, independently on both sides, the same on
 * both ends for the same seed.
 */
struct perf_layout {
	uint64_t working_set;
	uint64_t size;	 /* of a transfer */
	uint64_t piece;	 /* size / batch */
	uint64_t stride; /* of slots, >= piece */
	uint32_t batch;
	uint32_t transfers;	       /* of a whole window */
	uint32_t *src_slot, *dst_slot; /* by piece; NULL: in order */
	uint32_t *dst_piece;	       /* by slot: the inverse of dst_slot */
};

/* 0; -1 without memory. The caller has checked: 0 < size <= working_set, size % batch == 0, and
 * batch <= PERF_PIECES_MAX. */
int perf_layout_init(struct perf_layout *layout, uint64_t working_set, uint64_t size,
		     uint32_t batch, uint64_t seed);
void perf_layout_fini(struct perf_layout *layout);

static inline uint64_t perf_layout_src(const struct perf_layout *layout, uint32_t piece)
{
	return (layout->src_slot ? layout->src_slot[piece] : piece) * layout->stride;
}

static inline uint64_t perf_layout_dst(const struct perf_layout *layout, uint32_t piece)
{
	return (layout->dst_slot ? layout->dst_slot[piece] : piece) * layout->stride;
}

/* Wrong bytes, and where in the destination the first of them is. */
struct perf_wrong {
	uint64_t count, first;
};

/* How a check gets at the bytes of a destination: asked with rising offsets, no byte twice. */
struct perf_view {
	/* *out: bytes at .. at + *out_len - 1, valid until the next call; 0 < *out_len <= len. */
	tcpx_status (*look)(void *arg, uint64_t at, uint64_t len, const uint8_t **out,
			    uint64_t *out_len);
	void *arg;
};

/* Compares all of a destination after the first used transfers of a window: their pieces against
 * the pattern, every other byte against the poison. */
tcpx_status perf_layout_check(const struct perf_layout *layout, const void *dst, uint32_t used,
			      uint64_t key, const struct perf_leave *leave,
			      struct perf_wrong *out_wrong);
tcpx_status perf_layout_check_view(const struct perf_layout *layout, const struct perf_view *view,
				   uint32_t used, uint64_t key, const struct perf_leave *leave,
				   struct perf_wrong *out_wrong);

#endif
