/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4, as in section 2 of Aumasson and Bernstein, "SipHash: a fast short-input PRF"
 * (2012). */
#include "base/siphash.h"

struct sip {
	uint64_t v0, v1, v2, v3;
};

static uint64_t rotl(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

/* Reads `len` bytes, at most 8, as a little-endian number. */
static uint64_t load64(const uint8_t *p, size_t len)
{
	uint64_t x = 0;

	for (size_t i = 0; i < len; i++)
		x |= (uint64_t)p[i] << (8 * i);
	return x;
}

static void rounds(struct sip *s, int count)
{
	while (count--) {
		s->v0 += s->v1;
		s->v2 += s->v3;
		s->v1 = rotl(s->v1, 13) ^ s->v0;
		s->v3 = rotl(s->v3, 16) ^ s->v2;
		s->v0 = rotl(s->v0, 32);
		s->v2 += s->v1;
		s->v0 += s->v3;
		s->v1 = rotl(s->v1, 17) ^ s->v2;
		s->v3 = rotl(s->v3, 21) ^ s->v0;
		s->v2 = rotl(s->v2, 32);
	}
}

static void absorb(struct sip *s, uint64_t word)
{
	s->v3 ^= word;
	rounds(s, 2);
	s->v0 ^= word;
}

uint64_t siphash(const uint8_t key[SIPHASH_KEY_BYTES], const void *data, size_t len)
{
	uint64_t k0 = load64(key, 8), k1 = load64(key + 8, 8);
	struct sip s = {
		.v0 = k0 ^ 0x736f6d6570736575ULL,
		.v1 = k1 ^ 0x646f72616e646f6dULL,
		.v2 = k0 ^ 0x6c7967656e657261ULL,
		.v3 = k1 ^ 0x7465646279746573ULL,
	};
	const uint8_t *p = data;
	size_t left = len;

	for (; left >= 8; left -= 8, p += 8)
		absorb(&s, load64(p, 8));
	absorb(&s, load64(p, left) | (uint64_t)(len & 0xff) << 56);
	s.v2 ^= 0xff;
	rounds(&s, 4);
	return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
