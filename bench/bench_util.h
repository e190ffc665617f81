/* SPDX-License-Identifier: Apache-2.0 */
/* Clock, CPU time and percentiles for the programs of bench/; no library needed. */
#ifndef BENCH_UTIL_H
#define BENCH_UTIL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static inline int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* User and system time of this process. */
static inline double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static inline int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Sorts the samples; share 0.5 is the median. */
static inline int64_t percentile(int64_t *samples, size_t count, double share)
{
	size_t at;

	if (!count)
		return 0;
	qsort(samples, count, sizeof(*samples), by_value);
	at = (size_t)((double)count * share);
	return samples[at < count ? at : count - 1];
}

/* A small generator for shuffles: the same places in every run. */
static inline uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline void shuffle(uint64_t *values, size_t count, uint64_t seed)
{
	uint64_t state = seed * 2654435761u + 88172645463325252u;

	for (size_t i = count; i > 1; i--) {
		size_t j = (size_t)(next_random(&state) % i);
		uint64_t keep = values[i - 1];

		values[i - 1] = values[j];
		values[j] = keep;
	}
}

static inline void __attribute__((noreturn)) die(const char *what)
{
	perror(what);
	exit(1);
}

#endif
