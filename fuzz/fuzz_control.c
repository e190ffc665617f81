/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of control frames; the first byte says which: fence, local or rails. */
#include "target.h"

#include "wire/control.h"

static void check_fence(const uint8_t *data, size_t size)
{
	struct wire_cursor c = wire_cursor_of(data, size);
	uint8_t again[WIRE_REFUSAL_BYTES];
	tcpx_status status;
	uint64_t seq;

	for (size_t i = 0; wire_get_refusal(&c, &seq, &status) == 1; i += WIRE_REFUSAL_BYTES) {
		struct wire_out o = wire_out_of(again, sizeof(again));

		FUZZ_CHECK(status < 0 && status >= -99);
		wire_put_refusal(&o, seq, status);
		FUZZ_CHECK(!o.bad && !memcmp(data + i, again, sizeof(again)));
	}
}

static void check_local(const uint8_t *data, size_t size)
{
	uint8_t again[WIRE_LOCAL_MAX];
	struct wire_local local;

	if (wire_local_decode(data, size, &local))
		return;
	FUZZ_CHECK(local.name[0] && memchr(local.name, 0, sizeof(local.name)));
	FUZZ_CHECK(wire_local_encode(&local, again) == size && !memcmp(data, again, size));
}

static void check_rails(const uint8_t *data, size_t size)
{
	struct wire_address addrs[WIRE_ADDR_MAX];
	uint8_t again[WIRE_RAILS_MAX];
	uint32_t count = 0xee;

	if (wire_rails_decode(data, size, addrs, &count)) {
		FUZZ_CHECK(count == 0xee);
		return;
	}
	FUZZ_CHECK(count <= WIRE_ADDR_MAX);
	FUZZ_CHECK(wire_rails_encode(addrs, count, again) == size);
	FUZZ_CHECK(!size || !memcmp(data, again, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % 3) {
	case 0:
		check_fence(data + 1, size - 1);
		break;
	case 1:
		check_local(data + 1, size - 1);
		break;
	default:
		check_rails(data + 1, size - 1);
	}
	return 0;
}
