/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes and decodes the parts of a trace file: header, blocks, records. */
#include "trace/file.h"

/* Writes a number in little-endian order and advances *at. */
static void put_uint(uint8_t **at, uint64_t value, unsigned bytes)
{
	for (unsigned i = 0; i < bytes; i++)
		*(*at)++ = (uint8_t)(value >> (8 * i));
}

void trace_header_put(uint8_t out[TRACE_HEADER_BYTES], const struct trace_header *header)
{
	uint8_t *at = out + 8;

	memset(out, 0, TRACE_HEADER_BYTES);
	memcpy(out, TRACE_MAGIC, 8);
	put_uint(&at, header->version, 2);
	put_uint(&at, TRACE_HEADER_BYTES, 2);
	put_uint(&at, TRACE_RECORD_BYTES, 4);
	put_uint(&at, header->flags, 4);
	put_uint(&at, header->pid, 4);
	put_uint(&at, header->start.ticks, 8);
	put_uint(&at, header->start.mono_ns, 8);
	put_uint(&at, header->start.wall_ns, 8);
	put_uint(&at, header->hz, 8);
}

void trace_block_put(uint8_t out[TRACE_BLOCK_BYTES], const struct trace_block *block)
{
	uint8_t *at = out;

	put_uint(&at, TRACE_BLOCK_MAGIC, 4);
	put_uint(&at, block->type, 2);
	put_uint(&at, block->thread, 2);
	put_uint(&at, block->bytes, 4);
	put_uint(&at, 0, 4);
	put_uint(&at, block->first, 8);
	put_uint(&at, block->dropped, 8);
}

/* struct trace_record has the layout of a record in the file. */
#define LIES_AT(field, offset)                                                                     \
	_Static_assert(offsetof(struct trace_record, field) == (offset), "tcpx-trace(5)")
LIES_AT(time, 0);
LIES_AT(number, 8);
LIES_AT(bytes, 16);
LIES_AT(duration, 24);
LIES_AT(comm, 32);
LIES_AT(thread, 36);
LIES_AT(call, 38);
LIES_AT(flags, 39);
LIES_AT(result, 40);
LIES_AT(tag, 44);
LIES_AT(repeats, 48);
LIES_AT(memory, 52);
LIES_AT(nic, 56);
LIES_AT(owner, 58);
LIES_AT(gpu, 60);
LIES_AT(part, 62);
LIES_AT(parts, 63);

void trace_record_put(uint8_t out[TRACE_RECORD_BYTES], const struct trace_record *record)
{
	struct trace_record r = *record;

	trace_record_swap(&r);
	memcpy(out, &r, TRACE_RECORD_BYTES);
}

enum trace_read trace_header_get(struct wire_cursor *c, struct trace_header *out_header)
{
	struct wire_cursor in = *c;
	const uint8_t *magic = wire_take(&in, 8);
	struct trace_header header = {.version = wire_get_u16(&in)};
	uint16_t bytes = wire_get_u16(&in);
	uint32_t record = wire_get_u32(&in);

	if (in.bad || memcmp(magic, TRACE_MAGIC, 8) != 0)
		return TRACE_READ_MALFORMED;
	if (header.version != TRACE_VERSION)
		return TRACE_READ_VERSION;
	header.flags = wire_get_u32(&in);
	header.pid = wire_get_u32(&in);
	header.start.ticks = wire_get_u64(&in);
	header.start.mono_ns = wire_get_u64(&in);
	header.start.wall_ns = wire_get_u64(&in);
	header.hz = wire_get_u64(&in);
	(void)wire_take(&in, TRACE_HEADER_BYTES - (size_t)(in.pos - c->pos));
	if (in.bad || bytes != TRACE_HEADER_BYTES || record != TRACE_RECORD_BYTES || !header.hz)
		return TRACE_READ_MALFORMED;
	*c = in;
	*out_header = header;
	return TRACE_READ_OK;
}

enum trace_read trace_block_get(struct wire_cursor *c, struct trace_block *out_block)
{
	struct wire_cursor in = *c;
	struct trace_block block = {0};
	uint32_t magic;

	if (!wire_left(&in))
		return TRACE_READ_END;
	if (wire_left(&in) < TRACE_BLOCK_BYTES)
		return TRACE_READ_CUT;
	magic = wire_get_u32(&in);
	block.type = wire_get_u16(&in);
	block.thread = wire_get_u16(&in);
	block.bytes = wire_get_u32(&in);
	(void)wire_get_u32(&in);
	block.first = wire_get_u64(&in);
	block.dropped = wire_get_u64(&in);
	if (magic != TRACE_BLOCK_MAGIC)
		return TRACE_READ_MALFORMED;
	block.payload = wire_take(&in, block.bytes);
	if (in.bad)
		return TRACE_READ_CUT;
	*c = in;
	*out_block = block;
	return TRACE_READ_OK;
}

uint32_t trace_block_records(const struct trace_block *block)
{
	return block->type == TRACE_BLOCK_RECORDS ? block->bytes / TRACE_RECORD_BYTES : 0;
}

void trace_block_record(const struct trace_block *block, uint32_t index,
			struct trace_record *out_record)
{
	*out_record = trace_record_get(block->payload + (size_t)index * TRACE_RECORD_BYTES,
				       block->thread);
}

int trace_block_moment(const struct trace_block *block, struct trace_moment *out_moment)
{
	struct wire_cursor in = wire_cursor_of(block->payload, block->bytes);
	struct trace_moment moment = {.ticks = wire_get_u64(&in)};

	moment.mono_ns = wire_get_u64(&in);
	moment.wall_ns = wire_get_u64(&in);
	if (in.bad || block->type != TRACE_BLOCK_CLOCK)
		return -1;
	*out_moment = moment;
	return 0;
}

int trace_block_line(const struct trace_block *block, uint32_t *at, struct trace_line *out_line)
{
	while (*at < block->bytes) {
		const char *line = (const char *)block->payload + *at;
		uint32_t left = block->bytes - *at;
		const char *end = memchr(line, '\n', left), *equals;
		uint32_t len = end ? (uint32_t)(end - line) : left;

		*at += end ? len + 1 : len;
		equals = memchr(line, '=', len);
		if (!equals || equals == line)
			continue;
		*out_line = (struct trace_line){line, equals + 1, (uint32_t)(equals - line),
						len - (uint32_t)(equals - line) - 1};
		return 1;
	}
	return 0;
}

const char *trace_call_name(unsigned call)
{
	static const char *const names[] = {
#define TRACE_NAME(id, name) name,
		TRACE_CALLS(TRACE_NAME)
#undef TRACE_NAME
	};

	return call < TRACE_CALL_COUNT ? names[call] : "unknown call";
}
