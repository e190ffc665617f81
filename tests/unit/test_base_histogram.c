/* SPDX-License-Identifier: Apache-2.0 */
/* Percentiles are right within one sixteenth, whatever the values. */
#include "unit.h"

#include <stdlib.h>

#include "base/histogram.h"
#include "base/rng.h"

#define COUNT 5000

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void percentiles_are_near(void **state)
{
	static const double shares[] = {0.01, 0.1, 0.5, 0.9, 0.99, 0.999};
	static struct histogram h;
	static uint64_t values[COUNT];
	struct rng rng;

	(void)state;
	for (uint64_t seed = 0; seed < 20; seed++) {
		memset(&h, 0, sizeof(h));
		rng_seed(&rng, seed);
		for (int i = 0; i < COUNT; i++) {
			values[i] = rng_u64(&rng) >> rng_below(&rng, 64);
			histogram_add(&h, values[i]);
		}
		qsort(values, COUNT, sizeof(values[0]), by_value);
		for (unsigned i = 0; i < sizeof(shares) / sizeof(shares[0]); i++) {
			size_t rank = (size_t)(shares[i] * COUNT + 0.999999);
			uint64_t want = values[rank ? rank - 1 : 0];
			uint64_t got = histogram_percentile(&h, shares[i]);

			if ((got > want ? got - want : want - got) > want / 16)
				fail_msg("seed %d share %g: %llu, want %llu", (int)seed, shares[i],
					 (unsigned long long)got, (unsigned long long)want);
		}
		assert_int_equal(histogram_percentile(&h, 0), values[0]);
		assert_int_equal(histogram_percentile(&h, 1), values[COUNT - 1]);
	}
}

static void small_and_extreme_values(void **state)
{
	static struct histogram h;

	(void)state;
	assert_int_equal(histogram_percentile(&h, 0.5), 0);
	assert_true(histogram_mean(&h) == 0);
	for (uint64_t v = 1; v <= 15; v++)
		histogram_add(&h, v);
	assert_int_equal(histogram_percentile(&h, 0.5), 8); /* exact below 16 */
	assert_true(histogram_mean(&h) == 8);
	histogram_add(&h, UINT64_MAX);
	histogram_add(&h, 0);
	assert_int_equal(histogram_percentile(&h, 0), 0);
	assert_int_equal(histogram_percentile(&h, 1), UINT64_MAX);
	assert_int_equal(h.count, 17);
}

static void merge_is_adding_all(void **state)
{
	static struct histogram a, b, all, empty;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 9);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = rng_below(&rng, 1 << 20);

		histogram_add(i % 3 ? &a : &b, value);
		histogram_add(&all, value);
	}
	histogram_merge(&empty, &a);
	histogram_merge(&empty, &b);
	all.sum = empty.sum = 0; /* rounds by order */
	assert_memory_equal(&empty, &all, sizeof(all));
	memset(&b, 0, sizeof(b));
	a = all;
	histogram_merge(&a, &b);
	assert_memory_equal(&a, &all, sizeof(all));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_near),
		cmocka_unit_test(small_and_extreme_values),
		cmocka_unit_test(merge_is_adding_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
