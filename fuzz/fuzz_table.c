/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables: no bytes make a piece that wraps; what was read can be written and read again. */
#include "target.h"

#include "wire/table.h"

#define PIECES_MAX 2000 /* looked at; a run may announce a million */

struct piece {
	uint64_t key, offset, length;
};

static struct piece pieces[PIECES_MAX];
static uint8_t bytes[PIECES_MAX * WIRE_TABLE_PIECE_MAX];

static void check_again(size_t count)
{
	struct wire_table_writer w;
	struct wire_table_reader r;
	struct piece p;
	size_t len;

	wire_table_begin(&w, bytes, count * WIRE_TABLE_PIECE_MAX);
	for (size_t i = 0; i < count; i++)
		wire_table_put(&w, pieces[i].key, pieces[i].offset, pieces[i].length);
	len = wire_table_end(&w);
	FUZZ_CHECK(len > 0 || !count);
	wire_table_open(&r, bytes, len);
	for (size_t i = 0; i < count; i++) {
		FUZZ_CHECK(wire_table_next(&r, &p.key, &p.offset, &p.length) == 1);
		FUZZ_CHECK(p.key == pieces[i].key && p.offset == pieces[i].offset &&
			   p.length == pieces[i].length);
	}
	FUZZ_CHECK(wire_table_next(&r, &p.key, &p.offset, &p.length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_table_reader r;
	size_t count = 0;
	struct piece p;
	int rc = 0;

	wire_table_open(&r, data, size);
	while (count < PIECES_MAX &&
	       (rc = wire_table_next(&r, &p.key, &p.offset, &p.length)) == 1) {
		FUZZ_CHECK(p.length > 0 && p.offset <= UINT64_MAX - p.length);
		pieces[count++] = p;
	}
	if (rc < 0)
		FUZZ_CHECK(wire_table_next(&r, &p.key, &p.offset, &p.length) == -1);
	check_again(count);
	return 0;
}
