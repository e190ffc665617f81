/* SPDX-License-Identifier: Apache-2.0 */
/* Histogram of u64 values: powers of two cut in 16. */
#include "base/histogram.h"

static unsigned bucket_of(uint64_t value)
{
	int top;

	if (value < HISTOGRAM_SUB)
		return (unsigned)value;
	top = 63 - __builtin_clzll(value);
	return (unsigned)(top - 3) * HISTOGRAM_SUB +
	       (unsigned)(value >> (top - 4) & (HISTOGRAM_SUB - 1));
}

/* Middle of a bucket. */
static uint64_t bucket_value(unsigned bucket)
{
	unsigned shift = bucket / HISTOGRAM_SUB;

	if (!shift)
		return bucket;
	shift--;
	return ((uint64_t)(HISTOGRAM_SUB + bucket % HISTOGRAM_SUB) << shift) +
	       ((1ULL << shift) - 1) / 2;
}

void histogram_add(struct histogram *h, uint64_t value)
{
	if (!h->count || value < h->min)
		h->min = value;
	if (value > h->max)
		h->max = value;
	h->count++;
	h->sum += (double)value;
	h->buckets[bucket_of(value)]++;
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	if (!from->count)
		return;
	if (!into->count || from->min < into->min)
		into->min = from->min;
	if (from->max > into->max)
		into->max = from->max;
	into->count += from->count;
	into->sum += from->sum;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		into->buckets[i] += from->buckets[i];
}

uint64_t histogram_percentile(const struct histogram *h, double share)
{
	uint64_t seen = 0, value;
	double want = share * (double)h->count;

	if (!h->count || share <= 0)
		return h->min;
	if (share >= 1)
		return h->max;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (!h->buckets[i] || (double)seen < want)
			continue;
		value = bucket_value(i);
		return value < h->min ? h->min : value > h->max ? h->max : value;
	}
	return h->max;
}

double histogram_mean(const struct histogram *h)
{
	return h->count ? h->sum / (double)h->count : 0;
}
