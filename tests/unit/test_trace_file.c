/* SPDX-License-Identifier: Apache-2.0 */
/* A trace's file: what is written is read, and what is damaged is said to be. */
#include "unit.h"

#include "trace/file.h"

static const struct trace_header header = {
	.version = TRACE_VERSION,
	.flags = TRACE_CLOCK_TSC,
	.pid = 4711,
	.start = {1000, 2000, 3000},
	.hz = 2600000000u,
};

static const struct trace_record record = {
	.time = 0x1122334455667788u,
	.number = 7,
	.bytes = 524288,
	.duration = 99,
	.comm = 3,
	.thread = 2,
	.call = TRACE_ISEND,
	.flags = TRACE_GPU | TRACE_RETRIED,
	.result = -3,
	.tag = -1,
	.repeats = 12,
	.memory = TRACE_NONE,
	.nic = 1,
	.owner = TRACE_DEV_NOT_LISTED,
	.gpu = TRACE_DEV_UNKNOWN,
	.part = 1,
	.parts = 2,
};

static size_t file_put(uint8_t *out)
{
	static const char text[] = "env.A=1\nbroken\n=none\nenv.B=x=y";
	struct trace_block block = {.type = TRACE_BLOCK_RECORDS,
				    .thread = 2,
				    .bytes = 2 * TRACE_RECORD_BYTES,
				    .first = 5,
				    .dropped = 6};
	size_t len = 0;

	trace_header_put(out, &header);
	len += TRACE_HEADER_BYTES;
	trace_block_put(out + len, &block);
	len += TRACE_BLOCK_BYTES;
	trace_record_put(out + len, &record);
	trace_record_put(out + len + TRACE_RECORD_BYTES, &record);
	len += 2 * TRACE_RECORD_BYTES;
	block = (struct trace_block){
		.type = TRACE_BLOCK_CONTEXT, .thread = TRACE_AT_END, .bytes = sizeof(text) - 1};
	trace_block_put(out + len, &block);
	len += TRACE_BLOCK_BYTES;
	memcpy(out + len, text, sizeof(text) - 1);
	return len + sizeof(text) - 1;
}

static void what_is_written_is_read(void **state)
{
	uint8_t bytes[1024];
	struct wire_cursor c = wire_cursor_of(bytes, file_put(bytes));
	struct trace_header h;
	struct trace_block b;
	struct trace_record r;

	(void)state;
	assert_int_equal(trace_header_get(&c, &h), TRACE_READ_OK);
	assert_int_equal(h.version, header.version);
	assert_int_equal(h.flags, header.flags);
	assert_int_equal(h.pid, header.pid);
	assert_int_equal(h.hz, header.hz);
	assert_memory_equal(&h.start, &header.start, sizeof(h.start));
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_OK);
	assert_int_equal(b.first, 5);
	assert_int_equal(b.dropped, 6);
	assert_int_equal(trace_block_records(&b), 2);
	for (uint32_t i = 0; i < 2; i++) {
		trace_block_record(&b, i, &r);
		assert_memory_equal(&r, &record, sizeof(r));
	}
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_OK);
	assert_int_equal(b.type, TRACE_BLOCK_CONTEXT);
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_END);
}

/* The recorder writes records as they lie in memory. */
static void a_record_in_memory_is_its_encoding(void **state)
{
	uint8_t bytes[TRACE_RECORD_BYTES];

	(void)state;
	trace_record_put(bytes, &record);
	assert_memory_equal(bytes, &record, sizeof(bytes));
	assert_golden("trace_record", bytes, sizeof(bytes));
}

static void lines_without_a_key_are_skipped(void **state)
{
	uint8_t bytes[1024];
	struct wire_cursor c = wire_cursor_of(bytes, file_put(bytes));
	struct trace_header h;
	struct trace_block b;
	struct trace_line line;
	uint32_t at = 0;

	(void)state;
	assert_int_equal(trace_header_get(&c, &h), TRACE_READ_OK);
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_OK);
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_OK);
	assert_int_equal(trace_block_line(&b, &at, &line), 1);
	assert_int_equal(line.value_len, 1);
	assert_int_equal(trace_block_line(&b, &at, &line), 1);
	assert_memory_equal(line.key, "env.B", line.key_len);
	assert_memory_equal(line.value, "x=y", line.value_len);
	assert_int_equal(trace_block_line(&b, &at, &line), 0);
}

/* At whatever byte the file ends, all blocks before it are read. */
static void a_file_may_end_anywhere(void **state)
{
	uint8_t bytes[1024];
	size_t len = file_put(bytes);

	(void)state;
	for (size_t cut = 0; cut < len; cut++) {
		struct wire_cursor c = wire_cursor_of(bytes, cut);
		struct trace_header h;
		struct trace_block b;
		enum trace_read got = trace_header_get(&c, &h);
		unsigned blocks = 0;

		if (cut < TRACE_HEADER_BYTES) {
			assert_int_equal(got, TRACE_READ_MALFORMED);
			continue;
		}
		while ((got = trace_block_get(&c, &b)) == TRACE_READ_OK)
			blocks++;
		assert_int_equal(blocks, cut >= TRACE_HEADER_BYTES + TRACE_BLOCK_BYTES +
							 2 * TRACE_RECORD_BYTES);
		if (cut != TRACE_HEADER_BYTES && blocks == 0)
			assert_int_equal(got, TRACE_READ_CUT);
	}
}

static void what_is_no_trace_is_refused(void **state)
{
	uint8_t bytes[1024];
	size_t len = file_put(bytes);
	struct wire_cursor c = wire_cursor_of(bytes, len);
	struct trace_header h = {0};
	struct trace_block b;

	(void)state;
	bytes[8] = TRACE_VERSION + 1;
	assert_int_equal(trace_header_get(&c, &h), TRACE_READ_VERSION);
	bytes[8] = TRACE_VERSION;
	bytes[0] ^= 1;
	assert_int_equal(trace_header_get(&c, &h), TRACE_READ_MALFORMED);
	assert_int_equal(h.version, 0);
	bytes[0] ^= 1;
	bytes[TRACE_HEADER_BYTES] ^= 1;
	assert_int_equal(trace_header_get(&c, &h), TRACE_READ_OK);
	assert_int_equal(trace_block_get(&c, &b), TRACE_READ_MALFORMED);
}

static void an_unknown_call_has_a_name(void **state)
{
	(void)state;
	assert_string_equal(trace_call_name(TRACE_CONSUMED), "irecvConsumed");
	assert_string_equal(trace_call_name(TRACE_CALL_COUNT), "unknown call");
	assert_string_equal(trace_call_name(255), "unknown call");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read),
		cmocka_unit_test(a_record_in_memory_is_its_encoding),
		cmocka_unit_test(lines_without_a_key_are_skipped),
		cmocka_unit_test(a_file_may_end_anywhere),
		cmocka_unit_test(what_is_no_trace_is_refused),
		cmocka_unit_test(an_unknown_call_has_a_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
