/* SPDX-License-Identifier: Apache-2.0 */
/* What the conformance cases put into memory and look for: poison, position-dependent patterns. */
#include "conform.h"

/*
 * What orders these accesses is a transfer that ended, often one that another process knows of: a
 * race detector cannot see that. So they are not watched, and not left to watched library calls.
 */
#if defined(__clang__)
#define UNWATCHED __attribute__((no_sanitize("thread"), noinline))
#else
#define UNWATCHED                                                                                  \
	__attribute__((no_sanitize("thread"), noinline,                                            \
		       optimize("no-tree-loop-distribute-patterns")))
#endif

UNWATCHED void byte_fill(void *ptr, uint64_t len, uint8_t value)
{
	uint64_t word = value * 0x0101010101010101ULL;
	uint8_t *p = ptr;

	for (; len && (uintptr_t)p % 8; len--)
		*p++ = value;
	for (; len >= 8; len -= 8, p += 8)
		*(volatile uint64_t *)p = word;
	for (; len; len--)
		*p++ = value;
}

static inline __attribute__((always_inline)) uint64_t pat_word(uint64_t seed, uint64_t index)
{
	uint64_t z = (index + 1) * 0x9e3779b97f4a7c15ULL + seed * 0xd1342543de82ef95ULL;

	z = (z ^ z >> 32) * 0xbf58476d1ce4e5b9ULL;
	return z ^ z >> 29;
}

static inline __attribute__((always_inline)) uint8_t pat_byte(uint64_t seed, uint64_t position)
{
	return (uint8_t)(pat_word(seed, position / 8) >> position % 8 * 8);
}

UNWATCHED void pat_fill(void *ptr, uint64_t len, uint64_t seed, uint64_t position)
{
	uint8_t *p = ptr;

	for (; len && position % 8; len--)
		*p++ = pat_byte(seed, position++);
	for (; len >= 8; len -= 8, p += 8, position += 8) {
		uint64_t word = pat_word(seed, position / 8);

		__builtin_memcpy(p, &word, 8);
	}
	for (; len; len--)
		*p++ = pat_byte(seed, position++);
}

UNWATCHED int64_t pat_check(const void *ptr, uint64_t len, uint64_t seed, uint64_t position)
{
	const uint8_t *begin = ptr, *p = ptr, *end = p + len;

	while (p < end) {
		if (position % 8 == 0 && end - p >= 8) {
			uint64_t want = pat_word(seed, position / 8), is;

			__builtin_memcpy(&is, p, 8);
			if (is == want) {
				p += 8;
				position += 8;
				continue;
			}
		}
		if (*p != pat_byte(seed, position))
			return p - begin;
		p++;
		position++;
	}
	return -1;
}

UNWATCHED uint64_t byte_run(const void *ptr, uint64_t len, uint8_t value, uint64_t *inout_run)
{
	const uint8_t *p = ptr;
	uint64_t best = 0, run = *inout_run;

	for (uint64_t i = 0; i < len; i++) {
		run = p[i] == value ? run + 1 : 0;
		best = run > best ? run : best;
	}
	*inout_run = run;
	return best;
}

UNWATCHED int64_t byte_check(const void *ptr, uint64_t len, uint8_t value)
{
	uint64_t word = value * 0x0101010101010101ULL, i = 0;
	const uint8_t *p = ptr;

	for (; i < len; i++) {
		while ((uintptr_t)(p + i) % 8 == 0 && len - i >= 8 &&
		       *(const volatile uint64_t *)(p + i) == word)
			i += 8;
		if (i < len && p[i] != value)
			return (int64_t)i;
	}
	return -1;
}

UNWATCHED uint64_t byte_differ(const void *one, const void *two, uint64_t len)
{
	const uint8_t *a = one, *b = two;
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < len; i++)
		wrong += a[i] != b[i];
	return wrong;
}
