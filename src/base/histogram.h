/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram of u64 values: powers of two cut in 16, so a percentile is right within 1/16. */
#ifndef BASE_HISTOGRAM_H
#define BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB 16
#define HISTOGRAM_BUCKETS ((64 - 4 + 1) * HISTOGRAM_SUB)

/* All zero is an empty one. Not thread safe. */
struct histogram {
	uint64_t count, min, max;
	double sum;
	uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *h, uint64_t value);
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The value that share (0 .. 1) of all are not above; exact at 0 and 1; 0 when empty. */
uint64_t histogram_percentile(const struct histogram *h, double share);
double histogram_mean(const struct histogram *h);

#endif
