/* SPDX-License-Identifier: Apache-2.0 */
/* Connection infos, by which a peer reaches and authenticates a session. Layout:
 * docs/design/wire-frames.md. */
#include "base/crc32c.h"
#include "base/error.h"
#include "wire/control.h"
#include "wire/cursor.h"
#include "wire/hello.h"
#include "wire/tlv.h"

#define MAGIC 0x49504354u /* "TCPI" */
#define VERSION 1
#define FIXED_BYTES 88 /* bytes before the fields */
#define CRC_BYTES 4
#define INFO_MIN 128

enum info_tlv { TLV_PAD = 0, TLV_NAME = 1, TLV_ADDRESS = 2, TLV_KEY = 3 };

size_t wire_info_encode(const struct wire_info *info, void *out, size_t cap)
{
	struct wire_out o = wire_out_of(out, cap < TCPX_INFO_MAX_BYTES ? cap : TCPX_INFO_MAX_BYTES);
	size_t name_len = strnlen(info->name, TCPX_NAME_MAX), total, pad = 0;
	struct wire_out length;

	wire_put_uint(&o, MAGIC, 4);
	wire_put_uint(&o, VERSION, 1);
	wire_put_uint(&o, 0, 1);
	length = o;
	wire_put_uint(&o, 0, 2); /* the length, written at the end of this function */
	wire_put_bytes(&o, info->uuid, WIRE_UUID_BYTES);
	wire_put_bytes(&o, info->incarnation, WIRE_UUID_BYTES);
	wire_put_bytes(&o, info->reserved, WIRE_UUID_BYTES);
	wire_put_bytes(&o, info->secret, WIRE_SECRET_BYTES);
	if (name_len)
		wire_put_tlv(&o, TLV_NAME, info->name, (uint16_t)name_len);
	if (info->has_key)
		wire_put_tlv(&o, TLV_KEY, info->key, WIRE_KEY_BYTES);
	for (uint32_t i = 0; i < info->naddrs && i < WIRE_ADDR_MAX; i++) {
		wire_put_uint(&o, TLV_ADDRESS, 2);
		wire_put_uint(&o, WIRE_ADDRESS_BYTES, 2);
		wire_put_address(&o, &info->addrs[i]);
	}
	total = wire_out_bytes(&o) + CRC_BYTES;
	if (!o.bad && total < INFO_MIN) {
		if (total + WIRE_TLV_HEAD < INFO_MIN)
			pad = INFO_MIN - total - WIRE_TLV_HEAD;
		wire_put_uint(&o, TLV_PAD, 2);
		wire_put_uint(&o, pad, 2);
		wire_put_zero(&o, pad);
		total += WIRE_TLV_HEAD + pad;
	}
	if (o.bad || info->naddrs > WIRE_ADDR_MAX)
		return 0;
	wire_put_uint(&length, total, 2);
	wire_put_uint(&o, crc32c(0, out, total - CRC_BYTES), CRC_BYTES);
	return o.bad ? 0 : total;
}

static int get_address(struct wire_cursor *value, struct wire_info *info)
{
	if (info->naddrs == WIRE_ADDR_MAX || wire_left(value) != WIRE_ADDRESS_BYTES)
		return -1;
	return wire_get_address(value, &info->addrs[info->naddrs++]);
}

static int get_key(struct wire_cursor *value, struct wire_info *info)
{
	if (info->has_key || wire_left(value) != WIRE_KEY_BYTES)
		return -1;
	info->has_key = true;
	wire_get_bytes(value, info->key, WIRE_KEY_BYTES);
	return 0;
}

static tcpx_status info_get_fields(struct wire_cursor *c, struct wire_info *info)
{
	struct wire_tlv tlv;
	int rc = 0;

	while (!rc && wire_get_tlv(c, &tlv)) {
		if (tlv.type == TLV_NAME)
			rc = wire_get_name(&tlv.value, info->name);
		else if (tlv.type == TLV_ADDRESS)
			rc = get_address(&tlv.value, info);
		else if (tlv.type == TLV_KEY)
			rc = get_key(&tlv.value, info);
		else if (tlv.type & WIRE_TLV_REQUIRED)
			return error_set(TCPX_ERR_VERSION, 0,
					 "connection info requires field %#x, unknown here",
					 tlv.type);
	}
	if (rc || c->bad)
		return error_set(TCPX_ERR_INVALID, 0, "connection info with a malformed field");
	return TCPX_OK;
}

tcpx_status wire_info_decode(const void *buf, size_t len, struct wire_info *out_info)
{
	struct wire_cursor c = wire_cursor_of(buf, len), tlvs;
	struct wire_info info = {0};
	uint8_t version, reserved;
	/* `secret` points into `buf`. A copy in a local variable would stay behind on the stack. */
	const uint8_t *fields, *secret;
	tcpx_status status;

	if (len < INFO_MIN || len > TCPX_INFO_MAX_BYTES || wire_get_u32(&c) != MAGIC)
		return error_set(TCPX_ERR_INVALID, 0, "%zu bytes are not a connection info", len);
	version = wire_get_u8(&c);
	reserved = wire_get_u8(&c);
	if (wire_get_u16(&c) != len)
		return error_set(TCPX_ERR_INVALID, 0,
				 "connection info is truncated or has trailing bytes: %zu bytes",
				 len);
	tlvs = wire_cursor_of((const uint8_t *)buf + len - CRC_BYTES, CRC_BYTES);
	if (wire_get_u32(&tlvs) != crc32c(0, buf, len - CRC_BYTES))
		return error_set(TCPX_ERR_INVALID, 0, "connection info with a wrong checksum");
	if (version != VERSION)
		return error_set(TCPX_ERR_VERSION, 0, "connection info of version %u, ours is %u",
				 version, VERSION);
	wire_get_bytes(&c, info.uuid, WIRE_UUID_BYTES);
	wire_get_bytes(&c, info.incarnation, WIRE_UUID_BYTES);
	wire_get_bytes(&c, info.reserved, WIRE_UUID_BYTES);
	secret = wire_take(&c, WIRE_SECRET_BYTES);
	fields = wire_take(&c, len - FIXED_BYTES - CRC_BYTES);
	tlvs = wire_cursor_of(fields, len - FIXED_BYTES - CRC_BYTES);
	status = info_get_fields(&tlvs, &info);
	if (status)
		return status;
	if (reserved)
		return error_set(TCPX_ERR_INVALID, 0, "connection info with reserved bits set");
	*out_info = info;
	memcpy(out_info->secret, secret, WIRE_SECRET_BYTES);
	return TCPX_OK;
}
