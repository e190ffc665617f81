/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables: what goes in comes out, in few bytes; no bytes make a piece that wraps. */
#include "unit.h"

#include <stdlib.h>

#include "base/rng.h"
#include "wire/table.h"

#define PIECES_MAX 3000

struct piece {
	uint64_t key, offset, length;
};

static uint8_t table_bytes[PIECES_MAX * WIRE_TABLE_PIECE_MAX];

static size_t encode(const struct piece *pieces, size_t count, size_t cap)
{
	struct wire_table_writer w;

	wire_table_begin(&w, table_bytes, cap);
	for (size_t i = 0; i < count; i++)
		wire_table_put(&w, pieces[i].key, pieces[i].offset, pieces[i].length);
	return wire_table_end(&w);
}

static void assert_decodes(const struct piece *pieces, size_t count, size_t len)
{
	struct wire_table_reader r;
	uint64_t key, offset, length;

	wire_table_open(&r, table_bytes, len);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(wire_table_next(&r, &key, &offset, &length), 1);
		assert_int_equal(key, pieces[i].key);
		assert_int_equal(offset, pieces[i].offset);
		assert_int_equal(length, pieces[i].length);
	}
	assert_int_equal(wire_table_next(&r, &key, &offset, &length), 0);
	assert_int_equal(wire_table_next(&r, &key, &offset, &length), 0);
}

static size_t round_trip(const struct piece *pieces, size_t count)
{
	size_t len = encode(pieces, count, count * WIRE_TABLE_PIECE_MAX);

	assert_true(len > 0 && len <= count * WIRE_TABLE_PIECE_MAX);
	assert_decodes(pieces, count, len);
	return len;
}

static void table_is_golden(void **state)
{
	static const struct piece pieces[] = {
		{0x1817161514131211, 0x100000, 4096},
		{0x1817161514131211, 0x101000, 100},
		{0x1817161514131211, 0x100000, 512},
		{0x1817161514131211, 0x100400, 512},
		{0x1817161514131211, 0x100800, 512},
		{0x1817161514131211, 0x100c00, 512},
		{1, 0x8000000000000000, 512},
		{1, 0, 1},
		{1, 1, 1},
		{1, 1, 1},
		{1, 1, 1},
	};
	size_t count = sizeof(pieces) / sizeof(pieces[0]);

	(void)state;
	assert_golden("table", table_bytes, round_trip(pieces, count));
}

static struct piece random_piece(struct rng *rng, const struct piece *last)
{
	struct piece p = *last;

	if (rng_one_in(rng, 20))
		p.key = rng_one_in(rng, 2) ? rng_below(rng, 3) : rng_u64(rng);
	if (rng_one_in(rng, 5))
		p.length = 1 + (rng_u64(rng) >> rng_below(rng, 64)) / 2;
	switch (rng_below(rng, 6)) {
	case 0:
		p.offset = rng_u64(rng) >> rng_below(rng, 64);
		break;
	case 1:
		p.offset = last->offset + last->length;
		break;
	case 2:
		p.offset = last->offset;
		break;
	case 3:
		p.offset = last->offset + 2 * p.length;
		break;
	case 4:
		p.offset = last->offset - 3 * p.length;
		break;
	case 5:
		p.offset = UINT64_MAX - rng_below(rng, 3) - p.length;
		break;
	}
	if (p.offset > UINT64_MAX - p.length)
		p.offset = 0;
	if (p.offset > UINT64_MAX - p.length)
		p.length = 1;
	return p;
}

static void random_tables_come_back(void **state)
{
	static struct piece pieces[PIECES_MAX];
	struct piece last;
	struct rng rng;

	(void)state;
	for (uint64_t seed = 0; seed < 3000; seed++) {
		size_t count;

		rng_seed(&rng, seed);
		count = rng_range(&rng, 1, seed % 100 ? 60 : PIECES_MAX);
		last = (struct piece){0, 0, 1};
		for (size_t i = 0; i < count; i++)
			last = pieces[i] = random_piece(&rng, &last);
		(void)round_trip(pieces, count);
	}
}

static void patterns_cost_little(void **state)
{
	static struct piece pieces[1000];
	struct rng rng;
	uint64_t at = 0;
	size_t len;

	(void)state;
	rng_seed(&rng, 1);
	for (size_t i = 0; i < 1000; i++)
		pieces[i] = (struct piece){7, 4096 * i, 4096};
	assert_true(round_trip(pieces, 1000) < 24); /* one run */
	for (size_t i = 0; i < 1000; i++)
		pieces[i] = (struct piece){7, 1000000 - 1000 * i, 512};
	assert_true(round_trip(pieces, 1000) < 24); /* backwards with gaps */
	for (size_t i = 0; i < 1000; i++)
		pieces[i] = (struct piece){7, 4096, 64};
	assert_true(round_trip(pieces, 1000) < 24); /* the same again and again */
	for (size_t i = 0; i < 1000; i++, at += 100)
		pieces[i] = (struct piece){7, at, i % 2 ? 60 : 40 + i % 50};
	len = round_trip(pieces, 1000);
	assert_true(len < 4 * 1000); /* small gaps, small lengths */
	for (size_t i = 0, end = 0; i < 1000; i++) {
		pieces[i] = (struct piece){7, end, rng_range(&rng, 1, 127)};
		end += pieces[i].length;
	}
	assert_true(round_trip(pieces, 1000) <= 2 * 1000 + 20); /* contiguous: 2 bytes */
	for (size_t i = 0; i < 1000; i++)
		pieces[i] = (struct piece){7, 4096 * rng_below(&rng, 1 << 18), 4096};
	assert_true(round_trip(pieces, 1000) <= 6 * 1000 + 20); /* random in 1 GiB */
}

static void a_piece_never_costs_more(void **state)
{
	static struct piece pieces[100];
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	for (size_t i = 0; i < 100; i++) {
		uint64_t length = UINT64_MAX / 2 + i;

		pieces[i] = (struct piece){rng_u64(&rng), i % 2 ? UINT64_MAX - length : 0, length};
	}
	(void)round_trip(pieces, 100);
	for (size_t i = 0; i < 100; i++) /* far strides, always in threes */
		pieces[i] = (struct piece){i / 3, (i % 3) << 61, UINT64_MAX / 4 - i / 3};
	(void)round_trip(pieces, 100);
	for (size_t i = 0; i < 100; i++) /* folding would wrap */
		pieces[i] = (struct piece){1, (i % 3) << 62, 4096};
	(void)round_trip(pieces, 100);
}

static void small_buffers_overflow(void **state)
{
	static struct piece pieces[200];
	struct piece last = {0, 0, 1};
	struct rng rng;
	size_t len;

	(void)state;
	rng_seed(&rng, 3);
	for (size_t i = 0; i < 200; i++)
		last = pieces[i] = random_piece(&rng, &last);
	len = encode(pieces, 200, sizeof(table_bytes));
	for (size_t cap = 0; cap < len; cap++) {
		table_bytes[cap] = 0xee;
		assert_int_equal(encode(pieces, 200, cap), 0);
		assert_int_equal(table_bytes[cap], 0xee);
	}
	assert_int_equal(encode(pieces, 200, len), len);
	assert_decodes(pieces, 200, len);
	assert_int_equal(encode(pieces, 0, 100), 0);
}

static void bad_pieces_are_not_written(void **state)
{
	static const struct piece empty = {1, 5, 0}, wraps = {1, UINT64_MAX, 1},
				  wraps_far = {1, 2, UINT64_MAX - 1}, full = {1, 1, UINT64_MAX - 1};

	(void)state;
	assert_int_equal(encode(&empty, 1, 100), 0);
	assert_int_equal(encode(&wraps, 1, 100), 0);
	assert_int_equal(encode(&wraps_far, 1, 100), 0);
	(void)round_trip(&full, 1);
}

static void runs_are_bounded(void **state)
{
	const size_t count = (1u << 20) + 5;
	struct wire_table_writer w;
	struct wire_table_reader r;
	uint64_t key, offset, length;

	(void)state;
	wire_table_begin(&w, table_bytes, sizeof(table_bytes));
	for (size_t i = 0; i < count; i++)
		wire_table_put(&w, 1, 8 * i, 4);
	wire_table_open(&r, table_bytes, wire_table_end(&w));
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(wire_table_next(&r, &key, &offset, &length), 1);
		assert_int_equal(offset, 8 * i);
	}
	assert_int_equal(wire_table_next(&r, &key, &offset, &length), 0);
}

/* Reads all; -1 when malformed. Whatever the bytes are, pieces do not wrap. */
static long drain(const uint8_t *bytes, size_t len)
{
	struct wire_table_reader r;
	uint64_t key, offset, length;
	long pieces = 0;
	int rc;

	wire_table_open(&r, bytes, len);
	while ((rc = wire_table_next(&r, &key, &offset, &length)) == 1) {
		assert_true(length > 0 && offset <= UINT64_MAX - length);
		assert_true(++pieces <= (long)(len << 20));
	}
	if (rc < 0)
		assert_int_equal(wire_table_next(&r, &key, &offset, &length), -1);
	return rc < 0 ? -1 : pieces;
}

static void malformed_tables_are_refused(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		long pieces;
	} rows[] = {
		{"", 0, 0},
		{"\x02\x05", 2, 1},					      /* length 5 at 0 */
		{"\x00", 1, -1},					      /* length 0 */
		{"\x02\x00", 2, -1},					      /* length 0 */
		{"\x20", 1, -1},					      /* unknown bit */
		{"\x0e\x05\x02\x02", 4, -1},				      /* delta and offset */
		{"\x02\x05\x01\x00", 4, -1},				      /* key cut */
		{"\x06\x05\x01", 3, -1},				      /* delta -1 from 0 */
		{"\x06\x05\x02", 3, 1},					      /* delta 1 */
		{"\x12\x05\x00\x09", 4, 2},				      /* stride 0 */
		{"\x12\x05\x00\x0b", 4, -1},				      /* stride -1 from 0 */
		{"\x12\x05\xfe\xff\x3f\x00", 6, 1 << 20},		      /* longest run */
		{"\x12\x05\xff\xff\x3f\x00", 6, -1},			      /* one longer */
		{"\x0a\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, -1}, /* wraps */
		{"\x0a\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, 1},
		{"\x1a\x01\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00\x00", 14, -1},
		{"\x12\x05\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00", 13, -1},
		{"\x0a\x01\x80\x00", 4, -1}, /* long spelling */
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (drain((const uint8_t *)rows[i].bytes, rows[i].len) != rows[i].pieces)
			fail_msg("row %u: %ld pieces", i,
				 drain((const uint8_t *)rows[i].bytes, rows[i].len));
}

static void cuts_and_flips_are_harmless(void **state)
{
	uint8_t bytes[4096];
	size_t len = golden_read("table", bytes, sizeof(bytes));
	uint8_t *exact;

	(void)state;
	assert_true(len > 0);
	for (size_t cut = 0; cut <= len; cut++) {
		exact = malloc(cut + 1); /* so that a sanitizer sees a step too far */
		assert_non_null(exact);
		memcpy(exact + 1, bytes, cut);
		(void)drain(exact + 1, cut);
		free(exact);
	}
	for (size_t bit = 0; bit < 8 * len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		(void)drain(bytes, len);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(table_is_golden),
		cmocka_unit_test(random_tables_come_back),
		cmocka_unit_test(patterns_cost_little),
		cmocka_unit_test(a_piece_never_costs_more),
		cmocka_unit_test(small_buffers_overflow),
		cmocka_unit_test(bad_pieces_are_not_written),
		cmocka_unit_test(runs_are_bounded),
		cmocka_unit_test(malformed_tables_are_refused),
		cmocka_unit_test(cuts_and_flips_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
