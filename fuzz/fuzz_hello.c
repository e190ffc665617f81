/* SPDX-License-Identifier: Apache-2.0 */
/* Handshake messages: what decodes is within bounds and survives its own encoding. */
#include "target.h"

#include "wire/hello.h"

static void check(const uint8_t *bytes, size_t len)
{
	uint8_t first[WIRE_HELLO_MAX], second[WIRE_HELLO_MAX];
	struct wire_hello hello, again;
	size_t first_len;

	memset(&hello, 0xee, sizeof(hello));
	if (wire_hello_decode(bytes, len, &hello)) {
		FUZZ_CHECK(hello.step == 0xee);
		return;
	}
	FUZZ_CHECK(len >= 8 && wire_hello_length(bytes) == len);
	FUZZ_CHECK(hello.step >= 1 && hello.step <= 3 && hello.role >= 1 && hello.role <= 2);
	FUZZ_CHECK(hello.auth <= WIRE_AUTH_BARE && hello.proto_min <= hello.proto_max);
	FUZZ_CHECK(memchr(hello.name, 0, sizeof(hello.name)));
	FUZZ_CHECK(!memcmp(bytes + len - WIRE_PROOF_BYTES, hello.proof, WIRE_PROOF_BYTES));
	first_len = wire_hello_encode(&hello, first);
	FUZZ_CHECK(first_len <= len); /* unknown fields are gone */
	FUZZ_CHECK(!wire_hello_decode(first, first_len, &again));
	FUZZ_CHECK(wire_hello_encode(&again, second) == first_len);
	FUZZ_CHECK(!memcmp(first, second, first_len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[WIRE_HELLO_MAX];

	check(data, size);
	if (size >= 8 && size <= sizeof(fixed)) { /* with the right magic and length */
		memcpy(fixed, data, size);
		memcpy(fixed, "TCPH", 4);
		fixed[4] = (uint8_t)size;
		fixed[5] = (uint8_t)(size >> 8);
		fixed[6] = fixed[7] = 0;
		check(fixed, size);
	}
	return 0;
}
