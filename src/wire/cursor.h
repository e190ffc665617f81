/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cursors that read bytes from the wire without leaving the buffer. All numbers are little-endian.
 * A read past the end sets `bad`, returns 0 and, except for a varint, does not move the cursor. The
 * caller checks `bad` once, after all reads. A length is compared with the number of bytes left, so
 * that a huge length cannot wrap.
 */
#ifndef WIRE_CURSOR_H
#define WIRE_CURSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "wire/out.h"

/* A cursor for reading. `bad` is 1 after a read past the end or of a malformed value. */
struct wire_cursor {
	const uint8_t *pos, *end;
	int bad;
};

static inline struct wire_cursor wire_cursor_of(const void *buf, size_t len)
{
	/* `buf` is NULL for an empty payload, and NULL + 0 is undefined in C */
	struct wire_cursor c = {buf, len ? (const uint8_t *)buf + len : buf, 0};

	return c;
}

static inline size_t wire_left(const struct wire_cursor *c)
{
	return (size_t)(c->end - c->pos);
}

/* Moves past the next `len` bytes and returns their address. Returns NULL if fewer are left. */
static inline const uint8_t *wire_take(struct wire_cursor *c, size_t len)
{
	const uint8_t *p = c->pos;

	if (len > wire_left(c)) {
		c->bad = 1;
		return NULL;
	}
	c->pos += len;
	return p;
}

static inline uint64_t wire_get_uint(struct wire_cursor *c, unsigned bytes)
{
	const uint8_t *p = wire_take(c, bytes);
	uint64_t value = 0;

	if (!p)
		return 0;
	for (unsigned i = 0; i < bytes; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

static inline uint8_t wire_get_u8(struct wire_cursor *c)
{
	return (uint8_t)wire_get_uint(c, 1);
}

static inline uint16_t wire_get_u16(struct wire_cursor *c)
{
	return (uint16_t)wire_get_uint(c, 2);
}

static inline uint32_t wire_get_u32(struct wire_cursor *c)
{
	return (uint32_t)wire_get_uint(c, 4);
}

static inline uint64_t wire_get_u64(struct wire_cursor *c)
{
	return wire_get_uint(c, 8);
}

static inline void wire_get_bytes(struct wire_cursor *c, void *out, size_t len)
{
	const uint8_t *p = wire_take(c, len);

	if (p)
		memcpy(out, p, len);
	else
		memset(out, 0, len);
}

/* Reads a varint: seven bits of a number per byte, the lowest first. The top bit of a byte says
 * that more bytes follow. An encoding that is longer than necessary makes the cursor bad. */
static inline uint64_t wire_get_varint(struct wire_cursor *c)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 64 && c->pos < c->end; shift += 7) {
		uint8_t byte = *c->pos++;

		if (shift == 63 && byte > 1)
			break;
		value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (!byte && shift)
			break;
		return value;
	}
	c->bad = 1;
	return 0;
}

#endif
