/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers and trailers: golden bytes, every type's shape, every flipped bit. */
#include <stdbool.h>

#include "unit.h"

#include "base/crc32c.h"
#include "base/rng.h"
#include "wire/frame_codec.h"

static const struct frame golden = {
	.type = FRAME_DATA,
	.flags = FRAME_F_ACK | 1u << 1 /* reserved */,
	.table_bytes = 300,
	.payload_bytes = 524288,
	.epoch = 7,
	.seq = 0x0102030405060708,
	.xfer = 0x1112131415161718,
	.linear = 0x2122232425262728,
	.key = 0x3132333435363738,
	.offset = 0x4142434445464748,
	.follows = 0x51525354,
};

static void assert_same(const struct frame *a, const struct frame *b)
{
	assert_int_equal(a->type, b->type);
	assert_int_equal(a->flags, b->flags);
	assert_int_equal(a->table_bytes, b->table_bytes);
	assert_int_equal(a->payload_bytes, b->payload_bytes);
	assert_int_equal(a->epoch, b->epoch);
	assert_int_equal(a->seq, b->seq);
	assert_int_equal(a->xfer, b->xfer);
	assert_int_equal(a->linear, b->linear);
	assert_int_equal(a->key, b->key);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->follows, b->follows);
}

static void header_is_golden(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame back;

	(void)state;
	wire_frame_encode(&golden, bytes);
	assert_golden("frame", bytes, sizeof(bytes));
	assert_int_equal(wire_frame_decode(bytes, &back), TCPX_OK);
	assert_same(&back, &golden);
}

static void trailer_is_golden(void **state)
{
	const struct frame_trailer trailer = {golden.seq, FRAME_VALID, 0xe3069283};
	uint8_t bytes[FRAME_TRAILER_BYTES];
	struct frame_trailer back = {0};

	(void)state;
	wire_trailer_encode(&trailer, bytes);
	assert_golden("trailer", bytes, sizeof(bytes));
	assert_int_equal(wire_trailer_decode(bytes, golden.seq, &back), TCPX_OK);
	assert_int_equal(back.seq, trailer.seq);
	assert_int_equal(back.status, FRAME_VALID);
	assert_int_equal(back.reserved, trailer.reserved);
}

static void trailer_refuses_others(void **state)
{
	struct frame_trailer trailer = {5, FRAME_ABORTED, 0}, back = {77, 77, 77};
	uint8_t bytes[FRAME_TRAILER_BYTES];

	(void)state;
	wire_trailer_encode(&trailer, bytes);
	assert_int_equal(wire_trailer_decode(bytes, 6, &back), TCPX_ERR_PROTOCOL);
	assert_int_equal(wire_trailer_decode(bytes, 5, &back), TCPX_OK);
	back.seq = 77;
	for (uint32_t status = 0; status < 70000; status += status < 5 ? 1 : 997) {
		trailer.status = status;
		wire_trailer_encode(&trailer, bytes);
		if (status == FRAME_VALID || status == FRAME_ABORTED)
			continue;
		assert_int_equal(wire_trailer_decode(bytes, 5, &back), TCPX_ERR_PROTOCOL);
		assert_int_equal(back.seq, 77); /* nothing is written on failure */
	}
}

static void every_flipped_bit_is_refused(void **state)
{
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame back = {.type = 99};
	tcpx_status status;

	(void)state;
	wire_frame_encode(&golden, bytes);
	for (unsigned bit = 0; bit < 8 * FRAME_HEADER_BYTES; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		status = wire_frame_decode(bytes, &back);
		assert_int_equal(status, TCPX_ERR_CORRUPT);
		assert_int_equal(back.type, 99);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(wire_frame_decode(bytes, &back), TCPX_OK);
}

/* Sets a byte and makes the checksum right again. */
static tcpx_status decode_with(unsigned at, uint8_t value)
{
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame back;
	uint32_t crc;

	wire_frame_encode(&golden, bytes);
	bytes[at] = value;
	crc = crc32c(0, bytes, 60);
	for (int i = 0; i < 4; i++)
		bytes[60 + i] = (uint8_t)(crc >> (8 * i));
	return wire_frame_decode(bytes, &back);
}

static void other_versions_and_flags_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_with(1, FRAME_VERSION), TCPX_OK);
	assert_int_equal(decode_with(1, FRAME_VERSION + 1), TCPX_ERR_VERSION);
	assert_int_equal(decode_with(1, 0), TCPX_ERR_VERSION);
	assert_int_equal(decode_with(2, 0x0f), TCPX_OK);
	assert_int_equal(decode_with(2, 0x10),
			 TCPX_ERR_PROTOCOL); /* REF: follows beyond the table */
	assert_int_equal(decode_with(2, 0x40), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_with(3, 0x80), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_with(56, 0x55), TCPX_OK);
	assert_int_equal(decode_with(0, FRAME_RDATA), TCPX_ERR_PROTOCOL); /* follows, and a table */
}

static tcpx_status decode_sizes(unsigned type, uint32_t table, uint32_t payload)
{
	struct frame frame = {.type = (uint8_t)type,
			      .table_bytes = table,
			      .payload_bytes = payload},
		     back;
	uint8_t bytes[FRAME_HEADER_BYTES];

	wire_frame_encode(&frame, bytes);
	return wire_frame_decode(bytes, &back);
}

/* The most a frame of a type may carry; -1: no such type. */
static long table_limit(unsigned type)
{
	return type == FRAME_DATA || type == FRAME_READ_REQ ? (long)FRAME_TABLE_MAX : 0;
}

static long payload_limit(unsigned type)
{
	switch (type) {
	case FRAME_DATA:
	case FRAME_RDATA:
	case FRAME_SDATA:
	case FRAME_SEND:
	case FRAME_NOTIFY:
		return FRAME_PAYLOAD_MAX;
	case FRAME_FENCE:
	case FRAME_LOCAL:
	case FRAME_RAILS:
	case FRAME_SHARE:
	case FRAME_COMM:
		return FRAME_CONTROL_MAX;
	case FRAME_READ_REQ:
	case FRAME_RTS:
	case FRAME_CTS:
	case FRAME_FINAL:
	case FRAME_CANCEL:
	case FRAME_NACK:
	case FRAME_NOP:
	case FRAME_ACK:
	case FRAME_CREDIT:
	case FRAME_STAGE_REQ:
	case FRAME_HEARTBEAT:
	case FRAME_GOODBYE:
	case FRAME_CHANNELS:
	case FRAME_PAUSE:
		return 0;
	}
	return -1;
}

static void every_type_has_its_limits(void **state)
{
	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		long payload = payload_limit(type), table = table_limit(type);

		if (payload < 0) {
			assert_int_equal(decode_sizes(type, 0, 0), TCPX_ERR_PROTOCOL);
			continue;
		}
		assert_int_equal(decode_sizes(type, 0, 0), TCPX_OK);
		assert_int_equal(decode_sizes(type, (uint32_t)table, (uint32_t)payload), TCPX_OK);
		assert_int_equal(decode_sizes(type, (uint32_t)table + 1, 0), TCPX_ERR_PROTOCOL);
		assert_int_equal(decode_sizes(type, 0, (uint32_t)payload + 1), TCPX_ERR_PROTOCOL);
		assert_int_equal(decode_sizes(type, UINT32_MAX, 0), TCPX_ERR_PROTOCOL);
		assert_int_equal(decode_sizes(type, 0, UINT32_MAX), TCPX_ERR_PROTOCOL);
	}
}

static tcpx_status decode_ref_of(unsigned type, uint32_t table, uint32_t sources, uint32_t payload)
{
	struct frame frame = {.type = (uint8_t)type,
			      .flags = FRAME_F_REF,
			      .table_bytes = table,
			      .payload_bytes = payload,
			      .follows = sources},
		     back;
	uint8_t bytes[FRAME_HEADER_BYTES];

	wire_frame_encode(&frame, bytes);
	return wire_frame_decode(bytes, &back);
}

static tcpx_status decode_ref(unsigned type, uint32_t table, uint32_t sources)
{
	bool asks = type == FRAME_READ_REQ || type == FRAME_CTS;

	return decode_ref_of(type, table, sources, asks ? 0 : FRAME_REF_MAX);
}

/* The end of the table says where the payload is; only a WRITE's has something before it. */
static void chunks_may_come_by_reference(void **state)
{
	(void)state;
	assert_int_equal(decode_ref(FRAME_DATA, 30, 20), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_DATA, FRAME_TABLE_MAX, FRAME_TABLE_MAX), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_DATA, FRAME_TABLE_MAX + 1, 20), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_DATA, 20, 21), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_DATA, 20, 0), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_RDATA, 20, 20), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_RDATA, 21, 20), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_SDATA, 20, 20), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_SDATA, 0, 0), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_READ_REQ, 20, 0), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_READ_REQ, 20, 20), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_CTS, 0, 0), TCPX_OK);
	assert_int_equal(decode_ref(FRAME_SEND, 0, 0), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref(FRAME_NOTIFY, 0, 0), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref_of(FRAME_DATA, 30, 20, FRAME_REF_MAX + 1), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_ref_of(FRAME_READ_REQ, 20, 0, 1), TCPX_ERR_PROTOCOL);
}

static tcpx_status decode_msg(unsigned type, uint32_t payload)
{
	struct frame frame = {
		.type = (uint8_t)type, .flags = FRAME_F_MSG, .payload_bytes = payload};
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame back;

	wire_frame_encode(&frame, bytes);
	return wire_frame_decode(bytes, &back);
}

static void chunks_may_come_as_messages(void **state)
{
	(void)state;
	for (unsigned type = 0; type < 256; type++) {
		bool chunk = type == FRAME_DATA || type == FRAME_RDATA || type == FRAME_SDATA;
		bool may = chunk || type == FRAME_READ_REQ || type == FRAME_CTS;

		assert_int_equal(decode_msg(type, chunk ? FRAME_PAYLOAD_MAX : 0),
				 may ? TCPX_OK : TCPX_ERR_PROTOCOL);
	}
}

static void both_paths_of_a_payload_are_refused(void **state)
{
	struct frame frame = {.type = FRAME_DATA,
			      .flags = FRAME_F_REF | FRAME_F_MSG,
			      .table_bytes = 20,
			      .follows = 20,
			      .payload_bytes = 1};
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame back;

	(void)state;
	wire_frame_encode(&frame, bytes);
	assert_int_equal(wire_frame_decode(bytes, &back), TCPX_ERR_PROTOCOL);
	frame.flags = FRAME_F_REF;
	wire_frame_encode(&frame, bytes);
	assert_int_equal(wire_frame_decode(bytes, &back), TCPX_OK);
}

static void random_headers_come_back(void **state)
{
	static const uint8_t types[] = {FRAME_DATA, FRAME_RDATA, FRAME_SEND, FRAME_NOTIFY};
	uint8_t bytes[FRAME_HEADER_BYTES];
	struct frame frame, back;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 11);
	for (int i = 0; i < 50000; i++) {
		memset(&frame, 0, sizeof(frame));
		frame.type = types[rng_below(&rng, 4)];
		frame.flags = (uint16_t)rng_below(&rng, 16);
		if (frame.type == FRAME_DATA)
			frame.table_bytes = (uint32_t)rng_range(&rng, 0, FRAME_TABLE_MAX);
		frame.payload_bytes = (uint32_t)rng_range(&rng, 0, FRAME_PAYLOAD_MAX);
		frame.epoch = (uint32_t)rng_u64(&rng);
		frame.seq = rng_u64(&rng);
		frame.xfer = rng_u64(&rng);
		frame.linear = rng_u64(&rng);
		frame.key = rng_u64(&rng);
		frame.offset = rng_u64(&rng);
		wire_frame_encode(&frame, bytes);
		assert_int_equal(wire_frame_decode(bytes, &back), TCPX_OK);
		assert_same(&back, &frame);
		rng_fill(&rng, bytes, sizeof(bytes)); /* noise never passes */
		assert_int_equal(wire_frame_decode(bytes, &back), TCPX_ERR_CORRUPT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(header_is_golden),
		cmocka_unit_test(trailer_is_golden),
		cmocka_unit_test(trailer_refuses_others),
		cmocka_unit_test(every_flipped_bit_is_refused),
		cmocka_unit_test(other_versions_and_flags_are_refused),
		cmocka_unit_test(every_type_has_its_limits),
		cmocka_unit_test(chunks_may_come_by_reference),
		cmocka_unit_test(chunks_may_come_as_messages),
		cmocka_unit_test(both_paths_of_a_payload_are_refused),
		cmocka_unit_test(random_headers_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
