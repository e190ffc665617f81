/* SPDX-License-Identifier: Apache-2.0 */
/* The seedable generator: same seed, same numbers; bounds are kept and reached. */
#include "unit.h"

#include "base/rng.h"

static void a_seed_replays(void **state)
{
	struct rng a, b, c;
	int differ = 0;

	(void)state;
	rng_seed(&a, 42);
	rng_seed(&b, 42);
	rng_seed(&c, 43);
	for (int i = 0; i < 1000; i++) {
		uint64_t value = rng_u64(&a);

		assert_int_equal(value, rng_u64(&b));
		differ += value != rng_u64(&c);
	}
	assert_true(differ > 990);
}

static void bounds_are_kept_and_reached(void **state)
{
	unsigned seen[7] = {0};
	struct rng rng;

	(void)state;
	rng_seed(&rng, 7);
	for (int i = 0; i < 7000; i++)
		seen[rng_range(&rng, 10, 16) - 10]++;
	for (int i = 0; i < 7; i++)
		assert_in_range(seen[i], 800, 1200);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(rng_range(&rng, 5, 5), 5);
	(void)rng_range(&rng, 0, UINT64_MAX);
}

static void fill_touches_only_its_bytes(void **state)
{
	uint8_t bytes[32];
	struct rng rng;

	(void)state;
	for (size_t len = 0; len < 30; len++) {
		rng_seed(&rng, len);
		memset(bytes, 0xee, sizeof(bytes));
		rng_fill(&rng, bytes + 1, len);
		assert_int_equal(bytes[0], 0xee);
		assert_int_equal(bytes[len + 1], 0xee);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_seed_replays),
		cmocka_unit_test(bounds_are_kept_and_reached),
		cmocka_unit_test(fill_touches_only_its_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
