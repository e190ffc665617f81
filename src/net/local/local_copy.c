/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies bytes from user memory into a ring and from a ring into user memory. Large user memory is
 * mostly not in the cache, while the ring is. The copy into a ring prefetches across page borders,
 * where hardware prefetchers stop. The copy out of a ring uses non-temporal stores for user memory
 * that is not in the cache, because ordinary stores would first read each line that they overwrite.
 */
#include <string.h>

#include "net/local/local_priv.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64u
#define AHEAD 2048 /* prefetch distance in the source of a copy, in bytes */
/* prefetch distance in a ring that is written, in bytes; its lines are in the other core's cache */
#define AHEAD_RING 512

/* Prefetches the line at p + ahead for reading. The address may be beyond the end of the memory,
 * because prefetches never fault. */
static void prefetch_read(const void *p, size_t ahead)
{
	_mm_prefetch((const char *)((uintptr_t)p + ahead), _MM_HINT_T0);
}

/* Prefetches the line at p + ahead for writing. The compiler's builtin is not used, because in code
 * for the oldest processors it becomes a prefetch for reading. */
static void prefetch_write(void *p, size_t ahead)
{
	__asm__ volatile("prefetchw %0" ::"m"(*(char *)((uintptr_t)p + ahead)));
}

/* Returns the number of bytes from p to the next border of a cache line; 0 if p is at a border. */
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

/* Copies n bytes from `ring` to `user` with non-temporal stores. If both ends are in one process,
 * `ring` may be the sender's memory and overlap `user`. The result is then a mix of old and new
 * bytes, but no other memory is written. */
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

/* Whether the block with the first byte of `user` was received into recently. Records each block
 * whose end lies within the n bytes. */
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
