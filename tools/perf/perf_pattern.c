/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Test data. The 64-bit word at position p (a multiple of 8) is mix(key + p / 8 * STEP): one
 * addition a word, so that the loops vectorise and a check runs at the speed of memory.
 */
#include "perf_pattern.h"

#include <string.h>

#include "base/rng.h"

#define STEP ((uint64_t)0x9e3779b97f4a7c15)
#define BLOCK 64

/* Two words at once, which every vector unit can do; unaligned in memory. */
typedef uint64_t pair __attribute__((vector_size(16)));
typedef uint64_t pair_at __attribute__((vector_size(16), aligned(1), may_alias));

uint64_t perf_pattern_key(uint64_t seed, uint64_t window, unsigned direction)
{
	uint64_t state = seed ^ (window * 2 + direction) * 0xd6e8feb86659fd93ULL;

	rng_split(&state);
	return rng_split(&state);
}

static inline uint64_t word_at(uint64_t pos, uint64_t key)
{
	uint64_t x = key + (pos >> 3) * STEP;

	return x ^ x >> 29;
}

/* The byte at any position. */
static inline uint8_t byte_at(uint64_t pos, uint64_t key)
{
	return (uint8_t)(word_at(pos, key) >> (pos & 7) * 8);
}

/* The words of a block at a position that is a multiple of 8, and the base of the next block. */
static inline pair block_base(uint64_t pos, uint64_t key)
{
	uint64_t base = key + (pos >> 3) * STEP;

	return (pair){base, base + STEP};
}

static inline pair block_word(pair base, unsigned i)
{
	pair x = base + (uint64_t)i * 2 * STEP;

	x ^= x >> 29;
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	x = (pair){__builtin_bswap64(x[0]), __builtin_bswap64(x[1])};
#endif
	return x;
}

void perf_pattern_fill(void *buf, uint64_t pos, size_t len, uint64_t key)
{
	uint8_t *p = buf;
	pair base;

	for (; len && pos & 7; len--)
		*p++ = byte_at(pos++, key);
	base = block_base(pos, key);
	for (; len >= BLOCK; len -= BLOCK, p += BLOCK, pos += BLOCK, base += BLOCK / 8 * STEP)
		for (unsigned i = 0; i < BLOCK / 16; i++)
			((pair_at *)p)[i] = block_word(base, i);
	for (; len; len--)
		*p++ = byte_at(pos++, key);
}

tcpx_status perf_fill(uint8_t *src, uint8_t *dst, uint64_t length, uint64_t key,
		      const struct perf_leave *leave)
{
	tcpx_status status = TCPX_OK;

	for (uint64_t at = 0, len; status == TCPX_OK && at < length; at += len) {
		len = length - at < PERF_PIECE_BYTES ? length - at : PERF_PIECE_BYTES;
		if (src)
			perf_pattern_fill(src + at, at, len, key);
		if (dst)
			memset(dst + at, PERF_POISON, len);
		status = leave->ask(leave->arg);
	}
	return status;
}

static uint64_t check_bytes(const uint8_t *p, uint64_t pos, size_t len, uint64_t key,
			    const uint8_t *start, size_t *first)
{
	uint64_t wrong = 0;

	for (size_t i = 0; i < len; i++) {
		if (p[i] == byte_at(pos + i, key))
			continue;
		if (!wrong && first)
			*first = (size_t)(p + i - start);
		wrong++;
	}
	return wrong;
}

uint64_t perf_pattern_check(const void *buf, uint64_t pos, size_t len, uint64_t key, size_t *first)
{
	const uint8_t *start = buf, *p = buf;
	size_t head = (8 - (pos & 7)) & 7;
	uint64_t wrong;
	pair base;

	if (head > len)
		head = len;
	wrong = check_bytes(p, pos, head, key, start, first);
	p += head;
	pos += head;
	len -= head;
	base = block_base(pos, key);
	for (; len >= BLOCK; len -= BLOCK, p += BLOCK, pos += BLOCK, base += BLOCK / 8 * STEP) {
		pair differ = {0};

		for (unsigned i = 0; i < BLOCK / 16; i++)
			differ |= ((const pair_at *)p)[i] ^ block_word(base, i);
		if (differ[0] | differ[1])
			wrong += check_bytes(p, pos, BLOCK, key, start, wrong ? NULL : first);
	}
	return wrong + check_bytes(p, pos, len, key, start, wrong ? NULL : first);
}

static int all_poison(const uint8_t *p, size_t len)
{
	return !len || (*p == PERF_POISON && !memcmp(p, p + 1, len - 1));
}

uint64_t perf_poison_check(const void *buf, size_t len, size_t *first)
{
	const uint8_t *p = buf;
	uint64_t wrong = 0;

	for (size_t done = 0, part; done < len; done += part) {
		part = len - done < 4096 ? len - done : 4096;
		if (all_poison(p + done, part))
			continue;
		for (size_t i = done; i < done + part; i++) {
			if (p[i] == PERF_POISON)
				continue;
			if (!wrong && first)
				*first = i;
			wrong++;
		}
	}
	return wrong;
}
