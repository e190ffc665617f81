/* SPDX-License-Identifier: Apache-2.0 */
/* Places of the pieces of the transfers of a window, in source and destination. */
#ifndef TOOLS_PERF_LAYOUT_H
#define TOOLS_PERF_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "perf_pattern.h"

#define PERF_TRANSFERS_MAX 4096 /* of one window */
#define PERF_PIECES_MAX (1u << 21)

/* The working set is divided into equal slots of one piece each; transfer t owns pieces t *
 * batch and following. With batch 1 pieces are in order; larger batches use random slots, chosen
 * independently for source and destination, but equally at both ends for the same seed. */
struct perf_layout {
	uint64_t working_set;
	uint64_t size;	 /* of a transfer */
	uint64_t piece;	 /* size / batch */
	uint64_t stride; /* distance of slots, >= piece */
	uint32_t batch;
	uint32_t transfers;	       /* transfers of a whole window */
	uint32_t *src_slot, *dst_slot; /* slot by piece; NULL: in order */
	uint32_t *dst_piece;	       /* piece by slot: the inverse of dst_slot */
};

/* Returns 0, or -1 without memory. The caller has checked that 0 < size <= working_set, size %
 * batch == 0, and batch <= PERF_PIECES_MAX. */
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

/* Number of wrong bytes, and the offset of the first one in the destination. */
struct perf_wrong {
	uint64_t count, first;
};

/* Access of a check to the bytes of a destination: called with rising offsets, for no byte
 * twice. */
struct perf_view {
	/* *out: bytes at .. at + *out_len - 1, valid until the next call; 0 < *out_len <= len. */
	tcpx_status (*look)(void *arg, uint64_t at, uint64_t len, const uint8_t **out,
			    uint64_t *out_len);
	void *arg;
};

/* Compares a whole destination after the first `used` transfers of a window: their pieces with
 * the pattern, all other bytes with the poison. */
tcpx_status perf_layout_check(const struct perf_layout *layout, const void *dst, uint32_t used,
			      uint64_t key, const struct perf_leave *leave,
			      struct perf_wrong *out_wrong);
tcpx_status perf_layout_check_view(const struct perf_layout *layout, const struct perf_view *view,
				   uint32_t used, uint64_t key, const struct perf_leave *leave,
				   struct perf_wrong *out_wrong);

#endif
