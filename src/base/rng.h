/* SPDX-License-Identifier: Apache-2.0 */
/* A small pseudo-random generator (xoshiro256**, seeded by splitmix64) for tests, simulation and
 * the data patterns of tools, not for secrets. The same seed gives the same numbers. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t s[4];
};

/* Advances *state by one step of splitmix64 and returns the resulting random number, which can also
 * serve as a hash of the former *state. */
static inline uint64_t rng_split(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static inline void rng_seed(struct rng *rng, uint64_t seed)
{
	for (int i = 0; i < 4; i++)
		rng->s[i] = rng_split(&seed);
}

static inline uint64_t rng_rotl(uint64_t x, int by)
{
	return x << by | x >> (64 - by);
}

static inline uint64_t rng_u64(struct rng *rng)
{
	uint64_t *s = rng->s, result = rng_rotl(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rng_rotl(s[3], 45);
	return result;
}

/* Returns a random number in 0 .. bound - 1, where bound > 0. Some numbers are more likely than
 * others, at most by a factor of about 1 + bound / 2^64. */
static inline uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)rng_u64(rng) * bound >> 64);
}

/* Returns a random number in lo .. hi, both included. */
static inline uint64_t rng_range(struct rng *rng, uint64_t lo, uint64_t hi)
{
	uint64_t span = hi - lo + 1;

	return span ? lo + rng_below(rng, span) : rng_u64(rng);
}

/* Returns 1 with a probability of 1 / n, else 0. */
static inline int rng_one_in(struct rng *rng, uint64_t n)
{
	return rng_below(rng, n) == 0;
}

static inline void rng_fill(struct rng *rng, void *out, size_t len)
{
	uint8_t *p = out;

	while (len) {
		uint64_t word = rng_u64(rng);

		for (int i = 0; i < 8 && len; i++, len--, word >>= 8)
			*p++ = (uint8_t)word;
	}
}

#endif
