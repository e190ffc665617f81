/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables: remote pieces (key, offset, length) in a few bytes each. */
#ifndef WIRE_TABLE_H
#define WIRE_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include <tcpx/types.h>

#include "wire/cursor.h"

#define WIRE_TABLE_PIECE_MAX 40	      /* most bytes of one piece */
#define WIRE_TABLE_RUN_MAX (1u << 20) /* pieces of one run */

/* Pieces are added one by one; pieces of equal length and stride are folded into runs. Call order:
 * begin, put*, end. */
struct wire_table_writer {
	uint8_t *buf;
	size_t cap, len;
	uint64_t key, next_offset, length; /* state of a reader after the last op written */
	uint64_t run_key, run_offset, run_length, run_stride, run_count; /* pending run */
	int overflow;
};

void wire_table_begin(struct wire_table_writer *w, void *buf, size_t cap);
/* length > 0; offset + length must not wrap. Otherwise the writer overflows. */
void wire_table_put(struct wire_table_writer *w, uint64_t key, uint64_t offset, uint64_t length);
/* Returns the number of bytes written, 0 if the buffer was too small (size it by
 * WIRE_TABLE_PIECE_MAX per piece). */
size_t wire_table_end(struct wire_table_writer *w);

struct wire_table_reader {
	struct wire_cursor in;
	uint64_t key, next_offset, length;
	uint64_t run_offset, run_stride, run_count; /* pieces of the op that were not returned
						     * yet */
};

void wire_table_open(struct wire_table_reader *r, const void *buf, size_t len);
/* 1: a piece (length > 0, offset + length does not wrap); 0: end of the table; -1: malformed. Never
 * reads past the end; a run is bounded by 2^20 pieces. */
int wire_table_next(struct wire_table_reader *r, uint64_t *out_key, uint64_t *out_offset,
		    uint64_t *out_length);

#endif
