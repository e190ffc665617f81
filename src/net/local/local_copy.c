/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two copies of a ring. Large user memory is mostly not in the cache, while the ring is. The
 * copy in prefetches across page borders, where hardware prefetchers stop. The copy out uses
 * non-temporal stores for user memory that is not in the cache: ordinary stores would first read
 * each line that they overwrite.
 */
#include <string.h>

#include "net/local/local_priv.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64u
#define AHEAD 2048 /* prefetch distance on the source of a copy, in bytes */
/* prefetch distance on the ring, whose lines are in the cache of the other core */
#define AHEAD_RING 512

/* p + ahead may be beyond the end of the memory: prefetches never fault. */
static void prefetch_read(const void *p, size_t ahead)
{
	_mm_prefetch((const char *)((uintptr_t)p + ahead), _MM_HINT_T0);
}

/* Prefetches for writing. The compiler's builtin becomes a prefetch for reading on the oldest
 * processors. */
static void prefetch_write(void *p, size_t ahead)
{
	__asm__ volatile("prefetchw %0" ::"m"(*(char *)((uintptr_t)p + ahead)));
}

/* Returns the number of bytes from p up to the next cache line; 0: p is at one. */
static size_t line_gap(const void *p)
{
	return -(uintptr_t)p & (LINE - 1);
}

void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n)
{
	size_t at = 0;

	if (n < 4096) {
		memcpy(ring, user, n);
		return;
	}
	for (; n - at >= LINE; at += LINE) {
		const __m128i *s = (const __m128i *)(user + at);
		__m128i *d = (__m128i *)(ring + at);
		__m128i a, b, c, e;

		prefetch_read(s, AHEAD);
		prefetch_write(d, AHEAD_RING);
		a = _mm_loadu_si128(s);
		b = _mm_loadu_si128(s + 1);
		c = _mm_loadu_si128(s + 2);
		e = _mm_loadu_si128(s + 3);
		_mm_storeu_si128(d, a);
		_mm_storeu_si128(d + 1, b);
		_mm_storeu_si128(d + 2, c);
		_mm_storeu_si128(d + 3, e);
	}
	memcpy(ring + at, user + at, n - at);
}

/* Copies with non-temporal stores. Within one process ring may be memory of the sender that
 * overlaps user: then the result is mixed, but nothing else is harmed. */
static void copy_non_temporal(uint8_t *user, const uint8_t *ring, size_t n)
{
	size_t at = line_gap(user);

	memmove(user, ring, at);
	for (; n - at >= LINE; at += LINE) {
		const __m128i *s = (const __m128i *)(ring + at);
		__m128i *d = (__m128i *)(user + at);
		__m128i a, b, c, e;

		prefetch_read(s, AHEAD);
		a = _mm_loadu_si128(s);
		b = _mm_loadu_si128(s + 1);
		c = _mm_loadu_si128(s + 2);
		e = _mm_loadu_si128(s + 3);
		_mm_stream_si128(d, a);
		_mm_stream_si128(d + 1, b);
		_mm_stream_si128(d + 2, c);
		_mm_stream_si128(d + 3, e);
	}
	memmove(user + at, ring + at, n - at);
	_mm_sfence(); /* non-temporal stores are not ordered by later release stores */
}

/* Whether the block that holds the beginning of the buffer was received into lately. Records each
 * block that ends within the n bytes. */
static int heat_check(struct local_heat *heat, const uint8_t *user, size_t n)
{
	uintptr_t block = (uintptr_t)user / LOCAL_HEAT_BLOCK;
	uintptr_t end = ((uintptr_t)user + n) / LOCAL_HEAT_BLOCK;
	int hot = heat->block[block % LOCAL_HEAT_SLOTS] == block;

	for (; block < end; block++)
		heat->block[block % LOCAL_HEAT_SLOTS] = block;
	return hot;
}

void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n)
{
	if (heat_check(heat, user, n) || n < LOCAL_AROUND_MIN)
		memmove(user, ring, n);
	else
		copy_non_temporal(user, ring, n);
}

#else

void local_copy_in(uint8_t *ring, const uint8_t *user, size_t n)
{
	memcpy(ring, user, n);
}

void local_copy_out(struct local_heat *heat, uint8_t *user, const uint8_t *ring, size_t n)
{
	(void)heat;
	memmove(user, ring, n);
}

#endif
