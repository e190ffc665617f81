/* SPDX-License-Identifier: Apache-2.0 */
/* Type-length-value fields of handshake messages and connection infos. A field is a u16 type, a u16
 * length, and the value. A reader skips a field of unknown type, but refuses the message if the
 * type has the bit WIRE_TLV_REQUIRED. */
#ifndef WIRE_TLV_H
#define WIRE_TLV_H

#include <tcpx/types.h>

#include "wire/cursor.h"

#define WIRE_TLV_HEAD 4
#define WIRE_TLV_REQUIRED                                                                          \
	0x8000u /* bit of a type: a reader that does not know the type refuses the message */

struct wire_tlv {
	uint16_t type;
	struct wire_cursor value;
};

static inline void wire_put_tlv(struct wire_out *o, uint16_t type, const void *value, uint16_t len)
{
	wire_put_uint(o, type, 2);
	wire_put_uint(o, len, 2);
	wire_put_bytes(o, value, len);
}

/* Reads a field. Returns 1, or 0 at the end. Also returns 0, and sets c->bad, if the field is
 * truncated. */
static inline int wire_get_tlv(struct wire_cursor *c, struct wire_tlv *out)
{
	const uint8_t *value;
	uint16_t len;

	if (!wire_left(c))
		return 0;
	out->type = wire_get_u16(c);
	len = wire_get_u16(c);
	value = wire_take(c, len);
	if (c->bad)
		return 0;
	out->value = wire_cursor_of(value, len);
	return 1;
}

/* Reads the name of a session into `name`. Returns 0. Returns -1 if `name` is not "" (this is the
 * message's second name), or if the name read is empty, too long or contains a NUL. */
static inline int wire_get_name(struct wire_cursor *value, char name[TCPX_NAME_MAX + 1])
{
	size_t len = wire_left(value);

	if (*name || !len || len > TCPX_NAME_MAX || memchr(value->pos, 0, len))
		return -1;
	wire_get_bytes(value, name, len);
	return 0;
}

#endif
