/* SPDX-License-Identifier: Apache-2.0 */
/* Region tokens: golden bytes; what a version does not know is refused. */
#include "unit.h"

#include "wire/hello.h"

static const struct wire_token golden = {
	.kind = WIRE_TOKEN_KIND_MAX,
	.rights = 3,
	.flags = WIRE_TOKEN_STABLE | WIRE_TOKEN_STAGED,
	.reserved = 0x04030201,
	.key = 0x1817161514131211,
};

static void token_is_golden(void **state)
{
	uint8_t bytes[TCPX_TOKEN_BYTES];
	struct wire_token back;

	(void)state;
	wire_token_encode(&golden, bytes);
	assert_golden("token", bytes, sizeof(bytes));
	assert_int_equal(wire_token_decode(bytes, sizeof(bytes), &back), TCPX_OK);
	assert_int_equal(back.kind, golden.kind);
	assert_int_equal(back.rights, golden.rights);
	assert_int_equal(back.flags, golden.flags);
	assert_int_equal(back.reserved, golden.reserved);
	assert_int_equal(back.key, golden.key);
}

static tcpx_status decode_with(unsigned at, uint8_t value)
{
	uint8_t bytes[TCPX_TOKEN_BYTES];
	struct wire_token back;

	wire_token_encode(&golden, bytes);
	bytes[at] = value;
	return wire_token_decode(bytes, sizeof(bytes), &back);
}

static void unknown_values_are_refused(void **state)
{
	(void)state;
	assert_int_equal(decode_with(0, 0), TCPX_ERR_INVALID); /* zeros are no token */
	assert_int_equal(decode_with(0, 2), TCPX_ERR_VERSION);
	assert_int_equal(decode_with(1, TCPX_MEM_HOST), TCPX_OK);
	assert_int_equal(decode_with(1, WIRE_TOKEN_KIND_MAX + 1), TCPX_ERR_INVALID);
	assert_int_equal(decode_with(2, 0), TCPX_OK);
	assert_int_equal(decode_with(2, 4), TCPX_ERR_INVALID);
	assert_int_equal(decode_with(3, 0), TCPX_OK);
	assert_int_equal(decode_with(3, 7), TCPX_OK);
	assert_int_equal(decode_with(3, 8), TCPX_ERR_INVALID);
	for (unsigned at = 16; at < 24; at++)
		for (unsigned bit = 0; bit < 8; bit++)
			assert_int_equal(decode_with(at, (uint8_t)(1u << bit)), TCPX_ERR_INVALID);
}

static void only_the_right_length(void **state)
{
	uint8_t bytes[TCPX_TOKEN_BYTES + 8] = {0};
	struct wire_token back;

	(void)state;
	wire_token_encode(&golden, bytes);
	for (size_t len = 0; len <= sizeof(bytes); len++)
		assert_int_equal(wire_token_decode(bytes, len, &back),
				 len == TCPX_TOKEN_BYTES ? TCPX_OK : TCPX_ERR_INVALID);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(token_is_golden),
		cmocka_unit_test(unknown_values_are_refused),
		cmocka_unit_test(only_the_right_length),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
