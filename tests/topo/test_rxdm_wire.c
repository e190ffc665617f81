/* SPDX-License-Identifier: Apache-2.0 */
/* RxDM's messages: golden bytes, what readers of protobuf must take, and what nobody may send. */
#include "unit/unit.h"

#include "wire/rxdm.h"

static void assert_encodes(const char *name, const struct wire_rxdm *message)
{
	uint8_t bytes[WIRE_RXDM_HEAD + WIRE_RXDM_BODY_MAX];
	size_t len = wire_rxdm_encode(message, bytes, sizeof(bytes));

	assert_golden(name, bytes, len);
	for (size_t cap = 0; cap < len; cap++)
		assert_int_equal(wire_rxdm_encode(message, bytes, cap), 0);
}

static struct wire_rxdm decoded(const void *body, size_t len)
{
	struct wire_rxdm message;

	assert_int_equal(wire_rxdm_decode(body, len, &message), TCPX_OK);
	return message;
}

static struct wire_rxdm golden(const char *name, uint8_t *bytes, size_t cap)
{
	size_t len = golden_read(name, bytes, cap);

	assert_true(len >= WIRE_RXDM_HEAD);
	assert_int_equal(wire_rxdm_length(bytes), len - WIRE_RXDM_HEAD);
	return decoded(bytes + WIRE_RXDM_HEAD, len - WIRE_RXDM_HEAD);
}

static void messages_are_golden(void **state)
{
	const struct wire_rxdm rule = {.kind = WIRE_RXDM_RULE,
				       .gpu = "0000:04:00.0",
				       .rule = {.flow = WIRE_RXDM_TCP4,
						.queue = -1,
						.src = {"127.0.0.1", 37687},
						.dst = {"127.0.0.1", 40983}}};
	const struct wire_rxdm ok = {
		.kind = WIRE_RXDM_BYTES, .bytes = (const uint8_t *)"Ok.", .bytes_len = 3};
	const struct wire_rxdm query = {.kind = WIRE_RXDM_QUERY, .gpu = "0000:04:00.0"};
	const struct wire_rxdm queues = {
		.kind = WIRE_RXDM_QUEUES, .queues = {8, 9, 10, 11}, .nqueues = 4};
	const struct wire_rxdm refused = {.kind = WIRE_RXDM_BYTES,
					  .bytes = (const uint8_t *)"No.",
					  .bytes_len = 3,
					  .status = 5,
					  .words = (const uint8_t *)"No.",
					  .words_len = 3};

	(void)state;
	assert_encodes("rxdm_rule", &rule);
	assert_encodes("rxdm_ok", &ok);
	assert_encodes("rxdm_query", &query);
	assert_encodes("rxdm_queues", &queues);
	assert_encodes("rxdm_refused", &refused);
}

static void golden_messages_are_read(void **state)
{
	uint8_t bytes[256];
	struct wire_rxdm m = golden("rxdm_rule", bytes, sizeof(bytes));

	(void)state;
	assert_int_equal(m.kind, WIRE_RXDM_RULE);
	assert_string_equal(m.gpu, "0000:04:00.0");
	assert_int_equal(m.rule.flow, WIRE_RXDM_TCP4);
	assert_int_equal(m.rule.queue, -1);
	assert_string_equal(m.rule.src.ip, "127.0.0.1");
	assert_int_equal(m.rule.src.port, 37687);
	assert_int_equal(m.rule.dst.port, 40983);
	m = golden("rxdm_ok", bytes, sizeof(bytes));
	assert_int_equal(m.kind, WIRE_RXDM_BYTES);
	assert_int_equal(m.bytes_len, 3);
	assert_memory_equal(m.bytes, "Ok.", 3);
	assert_int_equal(m.status, 0);
	m = golden("rxdm_queues", bytes, sizeof(bytes));
	assert_int_equal(m.kind, WIRE_RXDM_QUEUES);
	assert_int_equal(m.nqueues, 4);
	assert_int_equal(m.queues[3], 11);
	m = golden("rxdm_refused", bytes, sizeof(bytes));
	assert_int_equal(m.kind, WIRE_RXDM_BYTES);
	assert_int_equal(m.status, 5);
	assert_memory_equal(m.words, "No.", m.words_len);
}

/* Packed numbers, fields nobody knows, an empty message: all of it is protobuf. */
static void other_forms_are_read(void **state)
{
	static const uint8_t packed[] = {0x22, 4, 0x0a, 2, 8, 9};
	static const uint8_t unknown[] = {0x3a, 1, 'x', 0x40, 1, 0x4d, 1, 2,	3, 4,	0x51, 1,
					  2,	3, 4,	5,    6, 7,    8, 0x0a, 3, 'O', 'k',  '.'};
	static const uint8_t negative[] = {0x12, 11,   0x10, 0xff, 0xff, 0xff, 0xff,
					   0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
	static const uint8_t twice[] = {0x0a, 1, 'a', 0x32, 2, 0x08, 1};
	struct wire_rxdm m = decoded(packed, sizeof(packed));

	(void)state;
	assert_int_equal(m.nqueues, 2);
	assert_int_equal(m.queues[1], 9);
	m = decoded(unknown, sizeof(unknown));
	assert_int_equal(m.kind, WIRE_RXDM_BYTES);
	assert_int_equal(m.bytes_len, 3);
	assert_int_equal(decoded(negative, sizeof(negative)).rule.queue, -1);
	assert_int_equal(decoded(NULL, 0).kind, WIRE_RXDM_EMPTY);
	m = decoded(twice, sizeof(twice)); /* of one choice: the last */
	assert_int_equal(m.kind, WIRE_RXDM_REGISTER);
	assert_int_equal(m.client, 1);
}

static void malformed_messages_are_refused(void **state)
{
	static const struct {
		uint8_t bytes[8];
		size_t len;
	} rows[] = {
		{{0x0a, 4, 'O', 'k', '.'}, 5},	  /* longer than what there is */
		{{0x0a}, 1},			  /* no length */
		{{0x08, 1}, 2},			  /* bytes as a number */
		{{0x0b}, 1},			  /* a group */
		{{0x02, 0}, 2},			  /* field 0 */
		{{0x1a, 3, 0x0a, 1, 0}, 5},	  /* NUL in a text */
		{{0x1a, 2, 0x08, 1}, 4},	  /* a text as a number */
		{{0x22, 3, 0x0a, 2, 0x80}, 5},	  /* packed, cut */
		{{0x22, 4, 0x0a, 2, 8, 0x80}, 6}, /* packed, its last number without an end */
		{{0x12, 3, 0x0a, 5, 0x08}, 5},	  /* an inner length beyond the outer one */
		{{0x0a, 0x80, 0}, 3},		  /* a length in more bytes than it needs */
	};
	uint8_t text[3 + WIRE_RXDM_TEXT_MAX + 2] = {0x1a, WIRE_RXDM_TEXT_MAX + 2, 0x0a,
						    WIRE_RXDM_TEXT_MAX};
	uint8_t queues[2 + 2 * (WIRE_RXDM_QUEUES_MAX + 1) + 2], big[WIRE_RXDM_BODY_MAX + 1] = {0};
	struct wire_rxdm m = {.kind = 99};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (wire_rxdm_decode(rows[i].bytes, rows[i].len, &m) != TCPX_ERR_PROTOCOL)
			fail_msg("row %u was read", i);
	memset(text + 4, 'a', WIRE_RXDM_TEXT_MAX);
	assert_int_equal(wire_rxdm_decode(text, WIRE_RXDM_TEXT_MAX + 4, &m), TCPX_ERR_PROTOCOL);
	text[1]--; /* the longest text that is one */
	text[3]--;
	assert_int_equal(strlen(decoded(text, WIRE_RXDM_TEXT_MAX + 3).gpu), WIRE_RXDM_TEXT_MAX - 1);
	queues[0] = 0x22;
	queues[1] = 0x82; /* 514 */
	queues[2] = 0x04;
	for (unsigned i = 0; i <= WIRE_RXDM_QUEUES_MAX; i++) {
		queues[3 + 2 * i] = 0x08;
		queues[4 + 2 * i] = 1;
	}
	assert_int_equal(wire_rxdm_decode(queues, 3 + 514, &m), TCPX_ERR_PROTOCOL);
	assert_int_equal(wire_rxdm_decode(big, sizeof(big), &m), TCPX_ERR_PROTOCOL);
	assert_int_equal(m.kind, 99); /* untouched by all of them */
}

static void the_memory_of_a_gpu(void **state)
{
	const struct wire_rxdm_memory pool = {4ull << 30, 2 << 20};
	uint8_t bytes[WIRE_RXDM_MEMORY_BYTES];
	struct wire_rxdm_memory back;

	(void)state;
	wire_rxdm_memory_encode(&pool, bytes);
	assert_int_equal(wire_rxdm_memory_decode(bytes, sizeof(bytes), &back), TCPX_OK);
	assert_int_equal(back.size_bytes, pool.size_bytes);
	assert_int_equal(back.align_bytes, pool.align_bytes);
	assert_int_equal(wire_rxdm_memory_decode(bytes, 23, &back), TCPX_ERR_PROTOCOL);
	bytes[16] = 3; /* no power of two */
	assert_int_equal(wire_rxdm_memory_decode(bytes, sizeof(bytes), &back), TCPX_ERR_PROTOCOL);
	wire_rxdm_memory_encode(&(struct wire_rxdm_memory){0, 4096}, bytes);
	assert_int_equal(wire_rxdm_memory_decode(bytes, sizeof(bytes), &back), TCPX_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_golden),
		cmocka_unit_test(golden_messages_are_read),
		cmocka_unit_test(other_forms_are_read),
		cmocka_unit_test(malformed_messages_are_refused),
		cmocka_unit_test(the_memory_of_a_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
