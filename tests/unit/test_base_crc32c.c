/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C: published values, both ways equal, pieces equal the whole. */
#include "unit.h"

#include "base/crc32c.h"
#include "base/rng.h"

static void published_values(void **state)
{
	uint8_t bytes[32];

	(void)state;
	assert_int_equal(crc32c(0, "", 0), 0);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
	/* RFC 3720, appendix B.4 */
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, 32), 0x62a8ab43u);
	for (unsigned i = 0; i < 32; i++)
		bytes[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, bytes, 32), 0x46dd794eu);
	for (unsigned i = 0; i < 32; i++)
		bytes[i] = (uint8_t)(31 - i);
	assert_int_equal(crc32c(0, bytes, 32), 0x113fdb5cu);
}

static void table_equals_instruction(void **state)
{
	uint8_t bytes[600];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	rng_fill(&rng, bytes, sizeof(bytes));
	for (unsigned start = 0; start < 9; start++) {
		for (unsigned len = 0; len < 500; len++) {
			uint32_t seed = (uint32_t)rng_u64(&rng);

			assert_int_equal(crc32c(seed, bytes + start, len),
					 crc32c_table(seed, bytes + start, len));
		}
	}
}

static void pieces_equal_the_whole(void **state)
{
	uint8_t bytes[1000];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	rng_fill(&rng, bytes, sizeof(bytes));
	for (int i = 0; i < 2000; i++) {
		size_t cut = rng_below(&rng, sizeof(bytes) + 1);
		uint32_t crc = crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut);

		assert_int_equal(crc, crc32c(0, bytes, sizeof(bytes)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(published_values),
		cmocka_unit_test(table_equals_instruction),
		cmocka_unit_test(pieces_equal_the_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
