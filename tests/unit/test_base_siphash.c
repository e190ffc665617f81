/* SPDX-License-Identifier: Apache-2.0 */
/* SipHash-2-4 gives the values its authors published. */
#include "unit.h"

#include "base/siphash.h"

static void published_values(void **state)
{
	/* key 00 01 .. 0f; message 00 01 .. of each length */
	static const struct {
		unsigned len;
		uint64_t hash;
	} rows[] = {
		{0, 0x726fdb47dd0e0e31ULL},  {1, 0x74f839c593dc67fdULL},
		{2, 0x0d6c8009d9a94f5aULL},  {7, 0xab0200f58b01d137ULL},
		{8, 0x93f5f5799a932462ULL},  {15, 0xa129ca6149be45e5ULL},
		{16, 0x3f2acc7f57c29bdbULL}, {63, 0x958a324ceb064572ULL},
	};
	uint8_t key[SIPHASH_KEY_BYTES], message[64];

	(void)state;
	for (unsigned i = 0; i < sizeof(key); i++)
		key[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(message); i++)
		message[i] = (uint8_t)i;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (siphash(key, message, rows[i].len) != rows[i].hash)
			fail_msg("length %u gives %016llx", rows[i].len,
				 (unsigned long long)siphash(key, message, rows[i].len));
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(published_values)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
