/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables: lists of remote pieces (key, offset, length), encoded in a few bytes each. */
#ifndef WIRE_TABLE_H
#define WIRE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "wire/cursor.h"

#define WIRE_TABLE_PIECE_MAX 40	      /* most bytes that one piece needs in a table */
#define WIRE_TABLE_RUN_MAX (1u << 20) /* most pieces in one run */

/* The state of writing a table. wire_table_begin starts the table, wire_table_put adds a piece,
 * wire_table_end ends the table. Three or more consecutive pieces of the same key, at equal
 * distances and of equal length, become a run, which needs few bytes. */
struct wire_table_writer {
	uint8_t *buf;
	size_t cap, len;
	uint64_t key, next_offset, length; /* what a reader knows after the last op in `buf` */
	/* the run that is not yet in `buf` */
	uint64_t run_key, run_offset, run_length, run_stride, run_count;
	int overflow;
};

void wire_table_begin(struct wire_table_writer *w, void *buf, size_t cap);
/* Adds a piece. If `length` is 0, offset + length wraps, or the buffer is too small, wire_table_end
 * will return 0. */
void wire_table_put(struct wire_table_writer *w, uint64_t key, uint64_t offset, uint64_t length);
/* Ends the table. Returns the number of bytes written. Returns 0 if a piece was invalid or the
 * buffer was too small; a table needs at most WIRE_TABLE_PIECE_MAX bytes per piece. */
size_t wire_table_end(struct wire_table_writer *w);

/* The state of reading a table. */
struct wire_table_reader {
	struct wire_cursor in;
	/* of the op that was decoded last: key, end of its last piece, length of each piece */
	uint64_t key, next_offset, length;
	uint64_t run_offset, run_stride, run_count; /* pieces of that op that were not returned
						     * yet */
};

void wire_table_open(struct wire_table_reader *r, const void *buf, size_t len);
/* Reads the next piece, whose length is > 0 and whose offset + length does not wrap. Returns 1, or
 * 0 at the end of the table, or -1 if the table is malformed. Never reads past the end of the
 * buffer. A run of more than WIRE_TABLE_RUN_MAX pieces is malformed. */
int wire_table_next(struct wire_table_reader *r, uint64_t *out_key, uint64_t *out_offset,
		    uint64_t *out_length);

#endif
