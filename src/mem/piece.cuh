/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A warp moves one piece of memory, of any length and any alignment of source and destination.
 *
 * The destination determines the division: a lane owns an aligned 16-byte word of it, and shifts
 * its bytes out of two aligned words of the source: the word that this lane has loaded and that of
 * the next lane. All loads of a step are under way before the first store. Only the first and the
 * last word of a piece are stored in parts, if the piece has only a part of them. Nothing but the
 * destination is written, and nothing outside of the given bounds is read.
 */
#ifndef MEM_PIECE_CUH
#define MEM_PIECE_CUH

#include <stdint.h>

#define WORD 16u	      /* bytes of a lane's access */
#define LANES 32u
#define UNROLL 8u	      /* words that a lane has under way */
#define STEP (UNROLL * LANES) /* whole words of a step */
#define ALL 0xffffffffu

/* Bypasses the L1, which may have stale lines of memory that others write. */
static __device__ __forceinline__ uint4 piece_load16(uint64_t addr)
{
	return __ldcg((const uint4 *)addr);
}

/* Memory that may be read: from lo up to hi. */
struct piece_bounds {
	uint64_t lo, hi;
};

/* Loads the bytes of the aligned word at addr that are inside the bounds; the others are 0. */
static __device__ __forceinline__ uint4 load_bounded(uint64_t addr, struct piece_bounds in)
{
	uint32_t x[4] = {0, 0, 0, 0};

	if (in.lo <= addr && addr + WORD <= in.hi)
		return piece_load16(addr);
#pragma unroll
	for (uint32_t k = 0; k < WORD; k++)
		if (in.lo <= addr + k && addr + k < in.hi)
			x[k / 4] |= (uint32_t)__ldcg((const unsigned char *)(addr + k))
				    << k % 4 * 8;
	return make_uint4(x[0], x[1], x[2], x[3]);
}

static __device__ __forceinline__ void piece_store16(uint64_t addr, uint4 word)
{
	*(uint4 *)addr = word;
}

/* Returns bytes by .. by + 15 of the 32 bytes in low and high; by < 16. */
static __device__ __forceinline__ uint4 piece_shifted(uint4 low, uint4 high, uint32_t by)
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

/* Stores bytes from .. upto - 1 of the word to the aligned address addr, with accesses as wide as
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

/* Moves up to STEP whole words to the aligned address dst. by: src % WORD. */
static __device__ __forceinline__ void move_words(uint64_t src, uint64_t dst, uint32_t words,
						  uint32_t by, uint32_t lane,
						  struct piece_bounds in)
{
	uint32_t need = words + (by ? 1 : 0); /* words of the source that have to be loaded */
	uint64_t last = src - by + (uint64_t)(need - 1) * WORD;
	bool first_part = by && src - by < in.lo, last_part = by && last + WORD > in.hi;
	uint32_t begin = first_part ? 1 : 0, end = last_part ? need - 1 : need;
	uint4 word[UNROLL], edge = make_uint4(0, 0, 0, 0);

	src -= by;
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		uint32_t i = j * LANES + lane;

		word[j] = make_uint4(0, 0, 0, 0);
		if (begin <= i && i < end)
			word[j] = piece_load16(src + i * WORD);
	}
	if (first_part && !lane)
		word[0] = load_bounded(src, in);
	if (need > STEP) {
		edge = load_bounded(last, in);
	} else if (last_part) {
		if (lane == (need - 1) % LANES)
			edge = load_bounded(last, in);
#pragma unroll
		for (uint32_t j = 0; j < UNROLL; j++)
			if (j * LANES + lane == need - 1)
				word[j] = edge;
	}
#pragma unroll
	for (uint32_t j = 0; j < UNROLL; j++) {
		if (by && j * LANES < words) { /* the condition is the same for all lanes */
			uint4 give = j + 1 < UNROLL ? word[(j + 1) % UNROLL] : edge, next;

			/* the word after that of lane 31 is the first one of the next round */
			give = lane ? word[j] : give;
			next.x = __shfl_sync(ALL, give.x, lane + 1);
			next.y = __shfl_sync(ALL, give.y, lane + 1);
			next.z = __shfl_sync(ALL, give.z, lane + 1);
			next.w = __shfl_sync(ALL, give.w, lane + 1);
			word[j] = piece_shifted(word[j], next, by);
		}
		if (j * LANES + lane < words)
			piece_store16(dst + (j * LANES + lane) * WORD, word[j]);
	}
}

/* Loads bytes from .. upto - 1 of the 16 bytes at src; the other bytes of the result are
 * undefined. */
static __device__ __forceinline__ uint4 load_part(uint64_t src, uint32_t from, uint32_t upto,
						  struct piece_bounds in)
{
	uint32_t by = (uint32_t)src % WORD;
	uint4 low = make_uint4(0, 0, 0, 0), high = low;

	if (by + from < WORD)
		low = load_bounded(src - by, in);
	if (by + upto > WORD)
		high = load_bounded(src - by + WORD, in);
	return piece_shifted(low, high, by);
}

/* Moves len bytes with all lanes of a warp. */
static __device__ __forceinline__ void move_piece(uint64_t src, uint64_t dst, uint32_t len,
						  uint32_t lane, struct piece_bounds in)
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
		bytes = load_part(src + (part - dst), from, upto, in);
	for (uint32_t at = 0; at < words; at += STEP) {
		uint64_t begin = head + (uint64_t)at * WORD;

		move_words(src + begin, dst + begin, words - at < STEP ? words - at : STEP,
			   (uint32_t)(src + head) % WORD, lane, in);
	}
	if (from < upto)
		store_part(part, bytes, from, upto);
}

#endif
