/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables: remote pieces (key, offset, length) in a few bytes each. */
#ifndef WIRE_TABLE_H
#define WIRE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "wire/cursor.h"

#define WIRE_TABLE_PIECE_MAX 40	      /* most bytes of one piece */
#define WIRE_TABLE_RUN_MAX (1u << 20) /* most pieces of one run */

/* The state of writing a table. Pieces are added one by one; consecutive ones of equal length and
 * distance are folded into runs. Call order: begin, put*, end. */
struct wire_table_writer {
	uint8_t *buf;
	size_t cap, len;
	uint64_t key, next_offset, length; /* state of a reader after the last op written */
	/* the run that is not written yet */
	uint64_t run_key, run_offset, run_length, run_stride, run_count;
	int overflow;
};

void wire_table_begin(struct wire_table_writer *w, void *buf, size_t cap);
/* Adds a piece. If length is 0 or offset + length wraps, or the buffer is too small, end returns
 * 0. */
void wire_table_put(struct wire_table_writer *w, uint64_t key, uint64_t offset, uint64_t length);
/* Ends the table. Returns the number of bytes written; 0: the buffer was too small (it needs at
 * most WIRE_TABLE_PIECE_MAX per piece), or a piece was invalid. */
size_t wire_table_end(struct wire_table_writer *w);

/* The state of reading a table. */
struct wire_table_reader {
	struct wire_cursor in;
	/* of the op that was read last; next_offset: end of its last piece */
	uint64_t key, next_offset, length;
	uint64_t run_offset, run_stride, run_count; /* pieces of the op that were not returned
						     * yet */
};

void wire_table_open(struct wire_table_reader *r, const void *buf, size_t len);
/* Reads the next piece. 1: a piece (length > 0, offset + length does not wrap); 0: end of the
 * table; -1: malformed. Never reads past the end of the buffer; a run has at most
 * WIRE_TABLE_RUN_MAX pieces. */
int wire_table_next(struct wire_table_reader *r, uint64_t *out_key, uint64_t *out_offset,
		    uint64_t *out_length);

#endif
