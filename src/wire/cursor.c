/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of out.h, which write bytes for the wire to a buffer of fixed size. */
#include "wire/cursor.h"

/* Reserves the next `len` bytes of the buffer and returns their address. If they do not fit,
 * returns NULL and sets o->bad. */
static uint8_t *reserve_bytes(struct wire_out *o, size_t len)
{
	uint8_t *p = o->pos;

	if (len > (size_t)(o->end - o->pos)) {
		o->bad = 1;
		return NULL;
	}
	o->pos += len;
	return p;
}

void wire_put_uint(struct wire_out *o, uint64_t value, unsigned bytes)
{
	uint8_t *p = reserve_bytes(o, bytes);

	for (unsigned i = 0; p && i < bytes; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

void wire_put_bytes(struct wire_out *o, const void *bytes, size_t len)
{
	uint8_t *p = reserve_bytes(o, len);

	if (p && len)
		memcpy(p, bytes, len);
}

void wire_put_zero(struct wire_out *o, size_t len)
{
	uint8_t *p = reserve_bytes(o, len);

	if (p && len)
		memset(p, 0, len);
}
