/* SPDX-License-Identifier: Apache-2.0 */
/* Connection info: golden bytes, every cut and flipped bit is found. */
#include "unit.h"

#include "base/crc32c.h"
#include "base/rng.h"
#include "wire/hello.h"

static void count_up(uint8_t *bytes, size_t len, uint8_t first)
{
	for (size_t i = 0; i < len; i++)
		bytes[i] = (uint8_t)(first + i);
}

static void fill_golden(struct wire_info *info)
{
	memset(info, 0, sizeof(*info));
	count_up(info->uuid, sizeof(info->uuid), 0x10);
	count_up(info->incarnation, sizeof(info->incarnation), 0x20);
	count_up(info->reserved, sizeof(info->reserved), 0x80);
	count_up(info->secret, sizeof(info->secret), 0xa0);
	strcpy(info->name, "alpha");
	info->has_key = true;
	count_up(info->key, sizeof(info->key), 0xc0);
	info->naddrs = 2;
	info->addrs[0] = (struct wire_address){.family = 4, .port = 20000};
	memcpy(info->addrs[0].bytes, "\x0a\0\0\1", 4);
	info->addrs[1] = (struct wire_address){.family = 6, .port = 20001, .scope = 3};
	info->addrs[1].bytes[0] = 0xfe;
	info->addrs[1].bytes[1] = 0x80;
	info->addrs[1].bytes[15] = 1;
}

static void assert_same(const struct wire_info *a, const struct wire_info *b)
{
	assert_memory_equal(a->uuid, b->uuid, sizeof(a->uuid));
	assert_memory_equal(a->incarnation, b->incarnation, sizeof(a->incarnation));
	assert_memory_equal(a->reserved, b->reserved, sizeof(a->reserved));
	assert_memory_equal(a->secret, b->secret, sizeof(a->secret));
	assert_int_equal(a->has_key, b->has_key);
	assert_memory_equal(a->key, b->key, sizeof(a->key));
	assert_string_equal(a->name, b->name);
	assert_int_equal(a->naddrs, b->naddrs);
	for (uint32_t i = 0; i < a->naddrs; i++) {
		assert_int_equal(a->addrs[i].family, b->addrs[i].family);
		assert_int_equal(a->addrs[i].port, b->addrs[i].port);
		assert_int_equal(a->addrs[i].scope, b->addrs[i].scope);
		assert_memory_equal(a->addrs[i].bytes, b->addrs[i].bytes, 16);
	}
}

static void info_is_golden(void **state)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info, back;
	size_t len;

	(void)state;
	fill_golden(&info);
	len = wire_info_encode(&info, bytes, sizeof(bytes));
	assert_golden("info", bytes, len);
	assert_int_equal(wire_info_decode(bytes, len, &back), TCPX_OK);
	assert_same(&back, &info);

	memset(&info, 0, sizeof(info)); /* the shortest */
	len = wire_info_encode(&info, bytes, sizeof(bytes));
	assert_golden("info_padded", bytes, len);
	assert_int_equal(wire_info_decode(bytes, len, &back), TCPX_OK);
	assert_same(&back, &info);
}

static void every_flipped_bit_is_found(void **state)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info, back = {.naddrs = 99};
	size_t len;

	(void)state;
	fill_golden(&info);
	len = wire_info_encode(&info, bytes, sizeof(bytes));
	for (size_t bit = 0; bit < 8 * len; bit++) {
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_int_equal(wire_info_decode(bytes, len, &back), TCPX_ERR_INVALID);
		assert_int_equal(back.naddrs, 99);
		bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	assert_int_equal(wire_info_decode(bytes, len, &back), TCPX_OK);
}

static void every_cut_is_found(void **state)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES + 1] = {0};
	struct wire_info info, back;
	size_t len;

	(void)state;
	fill_golden(&info);
	len = wire_info_encode(&info, bytes, sizeof(bytes));
	for (size_t cut = 0; cut < len; cut++)
		assert_int_equal(wire_info_decode(bytes, cut, &back), TCPX_ERR_INVALID);
	assert_int_equal(wire_info_decode(bytes, len + 1, &back), TCPX_ERR_INVALID);
	assert_int_equal(wire_info_decode(bytes, sizeof(bytes), &back), TCPX_ERR_INVALID);
}

static void small_buffers_get_nothing(void **state)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info;
	size_t len;

	(void)state;
	fill_golden(&info);
	len = wire_info_encode(&info, bytes, sizeof(bytes));
	for (size_t cap = 0; cap < len; cap++) {
		memset(bytes, 0xee, sizeof(bytes));
		assert_int_equal(wire_info_encode(&info, bytes, cap), 0);
		assert_int_equal(bytes[cap], 0xee);
	}
	memset(&info, 0, sizeof(info));
	for (size_t cap = 0; cap < 128; cap++)
		assert_int_equal(wire_info_encode(&info, bytes, cap), 0);
	info.naddrs = WIRE_ADDR_MAX + 1;
	assert_int_equal(wire_info_encode(&info, bytes, sizeof(bytes)), 0);
}

/* The golden info with other bytes at a place, length and checksum made right. */
static tcpx_status decode_patched(size_t at, const void *patch, size_t size, const void *extra,
				  size_t extra_size)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info, back;
	uint32_t crc;
	size_t len;

	fill_golden(&info);
	len = wire_info_encode(&info, bytes, sizeof(bytes)) - 4;
	memcpy(bytes + at, patch, size);
	memcpy(bytes + len, extra, extra_size);
	len += extra_size;
	bytes[6] = (uint8_t)(len + 4);
	bytes[7] = (uint8_t)((len + 4) >> 8);
	crc = crc32c(0, bytes, len);
	for (int i = 0; i < 4; i++)
		bytes[len++] = (uint8_t)(crc >> (8 * i));
	return wire_info_decode(bytes, len, &back);
}

static void contents_are_checked(void **state)
{
	uint8_t many[15 * 27], address[27] = {2, 0, 23, 0, 4};

	(void)state;
	for (int i = 0; i < 15; i++)
		memcpy(many + 27 * i, address, 27);
	assert_int_equal(decode_patched(0, "", 0, "", 0), TCPX_OK);
	assert_int_equal(decode_patched(4, "\2", 1, "", 0), TCPX_ERR_VERSION);
	assert_int_equal(decode_patched(5, "\1", 1, "", 0), TCPX_ERR_INVALID);	 /* reserved */
	assert_int_equal(decode_patched(0, "", 0, "\xff\x7f\1\0z", 5), TCPX_OK); /* optional */
	assert_int_equal(decode_patched(0, "", 0, "\1\x80\1\0z", 5), TCPX_ERR_VERSION);
	assert_int_equal(decode_patched(0, "", 0, "\xff\x7f\2\0z", 5), TCPX_ERR_INVALID); /* cut */
	assert_int_equal(decode_patched(0, "", 0, "\xff", 1), TCPX_ERR_INVALID);
	assert_int_equal(decode_patched(0, "", 0, "\1\0\1\0z", 5), TCPX_ERR_INVALID); /* twice */
	assert_int_equal(decode_patched(92, "\0", 1, "", 0), TCPX_ERR_INVALID);	 /* NUL in name */
	assert_int_equal(decode_patched(137, "\5", 1, "", 0), TCPX_ERR_INVALID); /* family */
	assert_int_equal(decode_patched(99, "\37", 1, "", 0), TCPX_ERR_INVALID); /* of a key */
	assert_int_equal(decode_patched(0, "", 0, many, 14 * 27), TCPX_OK);
	assert_int_equal(decode_patched(0, "", 0, many, 15 * 27), TCPX_ERR_INVALID);
}

static void random_infos_come_back(void **state)
{
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	struct wire_info info, back;
	struct rng rng;
	size_t len;

	(void)state;
	rng_seed(&rng, 31);
	for (int i = 0; i < 20000; i++) {
		memset(&info, 0, sizeof(info));
		rng_fill(&rng, info.uuid, sizeof(info.uuid));
		rng_fill(&rng, info.secret, sizeof(info.secret));
		info.has_key = rng_one_in(&rng, 2);
		if (info.has_key)
			rng_fill(&rng, info.key, sizeof(info.key));
		memset(info.name, 'n', rng_range(&rng, 0, TCPX_NAME_MAX));
		info.naddrs = (uint32_t)rng_range(&rng, 0, WIRE_ADDR_MAX);
		for (uint32_t k = 0; k < info.naddrs; k++) {
			rng_fill(&rng, &info.addrs[k], sizeof(info.addrs[k]));
			info.addrs[k].family = rng_one_in(&rng, 2) ? 4 : 6;
		}
		len = wire_info_encode(&info, bytes, sizeof(bytes));
		assert_in_range(len, 128, TCPX_INFO_MAX_BYTES);
		assert_int_equal(wire_info_decode(bytes, len, &back), TCPX_OK);
		assert_same(&back, &info);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(info_is_golden),
		cmocka_unit_test(every_flipped_bit_is_found),
		cmocka_unit_test(every_cut_is_found),
		cmocka_unit_test(small_buffers_get_nothing),
		cmocka_unit_test(contents_are_checked),
		cmocka_unit_test(random_infos_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
