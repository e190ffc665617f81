/* SPDX-License-Identifier: Apache-2.0 */
/* Region tokens: what decodes is what would be encoded. */
#include "target.h"

#include "wire/hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t again[TCPX_TOKEN_BYTES];
	struct wire_token token = {.kind = 0xee};

	if (wire_token_decode(data, size, &token)) {
		FUZZ_CHECK(token.kind == 0xee);
		return 0;
	}
	FUZZ_CHECK(size == sizeof(again) && token.kind <= WIRE_TOKEN_KIND_MAX && token.rights <= 3);
	wire_token_encode(&token, again);
	FUZZ_CHECK(!memcmp(data, again, sizeof(again)));
	return 0;
}
