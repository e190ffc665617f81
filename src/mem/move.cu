/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The move kernel: copies a list of pieces from memory of one GPU to memory of another, or within
 * one.
 *
 * A link between GPUs is fast but has a long delay, so many bytes must be under way. A warp
 * therefore copies a unit of 4 KiB at a time and makes all loads of the unit before its first store
 * (piece.cuh). Blocks take equal shares of the units, so that one long piece keeps all blocks busy
 * as well as many short ones. move_abi.h documents the interface.
 */
#include "mem/move_abi.h"
#include "mem/piece.cuh"
#include "mem/verdict.cuh"

#define TILE 512u /* pieces that a block keeps in shared memory at a time */

struct tile {
	uint64_t src[TILE], dst[TILE];
	uint32_t length[TILE], unit[TILE];
};

/* Loads pieces `first` .. `first` + `n` - 1 into the tile. All threads of the block take part. */
static __device__ __forceinline__ void stage_pieces(const struct mem_move_args *a, struct tile *t,
						  uint32_t first, uint32_t n)
{
	const struct mem_move_piece *pieces = (const struct mem_move_piece *)a->pieces;

	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
		const struct mem_move_piece *p = &pieces[first + i];

		t->src[i] = p->src;
		t->dst[i] = p->dst;
		t->length[i] = p->length;
		t->unit[i] = p->unit;
	}
}

/* Returns the index of the piece that contains the unit: the last piece, from index `lo` on, whose
 * first unit is not above `unit`. */
static __device__ __forceinline__ uint32_t piece_of(const struct tile *t, uint32_t n, uint32_t lo,
						    uint32_t unit)
{
	uint32_t hi = n;

	while (lo + 1 < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (t->unit[mid] <= unit)
			lo = mid;
		else
			hi = mid;
	}
	return lo;
}

/* Copies one unit of piece `p`. All lanes of the warp take part. */
static __device__ __forceinline__ void move_unit(const struct tile *t, uint32_t p, uint32_t unit,
						 uint32_t lane)
{
	uint64_t src = t->src[p], dst = t->dst[p];
	uint32_t length = t->length[p], lead = (uint32_t)dst % WORD;
	uint32_t at = (unit - t->unit[p]) * MEM_MOVE_UNIT;
	uint32_t from = at ? at - lead : 0;
	uint32_t upto = at + MEM_MOVE_UNIT - lead;
	struct piece_bounds in = {src, src + length};

	upto = upto < length ? upto : length;
	move_piece(src + from, dst + from, upto - from, lane, in);
}

extern "C" __global__ void __launch_bounds__(MEM_MOVE_THREADS)
	mem_move(const __grid_constant__ struct mem_move_args a)
{
	__shared__ struct tile t;
	__shared__ uint32_t halt;
	uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
	uint32_t pos = blockIdx.x * a.share, i = a.first[blockIdx.x];
	uint32_t last = a.units - pos < a.share ? a.units : pos + a.share;
	uint32_t beyond = a.first[blockIdx.x + 1] < a.count ? a.first[blockIdx.x + 1] + 1 : a.count;

	/* The last thread finds out whether the list is aborted. Meanwhile the other threads load
	 * pieces, which takes about as long. */
	if (threadIdx.x == blockDim.x - 1)
		halt = list_stopped((struct mem_copy_state *)a.state,
				    (struct mem_copy_mark *)a.mark, a.serial);
	while (pos < last) {
		uint32_t n = beyond - i < TILE ? beyond - i : TILE, upto = last, p = 0;

		stage_pieces(&a, &t, i, n);
		__syncthreads();
		if (halt)
			return;
		if (i + n < beyond) {
			upto = t.unit[n - 1] + mem_move_units(t.dst[n - 1], t.length[n - 1]);
			upto = upto < last ? upto : last;
		}
		for (uint32_t u = pos + warp; u < upto; u += MEM_MOVE_WARPS) {
			p = piece_of(&t, n, p, u);
			move_unit(&t, p, u, lane);
		}
		i += n;
		pos = upto;
		__syncthreads();
	}
}
