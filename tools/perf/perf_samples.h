/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of transfers, exact: mean, least, largest and percentiles. */
#ifndef TOOLS_PERF_SAMPLES_H
#define TOOLS_PERF_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct perf_samples {
	uint64_t *values; /* ns */
	size_t count, cap;
	double sum;
};

/* Reserves room for count more. Returns 0, or -1 without memory. */
int perf_samples_reserve(struct perf_samples *samples, size_t count);
void perf_samples_free(struct perf_samples *samples);

/* Adds a sample, for which room was reserved. */
static inline void perf_samples_add(struct perf_samples *samples, uint64_t ns)
{
	samples->values[samples->count++] = ns;
	samples->sum += (double)ns;
}

struct perf_summary {
	double mean, min, p50, p99, max; /* seconds */
};

/* Sorts the samples. All zero if there are none. scale multiplies each (0.5 halves a round
 * trip). */
struct perf_summary perf_samples_summary(struct perf_samples *samples, double scale);

#endif
