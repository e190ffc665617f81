/* SPDX-License-Identifier: Apache-2.0 */
/* Cursors never leave their bytes; varints have one spelling. */
#include "unit.h"

#include "base/rng.h"
#include "wire/cursor.h"

static void reads_are_bounded(void **state)
{
	const uint8_t bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
	struct wire_cursor c = wire_cursor_of(bytes, 8);
	uint8_t out[8];

	(void)state;
	assert_int_equal(wire_get_u16(&c), 0x0201);
	assert_int_equal(wire_get_u32(&c), 0x06050403);
	assert_int_equal(wire_left(&c), 2);
	assert_int_equal(wire_get_u32(&c), 0); /* too much: nothing moves */
	assert_int_equal(c.bad, 1);
	assert_int_equal(wire_left(&c), 2);
	memset(out, 0xee, sizeof(out));
	wire_get_bytes(&c, out, 3);
	assert_int_equal(out[0] | out[1] | out[2], 0);
	assert_null(wire_take(&c, SIZE_MAX));
	assert_int_equal(wire_get_u8(&c), 7);
	c = wire_cursor_of(bytes, 8);
	assert_int_equal(wire_get_u64(&c), 0x0807060504030201);
	assert_int_equal(c.bad, 0);
}

static void writes_are_bounded(void **state)
{
	uint8_t bytes[10];
	struct wire_out o = wire_out_of(bytes, 9);

	(void)state;
	memset(bytes, 0xee, sizeof(bytes));
	wire_put_uint(&o, 0x0807060504030201, 8);
	wire_put_uint(&o, 0x0a09, 2); /* no room: nothing is written */
	assert_int_equal(o.bad, 1);
	assert_int_equal(wire_out_bytes(&o), 8);
	assert_int_equal(bytes[8], 0xee);
	wire_put_bytes(&o, "ab", 2);
	wire_put_zero(&o, 2);
	assert_int_equal(wire_out_bytes(&o), 8);
	wire_put_zero(&o, 1);
	wire_put_bytes(&o, NULL, 0);
	assert_int_equal(wire_out_bytes(&o), 9);
	assert_int_equal(bytes[9], 0xee);
}

static uint64_t reread(uint64_t value, size_t *out_len)
{
	uint8_t bytes[WIRE_VARINT_MAX];
	uint8_t *end = wire_varint(bytes, value);
	struct wire_cursor c = wire_cursor_of(bytes, (size_t)(end - bytes));
	uint64_t back = wire_get_varint(&c);

	assert_int_equal(c.bad, 0);
	assert_int_equal(wire_left(&c), 0);
	*out_len = (size_t)(end - bytes);
	/* every truncation is refused */
	for (size_t len = 0; len < *out_len; len++) {
		c = wire_cursor_of(bytes, len);
		assert_int_equal(wire_get_varint(&c), 0);
		assert_int_equal(c.bad, 1);
	}
	return back;
}

static void varints_come_back(void **state)
{
	struct rng rng;
	size_t len;

	(void)state;
	assert_int_equal(reread(0, &len), 0);
	assert_int_equal(len, 1);
	assert_int_equal(reread(127, &len), 127);
	assert_int_equal(len, 1);
	assert_int_equal(reread(128, &len), 128);
	assert_int_equal(len, 2);
	assert_int_equal(reread(UINT64_MAX, &len), UINT64_MAX);
	assert_int_equal(len, WIRE_VARINT_MAX);
	rng_seed(&rng, 5);
	for (int i = 0; i < 20000; i++) {
		uint64_t value = rng_u64(&rng) >> rng_below(&rng, 64);

		assert_int_equal(reread(value, &len), value);
		assert_int_equal(wire_zigzag(wire_unzigzag(value)), value);
	}
	assert_int_equal(wire_zigzag(0), 0);
	assert_int_equal(wire_zigzag(-1), 1);
	assert_int_equal(wire_zigzag(1), 2);
	assert_int_equal(wire_unzigzag(UINT64_MAX), INT64_MIN);
}

static void other_spellings_are_refused(void **state)
{
	static const struct {
		uint8_t bytes[11];
		size_t len;
	} rows[] = {
		{{0x80, 0x00}, 2},	 /* 0 in two bytes */
		{{0xff, 0x80, 0x00}, 3}, /* 127 in three */
		{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 10}, /* 2^64 */
		{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x81, 0x00}, 11},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct wire_cursor c = wire_cursor_of(rows[i].bytes, rows[i].len);

		(void)wire_get_varint(&c);
		assert_int_equal(c.bad, 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_are_bounded),
		cmocka_unit_test(writes_are_bounded),
		cmocka_unit_test(varints_come_back),
		cmocka_unit_test(other_spellings_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
