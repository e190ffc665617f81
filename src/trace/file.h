/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding and bounds-checked decoding of a trace file, without I/O and allocation. */
#ifndef TRACE_FILE_H
#define TRACE_FILE_H

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "trace/record.h"
#include "wire/cursor.h"

/* Encode a header, the head of a block, or a record. */
void trace_header_put(uint8_t out[TRACE_HEADER_BYTES], const struct trace_header *header);
void trace_block_put(uint8_t out[TRACE_BLOCK_BYTES], const struct trace_block *block);
void trace_record_put(uint8_t out[TRACE_RECORD_BYTES], const struct trace_record *record);

/* Converts a record in place from the machine's byte order to the file's, or back. */
static inline void trace_record_swap(struct trace_record *r)
{
	r->time = htole64(r->time);
	r->number = htole64(r->number);
	r->bytes = htole64(r->bytes);
	r->duration = htole64(r->duration);
	r->comm = htole32(r->comm);
	r->thread = htole16(r->thread);
	r->result = (int32_t)htole32((uint32_t)r->result);
	r->tag = (int32_t)htole32((uint32_t)r->tag);
	r->repeats = htole32(r->repeats);
	r->memory = htole32(r->memory);
	r->nic = (int16_t)htole16((uint16_t)r->nic);
	r->owner = (int16_t)htole16((uint16_t)r->owner);
	r->gpu = (int16_t)htole16((uint16_t)r->gpu);
}

/* Decodes a record of a block. `thread` is the thread number in the block's head and replaces the
 * one in the record. An unknown call number becomes TRACE_CALL_COUNT. The function is inline, so
 * that a loop over records loads only the fields that it uses. */
static inline struct trace_record trace_record_get(const uint8_t in[TRACE_RECORD_BYTES],
						   uint16_t thread)
{
	struct trace_record r;

	memcpy(&r, in, TRACE_RECORD_BYTES);
	trace_record_swap(&r);
	r.thread = thread;
	if (r.call > TRACE_CALL_COUNT)
		r.call = TRACE_CALL_COUNT;
	return r;
}

/* Results of decoding. */
enum trace_read {
	TRACE_READ_OK,
	TRACE_READ_END,	      /* no bytes are left */
	TRACE_READ_CUT,	      /* the file ends within a block */
	TRACE_READ_MALFORMED, /* not a trace, or damaged from this position on */
	TRACE_READ_VERSION,   /* a trace in another version of the format */
};

/* Decodes the header at the cursor. The cursor moves past the header only if the result is OK. */
enum trace_read trace_header_get(struct wire_cursor *c, struct trace_header *out_header);

/* Decodes the next block; out_block->payload points into the bytes of the cursor. The cursor moves
 * past the block only if the result is OK. */
enum trace_read trace_block_get(struct wire_cursor *c, struct trace_block *out_block);

/* Returns the number of whole records in a RECORDS block, or 0 for a block of another type. */
uint32_t trace_block_records(const struct trace_block *block);
/* Decodes a record of a RECORDS block as trace_record_get() does. `index` must be less than
 * trace_block_records(). */
void trace_block_record(const struct trace_block *block, uint32_t index,
			struct trace_record *out_record);

/* Decodes the moment of a CLOCK block. Returns 0, or -1 if the block has another type or is too
 * short. */
int trace_block_moment(const struct trace_block *block, struct trace_moment *out_moment);

/* A line "key=value" of a CONTEXT block. trace_block_line() finds the next such line at or after
 * *at, and moves *at past it. It returns 1, or 0 if there is no further line. It skips empty lines
 * and lines without '='. */
struct trace_line {
	const char *key, *value;
	uint32_t key_len, value_len;
};
int trace_block_line(const struct trace_block *block, uint32_t *at, struct trace_line *out_line);

const char *trace_call_name(unsigned call); /* "unknown call" if the number is unknown */

#endif
