/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The unpack kernels: they move pieces of a bounce pool to their destination, in the GPU's own
 * memory or that of a peer.
 *
 * One warp moves one piece: fragments are about as long as one step of a warp, and a piece needs
 * no search. The destination determines the division: a lane owns an aligned 16-byte word of it,
 * and shifts it out of two aligned words of the source, its own and that of the next lane; all
 * loads of a step are under way before the first store. Only the first and the last word of a
 * piece, if partial, are written in parts. unpack_abi.h has the contract.
 */
#include "mem/unpack_abi.h"

#define WORD 16u /* bytes per lane and access */
#define LANES 32u
#define UNROLL 8u /* words per lane under way */
#define STEP (UNROLL * LANES)
#define ALL 0xffffffffu

static_assert(STEP == MEM_UNPACK_WORDS, "the host divides long fragments so");

/* Bypasses the L1, which may have stale lines of a page that the NIC has written again. */
static __device__ __forceinline__ uint4 unpack_load16(uint64_t addr)
{
	return __ldcg((const uint4 *)addr);
}

static __device__ __forceinline__ void unpack_store16(uint64_t addr, uint4 word)
{
	*(uint4 *)addr = word;
}

/* Bytes by .. by + 15 of the 32 in low, high; by < 16. */
static __device__ __forceinline__ uint4 unpack_shifted(uint4 low, uint4 high, uint32_t by)
{
	uint32_t x[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
	uint32_t bits = by % 4 * 8;

#pragma unroll
	for (int i = 0; i < 6; i++)
		x[i] = by & 8 ? x[i + 2] : x[i];
#pragma unroll
	for (int i = 0; i < 5; i++)
		x[i] = by & 4 ? x[i + 1] : x[i];
	return make_uint4(__funnelshift_r(x[0], x[1], bits), __funnelshift_r(x[1], x[2], bits),
			  __funnelshift_r(x[2], x[3], bits), __funnelshift_r(x[3], x[4], bits));
}

/* Loads bytes from .. upto - 1 of the 16 at src; the other bytes of the result are undefined. Words
 * that contain none of them are not read, because src itself may be before the pool. */
static __device__ __forceinline__ uint4 load_part(uint64_t src, uint32_t from, uint32_t upto)
{
	uint32_t by = (uint32_t)src % WORD;
	uint4 low = make_uint4(0, 0, 0, 0), high = low;

	if (by + from < WORD)
		low = unpack_load16(src - by);
	if (by + upto > WORD)
		high = unpack_load16(src - by + WORD);
	return unpack_shifted(low, high, by);
}

/* Stores bytes from .. upto - 1 of the word at addr, which is aligned, with accesses as wide as
 * possible. */
static __device__ __forceinline__ void store_part(uint64_t addr, uint4 word, uint32_t from,
						  uint32_t upto)
{
	uint32_t x[4] = {word.x, word.y, word.z, word.w};

#pragma unroll
	for (uint32_t k = 0; k < WORD; k += 4) {
		if (from <= k && k + 4 <= upto) {
			*(uint32_t *)(addr + k) = x[k / 4];
			continue;
		}
#pragma unroll
		for (uint32_t i = k; i < k + 4; i += 2) {
			uint32_t two = x[k / 4] >> i % 4 * 8;

			if (from <= i && i + 2 <= upto)
				*(uint16_t *)(addr + i) = (uint16_t)two;
			else if (from <= i && i < upto)
				*(uint8_t *)(addr + i) = (uint8_t)two;
			else if (from <= i + 1 && i + 1 < upto)
				*(uint8_t *)(addr + i + 1) = (uint8_t)(two >> 8);
		}
	}
}

/* Moves up to STEP whole words to dst, which is aligned. by: misalignment of src. */
static __device__ __forceinline__ void move_words(uint64_t src, uint64_t dst, uint32_t words,
						  uint32_t by, uint32_t lane)
{
	uint32_t need = words + (by ? 1 : 0); /* words of the source */
	uint4 word[UNROLL], beyond = make_uint4(0, 0, 0, 0);

	src -= by;
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		word[j] = make_uint4(0, 0, 0, 0);
		if (j * LANES + lane < need)
			word[j] = unpack_load16(src + (j * LANES + lane) * WORD);
	}
	if (need > STEP)
		beyond = unpack_load16(src + STEP * WORD);
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		if (by && j * LANES < words) { /* the same for all lanes */
			uint4 give = j + 1 < UNROLL ? word[(j + 1) % UNROLL] : beyond, next;

			/* the word after that of lane 31 is the first one of the next round */
			give = lane ? word[j] : give;
			next.x = __shfl_sync(ALL, give.x, lane + 1);
			next.y = __shfl_sync(ALL, give.y, lane + 1);
			next.z = __shfl_sync(ALL, give.z, lane + 1);
			next.w = __shfl_sync(ALL, give.w, lane + 1);
			word[j] = unpack_shifted(word[j], next, by);
		}
		if (j * LANES + lane < words)
			unpack_store16(dst + (j * LANES + lane) * WORD, word[j]);
	}
}

/* Moves one piece with all lanes of a warp. */
static __device__ __forceinline__ void move_piece(uint64_t src, uint64_t dst, uint32_t len,
						  uint32_t lane)
{
	uint32_t off = (uint32_t)dst % WORD, head = (WORD - off) % WORD, words;
	uint32_t from = 0, upto = 0;
	uint64_t part = dst - off; /* lane 0: the partial word at the start; lane 1: at the end */
	uint4 bytes = make_uint4(0, 0, 0, 0);

	head = head < len ? head : len;
	words = (len - head) / WORD;
	if (lane == 0 && head) {
		from = off;
		upto = off + head;
	} else if (lane == 1) {
		part = dst + head + (uint64_t)words * WORD;
		upto = (len - head) % WORD;
	}
	if (from < upto)
		bytes = load_part(src + (part - dst), from, upto);
	for (uint32_t at = 0; at < words; at += STEP) {
		uint64_t begin = head + (uint64_t)at * WORD;

		move_words(src + begin, dst + begin, words - at < STEP ? words - at : STEP,
			   (uint32_t)(src + head) % WORD, lane);
	}
	if (from < upto)
		store_part(part, bytes, from, upto);
}

/* The last block of the launch reports that all bytes are in place. The stores of threads come
 * before the barrier of their block, and the barrier before its fence and count. The last count
 * comes after the others, and its fence and word after that. So the word comes after all bytes, for
 * every observer in the system. */
static __device__ __forceinline__ void block_end(const struct mem_unpack_args *a)
{
	__syncthreads();
	if (threadIdx.x)
		return;
	__threadfence();
	/* from the last back to 0, for the next launch of the stream */
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
		move_piece(a.args.src + a.pieces[i].src, a.pieces[i].dst, a.pieces[i].len, lane);
	block_end(&a.args);
}

/* One piece per warp at a time; the next ones are fetched over the bus meanwhile. */
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
			uint4 p = tile[warp]; /* src, len, dst */

			move_piece(a.src + p.x, (uint64_t)p.w << 32 | p.z, p.y, lane);
		}
		__syncthreads();
	}
	block_end(&a);
}
