/* SPDX-License-Identifier: Apache-2.0 */
/* Segment tables. A table is a list of ops, each of which describes one piece or a run of pieces.
 * An op is one byte of OP_ bits, followed by the numbers that the bits announce, in the order key,
 * length, offset, run. Layout: docs/design/wire-frames.md. */
#include "wire/table.h"

enum {
	OP_KEY = 1,    /* key of this and the following ops, 8 bytes */
	OP_LENGTH = 2, /* length of the pieces of this and the following ops, varint */
	OP_DELTA = 4,  /* offset relative to the end of the previous piece, zigzag varint */
	OP_OFFSET =
		8,   /* offset, varint. Neither DELTA nor OFFSET: right after the previous piece */
	OP_RUN = 16, /* number of pieces - 2, varint; stride - length, zigzag varint */
	OP_KNOWN = 31,
};

typedef __int128 wide; /* for sums of u64 and i64, which would wrap in 64 bits */

void wire_table_begin(struct wire_table_writer *w, void *buf, size_t cap)
{
	*w = (struct wire_table_writer){.buf = buf, .cap = cap};
}

/* Writes an op for `count` pieces. The first begins at `offset`, each further one `stride` bytes
 * after the one before. Sets `overflow` if the op does not fit into the buffer. */
static void emit_run(struct wire_table_writer *w, uint64_t offset, uint64_t stride, uint64_t count)
{
	/* room for the longest op: its bits, key, length, offset, number of pieces, stride */
	uint8_t scratch[1 + 8 + 4 * WIRE_VARINT_MAX], *p, *op;
	int64_t delta = (int64_t)(offset - w->next_offset);
	int roomy = w->cap - w->len >= sizeof(scratch);

	op = roomy ? w->buf + w->len : scratch;
	*op = 0;
	p = op + 1;
	if (w->run_key != w->key) {
		*op |= OP_KEY;
		for (int i = 0; i < 8; i++)
			*p++ = (uint8_t)(w->run_key >> (8 * i));
	}
	if (w->run_length != w->length) {
		*op |= OP_LENGTH;
		p = wire_varint(p, w->run_length);
	}
	if (*op & OP_KEY || (wide)offset - (wide)w->next_offset != delta) {
		*op |= OP_OFFSET;
		p = wire_varint(p, offset);
	} else if (delta) {
		*op |= OP_DELTA;
		p = wire_varint(p, wire_zigzag(delta));
	}
	if (count > 1) {
		*op |= OP_RUN;
		p = wire_varint(p, count - 2);
		p = wire_varint(p, wire_zigzag((int64_t)(stride - w->run_length)));
	}
	if (!roomy) {
		if ((size_t)(p - op) > w->cap - w->len) {
			w->overflow = 1;
			return;
		}
		memcpy(w->buf + w->len, op, (size_t)(p - op));
	}
	w->len += (size_t)(p - op);
	w->key = w->run_key;
	w->length = w->run_length;
	w->next_offset = offset + stride * (count - 1) + w->run_length;
}

/* Whether two pieces of `length` bytes at `from` and `to` may be in one run. They may if length and
 * distance are so small that neither the stride nor stride - length can wrap. */
static int is_foldable(uint64_t from, uint64_t to, uint64_t length)
{
	const uint64_t limit = 1ULL << 62;

	return length < limit && (to > from ? to - from : from - to) < limit;
}

/* Writes the run that was collected but not yet written. */
static void flush_run(struct wire_table_writer *w)
{
	if (w->run_count == 2) { /* two pieces need fewer bytes as two ops than as a run */
		emit_run(w, w->run_offset, 0, 1);
		emit_run(w, w->run_offset + w->run_stride, 0, 1);
	} else if (w->run_count) {
		emit_run(w, w->run_offset, w->run_stride, w->run_count);
	}
	w->run_count = 0;
}

void wire_table_put(struct wire_table_writer *w, uint64_t key, uint64_t offset, uint64_t length)
{
	uint64_t last;

	if (!length || offset > UINT64_MAX - length) {
		w->overflow = 1;
		return;
	}
	if (w->overflow)
		return;
	if (w->run_count && w->run_key == key && w->run_length == length) {
		last = w->run_offset + w->run_stride * (w->run_count - 1);
		if (w->run_count >= 2 && offset - last == w->run_stride &&
		    w->run_count < WIRE_TABLE_RUN_MAX && is_foldable(last, offset, length)) {
			w->run_count++;
			return;
		}
		if (w->run_count <= 2 && is_foldable(last, offset, length)) {
			/* Of two collected pieces, the first is written alone. The last collected
			 * piece begins a run with the new piece. */
			if (w->run_count == 2)
				emit_run(w, w->run_offset, 0, 1);
			w->run_offset = last;
			w->run_stride = offset - last;
			w->run_count = 2;
			return;
		}
	}
	flush_run(w);
	w->run_key = key;
	w->run_offset = offset;
	w->run_length = length;
	w->run_stride = 0;
	w->run_count = 1;
}

size_t wire_table_end(struct wire_table_writer *w)
{
	flush_run(w);
	return w->overflow ? 0 : w->len;
}

void wire_table_open(struct wire_table_reader *r, const void *buf, size_t len)
{
	*r = (struct wire_table_reader){.in = wire_cursor_of(buf, len)};
}

static int piece_fits(wide offset, uint64_t length)
{
	return offset >= 0 && offset + (wide)length <= (wide)UINT64_MAX;
}

/* Decodes the next op into r->run_offset, run_stride and run_count. Returns 0, or -1 if the op is
 * malformed. */
static int decode_op(struct wire_table_reader *r)
{
	wide offset = (wide)r->next_offset, stride = 0, last;
	uint64_t count = 1;
	uint8_t op = wire_get_u8(&r->in);

	if (op & ~OP_KNOWN || (op & (OP_DELTA | OP_OFFSET)) == (OP_DELTA | OP_OFFSET))
		return -1;
	if (op & OP_KEY)
		r->key = wire_get_u64(&r->in);
	if (op & OP_LENGTH)
		r->length = wire_get_varint(&r->in);
	if (op & OP_DELTA)
		offset += wire_unzigzag(wire_get_varint(&r->in));
	else if (op & OP_OFFSET)
		offset = (wide)wire_get_varint(&r->in);
	if (op & OP_RUN) {
		count = wire_get_varint(&r->in);
		stride = (wide)wire_unzigzag(wire_get_varint(&r->in)) + (wide)r->length;
		if (count > WIRE_TABLE_RUN_MAX - 2)
			return -1;
		count += 2;
	}
	last = offset + stride * (wide)(count - 1); /* below 2^66 * 2^20 and cannot wrap */
	if (r->in.bad || !r->length || !piece_fits(offset, r->length) ||
	    !piece_fits(last, r->length))
		return -1; /* pieces between the first and the last fit if these two fit */
	r->run_offset = (uint64_t)offset;
	r->run_stride = (uint64_t)stride;
	r->run_count = count;
	r->next_offset = (uint64_t)last + r->length;
	return 0;
}

int wire_table_next(struct wire_table_reader *r, uint64_t *out_key, uint64_t *out_offset,
		    uint64_t *out_length)
{
	if (!r->run_count) {
		if (!r->in.bad && !wire_left(&r->in))
			return 0;
		if (r->in.bad || decode_op(r)) {
			r->in.bad = 1; /* later calls return -1 as well */
			return -1;
		}
	}
	*out_key = r->key;
	*out_offset = r->run_offset;
	*out_length = r->length;
	r->run_offset += r->run_stride;
	r->run_count--;
	return 1;
}
