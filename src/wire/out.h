/* SPDX-License-Identifier: Apache-2.0 */
/* Writes numbers and bytes in wire format into a buffer. The wire_put_ functions never write past
 * its end; wire_varint() leaves that check to its caller. The functions of cursor.h read this
 * format. */
#ifndef WIRE_OUT_H
#define WIRE_OUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VARINT_MAX 10 /* most bytes of a 64-bit varint */

/* A buffer that is being filled. `bad` is 1 after a write that did not fit; such a write does
 * nothing else. */
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

void wire_put_uint(struct wire_out *o, uint64_t value, unsigned bytes); /* `bytes` is 1 to 8 */
void wire_put_bytes(struct wire_out *o, const void *bytes, size_t len);
void wire_put_zero(struct wire_out *o, size_t len);

/* Writes a varint, which wire_get_varint reads, to memory with room for WIRE_VARINT_MAX bytes.
 * Returns the address after it. */
static inline uint8_t *wire_varint(uint8_t *p, uint64_t value)
{
	while (value > 0x7f) {
		*p++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*p++ = (uint8_t)value;
	return p;
}

/* Maps a signed number to an unsigned one, so that numbers near 0 have short varints: 0, -1, 1, -2
 * become 0, 1, 2, 3. */
static inline uint64_t wire_zigzag(int64_t value)
{
	return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

static inline int64_t wire_unzigzag(uint64_t value)
{
	return (int64_t)(value >> 1 ^ (0 - (value & 1)));
}

#endif
