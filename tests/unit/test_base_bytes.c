/* SPDX-License-Identifier: Apache-2.0 */
/* Byte counts: what people write is understood, what they did not mean is refused. */
#include "unit.h"

#include "base/bytes.h"
#include "base/rng.h"

static void parses_every_spelling(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} rows[] = {
		{"0", 0},
		{"1", 1},
		{"65536", 65536},
		{"64B", 64},
		{"64K", 65536},
		{"64k", 65536},
		{"64KB", 65536},
		{"64kb", 65536},
		{"64KiB", 65536},
		{"64Ki", 65536},
		{"64 KiB", 65536},
		{"512KB", 524288},
		{"64MB", 64u << 20},
		{"64M", 64u << 20},
		{"1.5M", 1572864},
		{"0.5K", 512},
		{"1.3K", 1331},
		{"2G", 2ull << 30},
		{"3T", 3ull << 40},
		{"1P", 1ull << 50},
		{"15E", 15ull << 60},
		{"18446744073709551615", UINT64_MAX},
	};
	uint64_t bytes;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		bytes = 77;
		if (bytes_parse(rows[i].text, &bytes) || bytes != rows[i].bytes)
			fail_msg("'%s' gave %llu", rows[i].text, (unsigned long long)bytes);
	}
}

static void refuses_what_is_none(void **state)
{
	static const char *const texts[] = {
		"",	  " ",
		"K",	  "-1",
		"+1",	  "1.5",
		"1.",	  ".5K",
		"1..5K",  "64X",
		"64KiBs", "64  K",
		" 64K",	  "64K ",
		"0x10",	  "1e6",
		"16E",	  "18446744073709551616",
		"1.5B",	  "999999999999999999999",
		"64KK",	  "64iB",
		"64,5K",
	};
	uint64_t bytes = 77;

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!bytes_parse(texts[i], &bytes))
			fail_msg("'%s' was taken for %llu", texts[i], (unsigned long long)bytes);
		assert_int_equal(bytes, 77);
	}
}

static void formats_for_people(void **state)
{
	char text[BYTES_TEXT_MAX];

	(void)state;
	assert_string_equal(bytes_format(0, text, sizeof(text)), "0 B");
	assert_string_equal(bytes_format(1000, text, sizeof(text)), "1000 B");
	assert_string_equal(bytes_format(65536, text, sizeof(text)), "64 KiB");
	assert_string_equal(bytes_format(1572864, text, sizeof(text)), "1.5 MiB");
	assert_string_equal(bytes_format(1331, text, sizeof(text)), "1.3 KiB");
	assert_string_equal(bytes_format(1064, text, sizeof(text)), "1.04 KiB");
	assert_string_equal(bytes_format(UINT64_MAX, text, sizeof(text)), "16 EiB");
}

static void compact_parses_back(void **state)
{
	char text[BYTES_TEXT_MAX];
	struct rng rng;
	uint64_t value, back;

	(void)state;
	assert_string_equal(bytes_compact(0, text, sizeof(text)), "0");
	assert_string_equal(bytes_compact(1000, text, sizeof(text)), "1000");
	assert_string_equal(bytes_compact(512 << 10, text, sizeof(text)), "512K");
	assert_string_equal(bytes_compact(1ull << 63, text, sizeof(text)), "8E");
	rng_seed(&rng, 1);
	for (int i = 0; i < 20000; i++) {
		value = rng_u64(&rng) >> rng_below(&rng, 64) << rng_below(&rng, 64);
		assert_int_equal(bytes_parse(bytes_compact(value, text, sizeof(text)), &back), 0);
		assert_int_equal(back, value);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parses_every_spelling),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(formats_for_people),
		cmocka_unit_test(compact_parses_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
