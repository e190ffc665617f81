/* SPDX-License-Identifier: Apache-2.0 */
/* Durations of transfers. */
#include "perf_samples.h"

#include <stdlib.h>

int perf_samples_reserve(struct perf_samples *samples, size_t count)
{
	size_t cap = samples->cap;
	uint64_t *values;

	if (samples->count + count <= cap)
		return 0;
	cap = samples->count + count + cap / 2;
	values = realloc(samples->values, cap * sizeof(*values));
	if (!values)
		return -1;
	samples->values = values;
	samples->cap = cap;
	return 0;
}

void perf_samples_free(struct perf_samples *samples)
{
	free(samples->values);
	*samples = (struct perf_samples){0};
}

static int perf_samples_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The percentile by nearest rank: the smallest value that a share of all values do not exceed. */
static double perf_samples_rank(const struct perf_samples *samples, double share)
{
	size_t index = (size_t)(share * (double)samples->count);

	if (index >= samples->count)
		index = samples->count - 1;
	return (double)samples->values[index];
}

struct perf_summary perf_samples_summary(struct perf_samples *samples, double scale)
{
	struct perf_summary s = {0};

	if (!samples->count)
		return s;
	qsort(samples->values, samples->count, sizeof(*samples->values), perf_samples_compare);
	scale *= 1e-9;
	s.mean = samples->sum / (double)samples->count * scale;
	s.min = (double)samples->values[0] * scale;
	s.p50 = perf_samples_rank(samples, 0.50) * scale;
	s.p99 = perf_samples_rank(samples, 0.99) * scale;
	s.max = (double)samples->values[samples->count - 1] * scale;
	return s;
}
