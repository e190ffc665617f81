/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy kernels: they move scattered pieces of GPU memory to and from one slot of mapped host
 * memory.
 *
 * The host side of the bus limits the speed, so work is divided by it: a thread owns an aligned
 * 16-byte word of the slot, a warp a run of such words, a block a range of the slot. Different
 * alignments are handled by shifts in registers on the GPU side. Piece boundaries matter only
 * where a piece ends: a word that is not wholly inside one piece moves byte by byte. copy_abi.h
 * has the contract, docs/design/gpu.md the argument for the order of the words.
 */
#include "mem/copy_abi.h"
#include "mem/verdict.cuh"

#define WORD 16u /* bytes of a thread's access */
#define LANES 32u
#define UNROLL 4u /* words that a thread has under way */
#define STEP (UNROLL * LANES * WORD)
#define TILE 512u /* pieces in shared memory at a time */
#define LINE 128u
#define ALL 0xffffffffu
#define NONE 0xffffu

/* Pieces in terms of positions (see struct mem_copy_args). The byte of piece i at position p is at
 * GPU address delta[i] + p. Piece i has positions from[i] .. end[i] - 1; ends ascend strictly. */
struct tile {
	uint64_t delta[TILE];
	uint32_t from[TILE], end[TILE];
};

/* The data that a thread needs for a step of its warp. */
struct view {
	const struct tile *t;
	uint32_t n;    /* number of pieces in the tile */
	uint64_t base; /* address of position 0 */
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

/* Returns bytes by .. by + 15 of the 32 bytes in low and high; by < 16. */
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

/* Returns byte k of the word. k is a constant after unrolling. */
static __device__ __forceinline__ uint8_t byte_of(uint4 word, int k)
{
	uint32_t x = k < 4 ? word.x : k < 8 ? word.y : k < 12 ? word.z : word.w;

	return (uint8_t)(x >> k % 4 * 8);
}

/* Returns the first piece from lo on whose end is after pos; n: there is none. */
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

/* Returns whether the byte at pos belongs to a piece; *p is then that piece. The caller begins with
 * the first piece of a word in *p and calls this for each byte of the word in turn: pieces have at
 * least one byte, so one step suffices. */
static __device__ __forceinline__ bool piece_step(const struct view *v, uint32_t pos, uint32_t *p)
{
	if (*p < v->n && pos >= v->t->end[*p])
		++*p;
	return *p < v->n && pos >= v->t->from[*p];
}

/* Gathers a word of the slot that several pieces share: all loads come before the first store, so
 * that their latencies overlap. */
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

/* Gathers the words at positions at .. at + STEP - 1 that are before upto. A word whose aligned
 * source words extend beyond its piece is gathered by bytes like a word that pieces share, because
 * memory outside of pieces must not be read. */
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

/* Stores bytes from .. upto - 1 of the word to addr + from .. */
static __device__ __forceinline__ void store_bytes(uint64_t addr, uint4 word, uint32_t from,
						   uint32_t upto)
{
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (k >= from && k < upto)
			*(uint8_t *)(addr + k) = byte_of(word, (int)k);
}

/* Scatters a word of the slot that several pieces share; p: the first of them. */
static __device__ __forceinline__ void scatter_bytes(const struct view *v, uint32_t pos, uint32_t p,
						     uint4 word)
{
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (piece_step(v, pos + k, &p))
			*(uint8_t *)(v->t->delta[p] + pos + k) = byte_of(word, (int)k);
}

/* Stores the word of each lane to addr. p: the piece that contains the whole word; NONE: no piece
 * does, and nothing is stored. If addr is not aligned, a lane writes the aligned word that consists
 * of its own bytes and those of the next lane; the first and the last lane of a run write the
 * remaining bytes. All lanes of the warp take part. */
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

/* Scatters the words at positions at .. at + STEP - 1 that are before upto. */
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

/* Does the steps of this warp for positions pos .. upto - 1. */
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

/* Loads n pieces from first on into the tile, with all threads of the block. */
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

/* Does the work of a block, in tiles of up to TILE pieces. All pieces of a word must be in one
 * tile: so a tile that is not the last of the block stops before the word in which its last piece
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

	/* One thread asks whether to stop; meanwhile the others fetch pieces, which takes as
	 * long. */
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
