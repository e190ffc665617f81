/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of control frames: golden bytes, cuts, values that cannot be. */
#include "unit.h"

#include "wire/control.h"

static void fence_is_golden(void **state)
{
	uint8_t bytes[2 * WIRE_REFUSAL_BYTES];
	struct wire_out o = wire_out_of(bytes, sizeof(bytes));
	struct wire_cursor c;
	tcpx_status status;
	uint64_t seq;

	(void)state;
	wire_put_refusal(&o, 0x0102030405060708, TCPX_ERR_REMOTE_KEY);
	wire_put_refusal(&o, 9, (tcpx_status)-99);
	assert_golden("fence", bytes, wire_out_bytes(&o));
	c = wire_cursor_of(bytes, sizeof(bytes));
	assert_int_equal(wire_get_refusal(&c, &seq, &status), 1);
	assert_int_equal(seq, 0x0102030405060708);
	assert_int_equal(status, TCPX_ERR_REMOTE_KEY);
	assert_int_equal(wire_get_refusal(&c, &seq, &status), 1);
	assert_int_equal(status, -99);
	assert_int_equal(wire_get_refusal(&c, &seq, &status), 0);
	assert_int_equal(wire_get_refusal(&c, &seq, &status), 0);
}

static int refusal_of(uint64_t status_value, size_t len)
{
	uint8_t bytes[WIRE_REFUSAL_BYTES];
	struct wire_out o = wire_out_of(bytes, sizeof(bytes));
	struct wire_cursor c;
	tcpx_status status;
	uint64_t seq;

	wire_put_uint(&o, 5, 8);
	wire_put_uint(&o, status_value, 8);
	c = wire_cursor_of(bytes, len);
	return wire_get_refusal(&c, &seq, &status);
}

static void refusals_are_checked(void **state)
{
	(void)state;
	assert_int_equal(refusal_of(1, 16), 1);
	assert_int_equal(refusal_of(0, 16), -1);
	assert_int_equal(refusal_of(100, 16), -1);
	assert_int_equal(refusal_of(UINT64_MAX, 16), -1);
	assert_int_equal(refusal_of(1, 0), 0);
	for (size_t len = 1; len < 16; len++)
		assert_int_equal(refusal_of(1, len), -1);
}

static void local_is_golden(void **state)
{
	struct wire_local local = {.name = "tcpx-local-1"}, back;
	uint8_t bytes[WIRE_LOCAL_MAX];
	size_t len;

	(void)state;
	for (unsigned i = 0; i < WIRE_NONCE_BYTES; i++)
		local.nonce[i] = (uint8_t)(0x40 + i);
	len = wire_local_encode(&local, bytes);
	assert_golden("local", bytes, len);
	assert_int_equal(wire_local_decode(bytes, len, &back), TCPX_OK);
	assert_memory_equal(&back, &local, sizeof(back));
	for (size_t cut = 0; cut <= WIRE_NONCE_BYTES; cut++)
		assert_int_equal(wire_local_decode(bytes, cut, &back), TCPX_ERR_PROTOCOL);
	bytes[len - 2] = 0;
	assert_int_equal(wire_local_decode(bytes, len, &back), TCPX_ERR_PROTOCOL);

	memset(local.name, 'n', WIRE_LOCAL_NAME_MAX);
	len = wire_local_encode(&local, bytes);
	assert_int_equal(len, WIRE_LOCAL_MAX);
	assert_int_equal(wire_local_decode(bytes, len, &back), TCPX_OK);
	assert_int_equal(strlen(back.name), WIRE_LOCAL_NAME_MAX);
}

static void local_names_are_bounded(void **state)
{
	uint8_t bytes[WIRE_LOCAL_MAX + 1];
	struct wire_local back;

	(void)state;
	memset(bytes, 'n', sizeof(bytes));
	assert_int_equal(wire_local_decode(bytes, sizeof(bytes), &back), TCPX_ERR_PROTOCOL);
}

static void rails_are_golden(void **state)
{
	struct wire_address addrs[WIRE_ADDR_MAX + 1] =
		{
			{.family = 4, .bytes = {10, 0, 0, 1}, .port = 20000},
			{.family = 6, .bytes = {0xfe, 0x80, [15] = 1}, .port = 20001, .scope = 3},
		},
						  back[WIRE_ADDR_MAX];
	uint8_t bytes[WIRE_RAILS_MAX + 1];
	uint32_t count = 99;
	size_t len = wire_rails_encode(addrs, 2, bytes);

	(void)state;
	assert_golden("rails", bytes, len);
	assert_int_equal(wire_rails_decode(bytes, len, back, &count), TCPX_OK);
	assert_int_equal(count, 2);
	assert_int_equal(back[1].scope, 3);
	assert_int_equal(back[1].port, 20001);
	assert_memory_equal(back[0].bytes, addrs[0].bytes, 16);
	assert_int_equal(wire_rails_decode(bytes, 0, back, &count), TCPX_OK);
	assert_int_equal(count, 0);
	for (size_t cut = 1; cut < len; cut++)
		if (cut % WIRE_ADDRESS_BYTES)
			assert_int_equal(wire_rails_decode(bytes, cut, back, &count),
					 TCPX_ERR_PROTOCOL);
	bytes[WIRE_ADDRESS_BYTES] = 5; /* a family that is none, in the last one */
	assert_int_equal(wire_rails_decode(bytes, len, back, &count), TCPX_ERR_PROTOCOL);

	for (unsigned i = 0; i <= WIRE_ADDR_MAX; i++)
		addrs[i].family = 4;
	len = wire_rails_encode(addrs, WIRE_ADDR_MAX + 1, bytes);
	assert_int_equal(len, WIRE_RAILS_MAX);
	assert_int_equal(wire_rails_decode(bytes, len, back, &count), TCPX_OK);
	assert_int_equal(count, WIRE_ADDR_MAX);
	assert_int_equal(wire_rails_decode(bytes, len + 1, back, &count), TCPX_ERR_PROTOCOL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fence_is_golden),  cmocka_unit_test(refusals_are_checked),
		cmocka_unit_test(local_is_golden),  cmocka_unit_test(local_names_are_bounded),
		cmocka_unit_test(rails_are_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
