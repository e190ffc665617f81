/* SPDX-License-Identifier: Apache-2.0 */
/* Trace files: every block and record lies within the input, and what decodes survives its own
 * encoding. */
#include "target.h"

#include "trace/file.h"

static void check_records(const struct trace_block *block)
{
	for (uint32_t i = 0; i < trace_block_records(block); i++) {
		uint8_t bytes[TRACE_RECORD_BYTES];
		struct trace_block one = *block;
		struct trace_record r, again;

		trace_block_record(block, i, &r);
		FUZZ_CHECK(r.call <= TRACE_CALL_COUNT && r.thread == block->thread);
		FUZZ_CHECK(*trace_call_name(r.call));
		trace_record_put(bytes, &r);
		one.payload = bytes;
		one.bytes = sizeof(bytes);
		trace_block_record(&one, 0, &again);
		FUZZ_CHECK(!memcmp(&r, &again, sizeof(r)));
	}
}

static void check_lines(const struct trace_block *block)
{
	const char *begin = (const char *)block->payload, *end = begin + block->bytes;
	struct trace_line line;
	uint32_t at = 0, before = 0;

	while (trace_block_line(block, &at, &line)) {
		FUZZ_CHECK(at > before && at <= block->bytes);
		FUZZ_CHECK(line.key_len && line.key >= begin && line.value + line.value_len <= end);
		before = at;
	}
}

static void check(const uint8_t *bytes, size_t len)
{
	struct wire_cursor c = wire_cursor_of(bytes, len);
	struct trace_header header = {.version = 77};
	struct trace_moment moment;
	struct trace_block block;
	enum trace_read got = trace_header_get(&c, &header);

	if (got != TRACE_READ_OK) {
		FUZZ_CHECK(header.version == 77 && c.pos == bytes);
		return;
	}
	for (;;) {
		const uint8_t *before = c.pos;

		got = trace_block_get(&c, &block);
		if (got != TRACE_READ_OK) {
			FUZZ_CHECK(c.pos == before);
			break;
		}
		FUZZ_CHECK(c.pos > before && block.payload + block.bytes == c.pos);
		check_records(&block);
		check_lines(&block);
		(void)trace_block_moment(&block, &moment);
	}
	FUZZ_CHECK(got == TRACE_READ_END ? c.pos == bytes + len : c.pos < bytes + len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[4096];

	check(data, size);
	if (size > TRACE_HEADER_BYTES + 4 && size <= sizeof(fixed)) { /* with the right head */
		struct trace_header header = {.version = TRACE_VERSION, .hz = 1};
		uint8_t *block = fixed + TRACE_HEADER_BYTES;

		memcpy(fixed, data, size);
		trace_header_put(fixed, &header);
		for (unsigned i = 0; i < 4; i++)
			block[i] = (uint8_t)(TRACE_BLOCK_MAGIC >> (8 * i));
		check(fixed, size);
	}
	return 0;
}
