/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake messages: golden bytes, what is ignored, what is refused, every flipped bit. */
#include "unit.h"

#include "base/rng.h"
#include "wire/hello.h"

static void count_up(uint8_t *bytes, size_t len, uint8_t first)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(first + i);
}

static struct wire_hello hello_of(uint8_t step)
{
	struct wire_hello hello = {
		.step = step, .role = WIRE_ROLE_CONTROL, .proto_min = 2, .proto_max = 2};

	count_up(hello.uuid, sizeof(hello.uuid), 0x10);
	count_up(hello.incarnation, sizeof(hello.incarnation), 0x20);
	count_up(hello.want_uuid, sizeof(hello.want_uuid), 0x30);
	count_up(hello.nonce, sizeof(hello.nonce), 0x40);
	count_up(hello.proof, sizeof(hello.proof), 0x60);
	return hello;
}

static void identify(struct wire_hello *hello)
{
	struct wire_identity *identity = &hello->identity;

	identity->there = hello->step != WIRE_HELLO_PROOF;
	identity->is_signed = hello->step != WIRE_HELLO_DIAL;
	if (identity->there) {
		count_up(identity->key, sizeof(identity->key), 0x80);
		count_up(identity->exchange, sizeof(identity->exchange), 0xa0);
	}
	if (identity->is_signed)
		count_up(identity->signature, sizeof(identity->signature), 0xc0);
}

static struct wire_hello golden_dial(void)
{
	struct wire_hello hello = hello_of(WIRE_HELLO_DIAL);

	hello.auth = WIRE_AUTH_SECRET;
	hello.channels = 8;
	hello.chunk_bytes = 524288;
	hello.features = WIRE_FEATURE_LOCAL | WIRE_FEATURE_RESERVED;
	hello.required = WIRE_FEATURE_LOCAL;
	hello.key_id = 0x0807060504030201;
	hello.notify_budget = 134217728;
	hello.notify_cover = 131072;
	hello.eager_budget = hello.read_budget = 1048576;
	strcpy(hello.name, "alpha");
	identify(&hello);
	return hello;
}

static struct wire_hello golden_answer(void)
{
	struct wire_hello hello = hello_of(WIRE_HELLO_ANSWER);

	hello.role = WIRE_ROLE_DATA;
	hello.auth = WIRE_AUTH_LINK;
	hello.status = 71;
	hello.channel = 5;
	hello.epoch = 9;
	hello.chunk_bytes = 524288;
	hello.features = WIRE_FEATURE_LOCAL;
	hello.key_id = 0x1817161514131211;
	hello.read_budget = 65536;
	return hello;
}

static struct wire_hello golden_proof(void)
{
	struct wire_hello hello = hello_of(WIRE_HELLO_PROOF);

	hello.auth = WIRE_AUTH_KEY;
	identify(&hello);
	return hello;
}

/* Every field travels, so equal bytes are equal messages; the golden ones pin the fields down. */
static void assert_same(const struct wire_hello *a, const struct wire_hello *b)
{
	uint8_t a_bytes[WIRE_HELLO_MAX], b_bytes[WIRE_HELLO_MAX];
	size_t len = wire_hello_encode(a, a_bytes);

	assert_int_equal(wire_hello_encode(b, b_bytes), len);
	assert_memory_equal(a_bytes, b_bytes, len);
	assert_string_equal(a->name, b->name);
}

static void assert_round_trip(const struct wire_hello *hello, const char *name)
{
	uint8_t bytes[WIRE_HELLO_MAX];
	struct wire_hello back;
	size_t len = wire_hello_encode(hello, bytes);

	assert_golden(name, bytes, len);
	assert_int_equal(wire_hello_length(bytes), len);
	assert_int_equal(wire_hello_decode(bytes, len, &back), TCPX_OK);
	assert_same(&back, hello);
	/* the proof covers everything before it */
	assert_memory_equal(bytes + len - WIRE_PROOF_BYTES, hello->proof, WIRE_PROOF_BYTES);
}

static void messages_are_golden(void **state)
{
	struct wire_hello dial = golden_dial(), answer = golden_answer(), proof = golden_proof();

	(void)state;
	assert_round_trip(&dial, "hello_dial");
	assert_round_trip(&answer, "hello_answer");
	assert_round_trip(&proof, "hello_proof");
	answer = dial;
	answer.step = WIRE_HELLO_ANSWER;
	identify(&answer);
	assert_round_trip(&answer, "hello_identity");
	dial.messages = (struct wire_messages){
		.channels = 32, .bytes = 524288, .window = 12, .plugin_chunk = 1048576};
	assert_round_trip(&dial, "hello_messages");
}

static tcpx_status decode(const uint8_t *bytes, size_t len)
{
	struct wire_hello back;
	uint8_t exact[WIRE_HELLO_MAX + 16];

	memset(exact, 0xee, sizeof(exact));
	memcpy(exact, bytes, len);
	return wire_hello_decode(exact, len, &back);
}

static void truncation_and_excess_are_refused(void **state)
{
	struct wire_hello dial = golden_dial();
	uint8_t bytes[WIRE_HELLO_MAX + 1] = {0};
	size_t len = wire_hello_encode(&dial, bytes);

	(void)state;
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(decode(bytes, cut), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode(bytes, len + 1), TCPX_ERR_PROTOCOL);
}

static void bad_prefixes_are_not_ours(void **state)
{
	struct wire_hello dial = golden_dial();
	uint8_t bytes[WIRE_HELLO_MAX];

	(void)state;
	(void)wire_hello_encode(&dial, bytes);
	bytes[4] = 167, bytes[5] = 0; /* below the least */
	assert_int_equal(wire_hello_length(bytes), 0);
	bytes[4] = 168;
	assert_int_equal(wire_hello_length(bytes), 168);
	bytes[4] = 0, bytes[5] = 4;
	assert_int_equal(wire_hello_length(bytes), WIRE_HELLO_MAX);
	bytes[4] = 1;
	assert_int_equal(wire_hello_length(bytes), 0);
	bytes[4] = 0, bytes[7] = 1;
	assert_int_equal(wire_hello_length(bytes), 0);
	bytes[7] = 0, bytes[0] ^= 1;
	assert_int_equal(wire_hello_length(bytes), 0);
	assert_int_equal(wire_hello_length((const uint8_t *)"GET / HTTP/1.1"), 0);
}

/* A flipped bit is refused or gives a message whose every field is one that could be sent. */
static void flipped_bits_are_harmless(void **state)
{
	struct wire_hello messages[] = {golden_dial(), golden_answer(), golden_proof()}, back;
	uint8_t bytes[WIRE_HELLO_MAX], again[WIRE_HELLO_MAX];
	unsigned refused = 0;
	size_t len;

	(void)state;
	for (int m = 0; m < 3; m++) {
		len = wire_hello_encode(&messages[m], bytes);
		for (size_t bit = 0; bit < 8 * len; bit++) {
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
			memset(&back, 0xee, sizeof(back));
			if (wire_hello_decode(bytes, len, &back)) {
				refused++;
				assert_int_equal(back.step, 0xee);
			} else {
				assert_in_range(back.step, WIRE_HELLO_DIAL, WIRE_HELLO_PROOF);
				assert_in_range(back.role, WIRE_ROLE_CONTROL, WIRE_ROLE_DATA);
				assert_in_range(back.auth, WIRE_AUTH_NONE, WIRE_AUTH_BARE);
				assert_true(back.proto_min <= WIRE_PROTO_MAX &&
					    back.proto_max >= WIRE_PROTO_MIN);
				assert_non_null(memchr(back.name, 0, sizeof(back.name)));
				assert_true(wire_hello_encode(&back, again) <= WIRE_HELLO_MAX);
			}
			bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
	assert_true(refused > 3 * 64);
}

static void versions_are_ranges(void **state)
{
	struct wire_hello dial = golden_dial(), back;
	uint8_t bytes[WIRE_HELLO_MAX];
	static const struct {
		uint8_t min, max;
		tcpx_status status;
	} rows[] = {
		{2, 2, TCPX_OK},	  {0, 5, TCPX_OK},	    {2, 255, TCPX_OK},
		{3, 4, TCPX_ERR_VERSION}, {0, 1, TCPX_ERR_VERSION}, {3, 2, TCPX_ERR_PROTOCOL},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		dial.proto_min = rows[i].min;
		dial.proto_max = rows[i].max;
		assert_int_equal(wire_hello_decode(bytes, wire_hello_encode(&dial, bytes), &back),
				 rows[i].status);
	}
}

static void unknown_required_features_are_refused(void **state)
{
	struct wire_hello dial = golden_dial(), back;
	uint8_t bytes[WIRE_HELLO_MAX];
	size_t len;

	(void)state;
	dial.features = UINT64_MAX; /* optional ones may be anything */
	len = wire_hello_encode(&dial, bytes);
	assert_int_equal(wire_hello_decode(bytes, len, &back), TCPX_OK);
	for (int bit = 2; bit < 64; bit++) {
		dial.required = 1ull << bit;
		len = wire_hello_encode(&dial, bytes);
		assert_int_equal(wire_hello_decode(bytes, len, &back), TCPX_ERR_VERSION);
	}
}

/* Puts one more field before the proof of a message. */
static size_t add_field(uint8_t *bytes, size_t len, uint16_t type, const void *value, uint16_t size)
{
	uint8_t *at = bytes + len - WIRE_PROOF_BYTES;

	memmove(at + 4 + size, at, WIRE_PROOF_BYTES);
	at[0] = (uint8_t)type;
	at[1] = (uint8_t)(type >> 8);
	at[2] = (uint8_t)size;
	at[3] = (uint8_t)(size >> 8);
	if (size)
		memcpy(at + 4, value, size);
	len += 4u + size;
	bytes[4] = (uint8_t)len;
	bytes[5] = (uint8_t)(len >> 8);
	return len;
}

static tcpx_status decode_with(uint16_t type, const void *value, uint16_t size)
{
	struct wire_hello proof = golden_proof(), back;
	uint8_t bytes[WIRE_HELLO_MAX];
	size_t len;

	proof.identity.is_signed = false; /* its field would be the last one */
	len = wire_hello_encode(&proof, bytes);
	len = add_field(bytes, len, type, value, size);
	return wire_hello_decode(bytes, len, &back);
}

static void fields_are_checked(void **state)
{
	char name[TCPX_NAME_MAX + 7];

	(void)state;
	memset(name, 'n', sizeof(name));
	assert_int_equal(decode_with(0x7abc, "future", 6), TCPX_OK); /* optional: skipped */
	assert_int_equal(decode_with(0x7abc, NULL, 0), TCPX_OK);
	assert_int_equal(decode_with(0x8001, "future", 6), TCPX_ERR_VERSION);
	assert_int_equal(decode_with(1, name, TCPX_NAME_MAX), TCPX_OK);
	assert_int_equal(decode_with(1, name, TCPX_NAME_MAX + 1), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_with(1, name, 0), TCPX_ERR_PROTOCOL);
	assert_int_equal(decode_with(1, "a\0b", 3), TCPX_ERR_PROTOCOL);
	for (uint16_t type = 2; type <= 4; type++) {
		assert_int_equal(decode_with(type, "\1\0\0\0\0\0\0\0", 8), TCPX_OK);
		assert_int_equal(decode_with(type, "\0\0\0\0\0\0\0\0", 8), TCPX_ERR_PROTOCOL);
		assert_int_equal(decode_with(type, "\1\0\0\0\0\0\0", 7), TCPX_ERR_PROTOCOL);
		assert_int_equal(decode_with(type, "\1\0\0\0\0\0\0\0\0", 9), TCPX_ERR_PROTOCOL);
	}
	for (uint16_t size = 0; size <= 20; size++)
		assert_int_equal(decode_with(5, "\1\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", size),
				 size == 16 ? TCPX_OK : TCPX_ERR_PROTOCOL);
	for (unsigned zero = 0; zero < 3; zero++) { /* channels, bytes, window */
		uint8_t value[16] = {1, 0, 0, 0, 1, 0, 0, 0, 1};

		value[4 * zero] = 0;
		assert_int_equal(decode_with(5, value, 16), TCPX_ERR_PROTOCOL);
	}
}

/* Key and exchange together in a dial, with a signature at the end in an answer, the signature
 * alone in a proof; of a control link alone. */
static void identities_are_whole(void **state)
{
	static const uint8_t value[WIRE_SIGNATURE_BYTES + 1];
	uint8_t bytes[WIRE_HELLO_MAX];

	(void)state;
	for (uint8_t step = WIRE_HELLO_DIAL; step <= WIRE_HELLO_PROOF; step++) {
		for (unsigned fields = 0; fields < 64; fields++) {
			struct wire_hello hello = hello_of(step), back;
			unsigned seen = fields & 7, order = fields >> 3 & 1;
			size_t len;
			bool fits;

			hello.role = fields >> 4 & 1 ? WIRE_ROLE_DATA : WIRE_ROLE_CONTROL;
			len = wire_hello_encode(&hello, bytes);
			if (order && (seen & 4)) /* the signature before others */
				len = add_field(bytes, len, 8, value, WIRE_SIGNATURE_BYTES);
			if (seen & 1)
				len = add_field(bytes, len, 6, value, WIRE_KEY_BYTES);
			if (seen & 2)
				len = add_field(bytes, len, 7, value, WIRE_KEY_BYTES);
			if (!order && (seen & 4))
				len = add_field(bytes, len, 8, value, WIRE_SIGNATURE_BYTES);
			if (fields >> 5)
				len = add_field(bytes, len, 0x7abc, value, 4);
			fits = !seen || (hello.role == WIRE_ROLE_CONTROL &&
					 seen == (step == WIRE_HELLO_DIAL     ? 3u
						  : step == WIRE_HELLO_ANSWER ? 7u
									      : 4u));
			if ((seen & 4) && ((order && (seen & 3)) || fields >> 5))
				fits = false; /* not the last one */
			assert_int_equal(wire_hello_decode(bytes, len, &back),
					 fits ? TCPX_OK : TCPX_ERR_PROTOCOL);
		}
	}
	for (uint16_t type = 6; type <= 8; type++) {
		uint16_t right = type == 8 ? WIRE_SIGNATURE_BYTES : WIRE_KEY_BYTES;
		struct wire_hello hello = hello_of(WIRE_HELLO_ANSWER), back;

		identify(&hello);
		for (int other = -1; other <= 1; other++) {
			size_t len = wire_hello_encode(&hello, bytes);

			len = add_field(bytes, len, type, value, (uint16_t)(right + other));
			assert_int_equal(wire_hello_decode(bytes, len, &back), TCPX_ERR_PROTOCOL);
		}
	}
}

static void fields_come_once(void **state)
{
	uint8_t bytes[WIRE_HELLO_MAX];
	struct wire_hello dial = golden_dial(), back;

	(void)state;
	dial.identity.there = false;
	for (uint16_t type = 1; type <= 4; type++) {
		size_t len = wire_hello_encode(&dial, bytes);

		len = add_field(bytes, len, type, "\1\1\1\1\1\1\1\1", 8);
		assert_int_equal(wire_hello_decode(bytes, len, &back), TCPX_ERR_PROTOCOL);
	}
	dial.messages = (struct wire_messages){1, 1, 1, 0};
	assert_int_equal(wire_hello_decode(bytes,
					   add_field(bytes, wire_hello_encode(&dial, bytes), 5,
						     "\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1\1", 16),
					   &back),
			 TCPX_ERR_PROTOCOL);
}

static void random_messages_come_back(void **state)
{
	uint8_t bytes[WIRE_HELLO_MAX];
	struct wire_hello hello, back;
	struct rng rng;

	(void)state;
	rng_seed(&rng, 21);
	for (int i = 0; i < 20000; i++) {
		hello = hello_of((uint8_t)rng_range(&rng, 1, 3));
		hello.role = (uint8_t)rng_range(&rng, 1, 2);
		hello.auth = (uint8_t)rng_range(&rng, 0, 4);
		hello.status = (uint8_t)rng_u64(&rng);
		hello.channel = (uint16_t)rng_u64(&rng);
		hello.epoch = (uint32_t)rng_u64(&rng);
		hello.channels = (uint32_t)rng_u64(&rng);
		hello.chunk_bytes = (uint32_t)rng_u64(&rng);
		hello.features = rng_u64(&rng);
		hello.required = rng_below(&rng, 4);
		hello.key_id = rng_u64(&rng);
		hello.notify_budget = rng_u64(&rng) >> rng_below(&rng, 65) % 64;
		hello.notify_cover = rng_below(&rng, 3);
		hello.eager_budget = rng_below(&rng, 3);
		hello.read_budget = rng_below(&rng, 3);
		if (rng_one_in(&rng, 2))
			hello.messages = (struct wire_messages){1 + (uint32_t)rng_below(&rng, 100),
								1 + (uint32_t)rng_below(&rng, 9),
								1 + (uint32_t)rng_below(&rng, 9),
								(uint32_t)rng_u64(&rng)};
		if (hello.role == WIRE_ROLE_CONTROL && rng_one_in(&rng, 2))
			identify(&hello);
		memset(hello.name, 'x', rng_range(&rng, 0, TCPX_NAME_MAX));
		assert_int_equal(wire_hello_decode(bytes, wire_hello_encode(&hello, bytes), &back),
				 TCPX_OK);
		assert_same(&back, &hello);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(messages_are_golden),
		cmocka_unit_test(truncation_and_excess_are_refused),
		cmocka_unit_test(bad_prefixes_are_not_ours),
		cmocka_unit_test(flipped_bits_are_harmless),
		cmocka_unit_test(versions_are_ranges),
		cmocka_unit_test(unknown_required_features_are_refused),
		cmocka_unit_test(fields_are_checked),
		cmocka_unit_test(identities_are_whole),
		cmocka_unit_test(fields_come_once),
		cmocka_unit_test(random_messages_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
