/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpack kernels: they copy pieces of a bounce pool to their destination, in the GPU's own
 * memory or that of a peer GPU.
 *
 * Fragments are about as long as one step of a warp. A warp therefore copies one whole piece at a
 * time (piece.cuh), and no thread has to search for its piece. unpack_abi.h documents the
 * interface.
 */
#include "mem/piece.cuh"
#include "mem/unpack_abi.h"

static_assert(STEP == MEM_UNPACK_WORDS, "the host divides long fragments so");

/* Reads of the bounce pool need no bounds: an aligned word that holds a byte of a fragment is
 * readable as a whole. */
#define POOL (struct piece_bounds){0, UINT64_MAX}

/* Called by all threads of a block when the block's bytes are stored. The block that gets here last
 * stores the launch's serial to the word. The stores of all threads come before the barrier of
 * their block, and the barrier comes before the block's fence and count. The last count comes after
 * all other counts, and before the system fence and the store of the word. So every observer in the
 * system that reads the new word also sees all bytes. */
static __device__ __forceinline__ void block_end(const struct mem_unpack_args *a)
{
	__syncthreads();
	if (threadIdx.x)
		return;
	__threadfence();
	/* the block that counts last resets the count to 0, for the next launch of the stream */
	if (atomicInc((uint32_t *)a->state, gridDim.x - 1) != gridDim.x - 1)
		return;
	__threadfence_system();
	*(volatile uint32_t *)a->word = a->serial;
}

extern "C" __global__ void __launch_bounds__(MEM_UNPACK_THREADS, MEM_UNPACK_SM_BLOCKS)
	mem_unpack_inline(const __grid_constant__ struct mem_unpack_inline_args a)
{
	uint32_t lane = threadIdx.x % LANES, step = gridDim.x * MEM_UNPACK_WARPS;
	uint32_t i = blockIdx.x * MEM_UNPACK_WARPS + threadIdx.x / LANES;

	for (; i < a.args.count; i += step)
		move_piece(a.args.src + a.pieces[i].src, a.pieces[i].dst, a.pieces[i].len, lane,
			   POOL);
	block_end(&a.args);
}

/* A warp copies one piece at a time. At the same time the block loads the next pieces over the
 * bus. */
extern "C" __global__ void __launch_bounds__(MEM_UNPACK_THREADS, MEM_UNPACK_SM_BLOCKS)
	mem_unpack_list(const __grid_constant__ struct mem_unpack_args a)
{
	__shared__ uint4 tile[MEM_UNPACK_WARPS];
	uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
	uint32_t step = gridDim.x * MEM_UNPACK_WARPS, own = threadIdx.x;
	uint32_t at = blockIdx.x * MEM_UNPACK_WARPS;
	const uint4 *pieces = (const uint4 *)a.pieces;
	uint4 next = make_uint4(0, 0, 0, 0);

	if (own < MEM_UNPACK_WARPS && at + own < a.count)
		next = __ldcv(pieces + at + own);
	for (; at < a.count; at += step) {
		if (own < MEM_UNPACK_WARPS)
			tile[own] = next;
		__syncthreads();
		if (own < MEM_UNPACK_WARPS && at + step + own < a.count)
			next = __ldcv(pieces + at + step + own);
		if (at + warp < a.count) {
			uint4 p = tile[warp]; /* a struct base_frag: src, len, dst */

			move_piece(a.src + p.x, (uint64_t)p.w << 32 | p.z, p.y, lane, POOL);
		}
		__syncthreads();
	}
	block_end(&a);
}
