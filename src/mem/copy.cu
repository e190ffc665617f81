/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy kernels. They copy scattered pieces of GPU memory into one slot of mapped host memory
 * (mem_gather), or from the slot to the pieces (mem_scatter).
 *
 * The bus to host memory limits the speed, so the work is divided along the slot: a block gets a
 * range of the slot, a warp gets runs of 16-byte words in this range, and a thread copies aligned
 * words. Pieces in GPU memory may have any alignment; the bytes are shifted into place in
 * registers. A word at the beginning or end of a piece may be copied byte by byte. copy_abi.h
 * documents the interface, docs/design/gpu.md the reasons for the order of the words.
 */
#include "mem/copy_abi.h"
#include "mem/verdict.cuh"

#define WORD 16u /* bytes that a thread loads or stores at once */
#define LANES 32u
#define UNROLL 4u /* words that a thread loads before it stores them */
#define STEP (UNROLL * LANES * WORD)
#define TILE 512u /* pieces that a block keeps in shared memory at a time */
#define LINE 128u
#define ALL 0xffffffffu
#define NONE 0xffffu

/* A part of the list's pieces, loaded into shared memory. Positions are byte offsets as in struct
 * mem_copy_args (copy_abi.h). Piece i has positions from[i] .. end[i] - 1, and its byte at position
 * p has the GPU address delta[i] + p. The values of `end` ascend strictly. */
struct tile {
	uint64_t delta[TILE];
	uint32_t from[TILE], end[TILE];
};

/* What the functions below need to know of the tile, the slot and the calling thread. */
struct view {
	const struct tile *t;
	uint32_t n;    /* number of pieces in the tile */
	uint64_t base; /* address of the slot's position 0 for the GPU */
	uint32_t lane;
};

static __device__ __forceinline__ uint4 copy_load16(uint64_t addr)
{
	return __ldcs((const uint4 *)addr);
}

static __device__ __forceinline__ void copy_store16(uint64_t addr, uint4 word)
{
	__stcs((uint4 *)addr, word);
}

/* Returns 16 of the 32 bytes in `low` and `high`, beginning with byte `by`, which is below 16. */
static __device__ __forceinline__ uint4 copy_shifted(uint4 low, uint4 high, uint32_t by)
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

/* Returns byte `k` of the word. `k` is a constant after loop unrolling. */
static __device__ __forceinline__ uint8_t byte_of(uint4 word, int k)
{
	uint32_t x = k < 4 ? word.x : k < 8 ? word.y : k < 12 ? word.z : word.w;

	return (uint8_t)(x >> k % 4 * 8);
}

/* Returns the index of the first piece, from index `lo` on, that ends after `pos`. Returns `n` if
 * there is none. */
static __device__ __forceinline__ uint32_t piece_at(const struct tile *t, uint32_t n, uint32_t lo,
						    uint32_t pos)
{
	uint32_t hi = n;

	if (lo < n && pos < t->end[lo])
		return lo;
	while (lo < hi) {
		uint32_t mid = (lo + hi) / 2;

		if (pos < t->end[mid])
			hi = mid;
		else
			lo = mid + 1;
	}
	return lo;
}

/* Returns whether the byte at `pos` belongs to a piece, and stores the piece's index in *p if so.
 * Before the first byte of a word, the caller sets *p to the first piece that ends after this byte.
 * Then it calls this for each byte of the word in turn. Pieces have at least one byte, so *p grows
 * by at most 1 per call. */
static __device__ __forceinline__ bool piece_step(const struct view *v, uint32_t pos, uint32_t *p)
{
	if (*p < v->n && pos >= v->t->end[*p])
		++*p;
	return *p < v->n && pos >= v->t->from[*p];
}

/* Gathers a word of the slot byte by byte, beginning with piece `p`. All loads come before the
 * first store, so that their latencies overlap. */
static __device__ __forceinline__ void gather_bytes(const struct view *v, uint32_t pos, uint32_t p)
{
	uint32_t byte[WORD], have = 0;

#pragma unroll
	for (uint32_t k = 0; k < WORD; k++) {
		byte[k] = 0;
		if (piece_step(v, pos + k, &p)) {
			byte[k] = *(const uint8_t *)(v->t->delta[p] + pos + k);
			have |= 1u << k;
		}
	}
	if (have == (1u << WORD) - 1) {
		uint32_t x[4];

#pragma unroll
		for (int i = 0; i < 4; i++)
			x[i] = byte[i * 4] | byte[i * 4 + 1] << 8 | byte[i * 4 + 2] << 16 |
			       byte[i * 4 + 3] << 24;
		copy_store16(v->base + pos, make_uint4(x[0], x[1], x[2], x[3]));
		return;
	}
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (have >> k & 1)
			*(uint8_t *)(v->base + pos + k) = (uint8_t)byte[k];
}

/* Gathers the words of the slot at positions `at` .. `at` + STEP - 1 that are below `upto`. Memory
 * outside of pieces must not be read, so a word of the slot is gathered byte by byte if the aligned
 * words that contain its bytes in GPU memory extend beyond the piece. */
static __device__ __forceinline__ void gather_step(const struct view *v, uint32_t at, uint32_t upto)
{
	const struct tile *t = v->t;
	uint32_t by[UNROLL], place[UNROLL], p = 0, whole = 0, shared = 0;
	uint4 low[UNROLL], high[UNROLL];

#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		uint32_t pos = at + (j * LANES + v->lane) * WORD;

		low[j] = high[j] = make_uint4(0, 0, 0, 0);
		by[j] = place[j] = 0;
		if (pos >= upto)
			continue;
		p = piece_at(t, v->n, p, pos);
		place[j] = p;
		if (p == v->n || t->from[p] >= pos + WORD)
			continue;
		by[j] = (uint32_t)(t->delta[p] + pos) % WORD;
		if (t->from[p] + by[j] <= pos &&
		    (by[j] ? pos - by[j] + 2 * WORD : pos + WORD) <= t->end[p]) {
			low[j] = copy_load16(t->delta[p] + pos - by[j]);
			if (by[j])
				high[j] = copy_load16(t->delta[p] + pos - by[j] + WORD);
			whole |= 1u << j;
		} else {
			shared |= 1u << j;
		}
	}
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++)
		if (whole >> j & 1)
			copy_store16(v->base + at + (j * LANES + v->lane) * WORD,
				     copy_shifted(low[j], high[j], by[j]));
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++)
		if (shared >> j & 1)
			gather_bytes(v, at + (j * LANES + v->lane) * WORD, place[j]);
}

/* Stores bytes `from` .. `upto` - 1 of the word; byte k is stored at `addr` + k. */
static __device__ __forceinline__ void store_bytes(uint64_t addr, uint4 word, uint32_t from,
						   uint32_t upto)
{
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (k >= from && k < upto)
			*(uint8_t *)(addr + k) = byte_of(word, (int)k);
}

/* Scatters a word of the slot byte by byte, beginning with piece `p`. */
static __device__ __forceinline__ void scatter_bytes(const struct view *v, uint32_t pos, uint32_t p,
						     uint4 word)
{
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (piece_step(v, pos + k, &p))
			*(uint8_t *)(v->t->delta[p] + pos + k) = byte_of(word, (int)k);
}

/* Stores the word of each lane at the lane's `addr`. `p` is the index of the piece that contains
 * the whole word, or NONE if no piece does; a lane with NONE stores nothing. If `addr` is not
 * aligned, a lane stores one aligned word that consists of the end of its own word and the
 * beginning of the next lane's word. Among neighbouring lanes with the same `p`, the lowest one
 * also stores the bytes before these aligned words, and the highest one stores the bytes behind
 * them. All lanes of the warp must call this. */
static __device__ __forceinline__ void scatter_word(uint32_t lane, uint32_t p, uint64_t addr,
						    uint4 word)
{
	uint32_t off = (uint32_t)addr % WORD, before, behind;
	uint4 next;

	if (!__any_sync(ALL, p != NONE && off)) {
		if (p != NONE)
			copy_store16(addr, word);
		return;
	}
	before = __shfl_up_sync(ALL, p, 1);
	behind = __shfl_down_sync(ALL, p, 1);
	next.x = __shfl_down_sync(ALL, word.x, 1);
	next.y = __shfl_down_sync(ALL, word.y, 1);
	next.z = __shfl_down_sync(ALL, word.z, 1);
	next.w = __shfl_down_sync(ALL, word.w, 1);
	if (p == NONE)
		return;
	if (!off) {
		copy_store16(addr, word);
		return;
	}
	if (lane < LANES - 1 && behind == p)
		copy_store16(addr - off + WORD, copy_shifted(word, next, WORD - off));
	else
		store_bytes(addr, word, WORD - off, WORD);
	if (lane == 0 || before != p)
		store_bytes(addr, word, 0, WORD - off);
}

/* Scatters the words of the slot at positions `at` .. `at` + STEP - 1 that are below `upto`. */
static __device__ __forceinline__ void scatter_step(const struct view *v, uint32_t at,
						    uint32_t upto)
{
	const struct tile *t = v->t;
	uint32_t place[UNROLL], p = 0, whole = 0, shared = 0;
	uint4 word[UNROLL];

#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		uint32_t pos = at + (j * LANES + v->lane) * WORD;

		word[j] = make_uint4(0, 0, 0, 0);
		place[j] = 0;
		if (pos >= upto)
			continue;
		p = piece_at(t, v->n, p, pos);
		place[j] = p;
		if (p == v->n || t->from[p] >= pos + WORD)
			continue;
		word[j] = copy_load16(v->base + pos);
		if (t->from[p] <= pos && pos + WORD <= t->end[p])
			whole |= 1u << j;
		else
			shared |= 1u << j;
	}
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		uint32_t pos = at + (j * LANES + v->lane) * WORD;
		bool mine = whole >> j & 1;

		scatter_word(v->lane, mine ? place[j] : NONE, mine ? t->delta[place[j]] + pos : 0,
			     word[j]);
	}
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++)
		if (shared >> j & 1)
			scatter_bytes(v, at + (j * LANES + v->lane) * WORD, place[j], word[j]);
}

/* Copies this warp's share of positions `pos` .. `upto` - 1. The warps of the block take turns,
 * STEP positions each. */
template <bool GATHER>
static __device__ __forceinline__ void warp_work(const struct view *v, uint32_t pos, uint32_t upto)
{
	uint32_t warp = threadIdx.x / LANES, warps = blockDim.x / LANES;

	for (uint32_t at = pos + warp * STEP; at < upto; at += warps * STEP)
		if (GATHER)
			gather_step(v, at, upto);
		else
			scatter_step(v, at, upto);
}

/* Loads pieces `first` .. `first` + `n` - 1 into the tile. All threads of the block take part. */
static __device__ __forceinline__ void stage_tile(const struct mem_copy_args *a, struct tile *t,
						  uint32_t first, uint32_t n)
{
	const struct mem_copy_piece *pieces = (const struct mem_copy_piece *)a->pieces;
	uint32_t lead = (uint32_t)a->slot % LINE;

	for (uint32_t i = threadIdx.x; i < n; i += blockDim.x) {
		uint64_t addr = pieces[first + i].addr, length = pieces[first + i].length;
		uint32_t from = lead + (uint32_t)pieces[first + i].slot_off;

		t->delta[i] = addr - from;
		t->from[i] = from;
		t->end[i] = from + (uint32_t)length;
	}
}

/* Does the work of one block, in tiles of up to TILE pieces. All pieces of a word must be in the
 * same tile. So each tile except the block's last one stops before the word in which its last piece
 * ends, and the next tile begins with that word. */
template <bool GATHER>
static __device__ __forceinline__ void block_main(const struct mem_copy_args *a)
{
	__shared__ struct tile t;
	__shared__ uint32_t halt;
	uint32_t block = blockIdx.x, pos = a->begin + block * a->share, i = a->first[block];
	uint32_t last = a->end - pos < a->share ? a->end : pos + a->share;
	uint32_t beyond = a->first[block + 1] < a->count ? a->first[block + 1] + 1 : a->count;
	struct view v = {&t, 0, a->slot - a->slot % LINE, threadIdx.x % LANES};

	/* The last thread finds out whether the list is aborted. Meanwhile the other threads load
	 * pieces, which takes about as long. */
	if (threadIdx.x == blockDim.x - 1)
		halt = list_stopped((struct mem_copy_state *)a->state,
				    (struct mem_copy_mark *)a->mark, a->serial);
	while (pos < last) {
		uint32_t n = beyond - i < TILE ? beyond - i : TILE, upto = last;

		stage_tile(a, &t, i, n);
		__syncthreads();
		if (halt)
			return;
		if (i + n < beyond && (t.end[n - 1] & ~(WORD - 1)) < upto)
			upto = t.end[n - 1] & ~(WORD - 1);
		v.n = n;
		warp_work<GATHER>(&v, pos, upto);
		i += piece_at(&t, n, 0, upto);
		pos = upto;
		__syncthreads();
	}
}

extern "C" __global__ void __launch_bounds__(MEM_COPY_THREADS)
	mem_gather(const __grid_constant__ struct mem_copy_args args)
{
	block_main<true>(&args);
}

extern "C" __global__ void __launch_bounds__(MEM_COPY_THREADS)
	mem_scatter(const __grid_constant__ struct mem_copy_args args)
{
	block_main<false>(&args);
}
