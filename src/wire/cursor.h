/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded cursors, the only way in which bytes of the wire are parsed or written. Everything is
 * little-endian. A step past the end sets bad, yields zero and moves nothing; the caller checks
 * bad once at the end. A length is compared with the remaining bytes, so a huge or wrapped one
 * cannot pass.
 */
#ifndef WIRE_CURSOR_H
#define WIRE_CURSOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VARINT_MAX 10 /* bytes of a 64-bit varint */

/* Reading. */
struct wire_cursor {
	const uint8_t *pos, *end;
	int bad;
};

static inline struct wire_cursor wire_cursor_of(const void *buf, size_t len)
{
	/* an empty payload is NULL, and even NULL + 0 is undefined */
	struct wire_cursor c = {buf, len ? (const uint8_t *)buf + len : buf, 0};

	return c;
}

static inline size_t wire_left(const struct wire_cursor *c)
{
	return (size_t)(c->end - c->pos);
}

/* The next len bytes, or NULL. */
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

/* Seven bits per byte, low ones first; the top bit says that more follow. Only the shortest
 * encoding of a number is valid. */
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

/* Writing. */
struct wire_out {
	uint8_t *start, *pos, *end;
	int bad;
};

static inline struct wire_out wire_out_of(void *buf, size_t cap)
{
	struct wire_out o = {buf, buf, (uint8_t *)buf + cap, 0};

	return o;
}

static inline size_t wire_out_bytes(const struct wire_out *o)
{
	return (size_t)(o->pos - o->start);
}

void wire_put_uint(struct wire_out *o, uint64_t value, unsigned bytes); /* 1 .. 8 */
void wire_put_bytes(struct wire_out *o, const void *bytes, size_t len);
void wire_put_zero(struct wire_out *o, size_t len);

/* Writes to memory with room for WIRE_VARINT_MAX bytes; returns the end. */
static inline uint8_t *wire_varint(uint8_t *p, uint64_t value)
{
	while (value > 0x7f) {
		*p++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

/* Maps signed numbers to unsigned ones, small magnitudes first. */
static inline uint64_t wire_zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t wire_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

#endif
