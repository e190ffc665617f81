/* SPDX-License-Identifier: Apache-2.0 */
/* Connection infos: what decodes is within bounds and survives its own encoding. */
#include "target.h"

#include "wire/hello.h"

static void check(const uint8_t *bytes, size_t len)
{
	uint8_t first[TCPX_INFO_MAX_BYTES], second[TCPX_INFO_MAX_BYTES];
	struct wire_info info = {.naddrs = 0xee}, again;
	size_t first_len;

	if (wire_info_decode(bytes, len, &info)) {
		FUZZ_CHECK(info.naddrs == 0xee);
		return;
	}
	FUZZ_CHECK(info.naddrs <= WIRE_ADDR_MAX && memchr(info.name, 0, sizeof(info.name)));
	for (uint32_t i = 0; i < info.naddrs; i++)
		FUZZ_CHECK(info.addrs[i].family == 4 || info.addrs[i].family == 6);
	first_len = wire_info_encode(&info, first, sizeof(first));
	FUZZ_CHECK(first_len >= 128);
	FUZZ_CHECK(!wire_info_decode(first, first_len, &again));
	FUZZ_CHECK(wire_info_encode(&again, second, first_len) == first_len);
	FUZZ_CHECK(!memcmp(first, second, first_len));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t fixed[TCPX_INFO_MAX_BYTES];

	check(data, size);
	if (size >= 12 && size <= sizeof(fixed)) { /* with the right magic, length and checksum */
		memcpy(fixed, data, size);
		memcpy(fixed, "TCPI", 4);
		fixed[6] = (uint8_t)size;
		fixed[7] = (uint8_t)(size >> 8);
		fuzz_fix_crc(fixed, size - 4);
		check(fixed, size);
	}
	return 0;
}
