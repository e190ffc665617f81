/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes, decodes and checks frame headers and trailers. Layout: docs/design/wire-frames.md. */
#include "base/crc32c.h"
#include "base/error.h"
#include "wire/cursor.h"
#include "wire/frame_codec.h"

#define CRC_COVERS 60 /* bytes of the header that its crc covers */
#define FLAGS_KNOWN (FRAME_F_ACK | FRAME_F_STAGED | FRAME_F_REF | FRAME_F_MSG | FRAME_F_RESERVED)

enum { HAS_NONE = 0, IS_TYPE = 1, HAS_TABLE = 2, HAS_PAYLOAD = 4, IS_CONTROL = 8, MAY_REF = 16 };

/* What a frame of each type may have; 0 for an unknown type. MAY_REF allows either FRAME_F_REF or
 * FRAME_F_MSG. */
static const uint8_t shapes[256] = {
	[FRAME_DATA] = IS_TYPE | HAS_TABLE | HAS_PAYLOAD | MAY_REF,
	[FRAME_RDATA] = IS_TYPE | HAS_PAYLOAD | MAY_REF,
	[FRAME_SDATA] = IS_TYPE | HAS_PAYLOAD | MAY_REF,
	[FRAME_READ_REQ] = IS_TYPE | HAS_TABLE | MAY_REF,
	[FRAME_SEND] = IS_TYPE | HAS_PAYLOAD,
	[FRAME_RTS] = IS_TYPE,
	[FRAME_CTS] = IS_TYPE | MAY_REF,
	[FRAME_FINAL] = IS_TYPE,
	[FRAME_CANCEL] = IS_TYPE,
	[FRAME_NOTIFY] = IS_TYPE | HAS_PAYLOAD,
	[FRAME_NACK] = IS_TYPE,
	[FRAME_NOP] = IS_TYPE,
	[FRAME_ACK] = IS_TYPE,
	[FRAME_CREDIT] = IS_TYPE,
	[FRAME_STAGE_REQ] = IS_TYPE,
	[FRAME_HEARTBEAT] = IS_TYPE | IS_CONTROL,
	[FRAME_GOODBYE] = IS_TYPE | IS_CONTROL,
	[FRAME_FENCE] = IS_TYPE | IS_CONTROL | HAS_PAYLOAD,
	[FRAME_CHANNELS] = IS_TYPE | IS_CONTROL,
	[FRAME_LOCAL] = IS_TYPE | IS_CONTROL | HAS_PAYLOAD,
	[FRAME_PAUSE] = IS_TYPE | IS_CONTROL,
	[FRAME_RAILS] = IS_TYPE | IS_CONTROL | HAS_PAYLOAD,
	[FRAME_SHARE] = IS_TYPE | IS_CONTROL | HAS_PAYLOAD,
	[FRAME_COMM] = IS_TYPE | IS_CONTROL | HAS_PAYLOAD,
};

void wire_frame_encode(const struct frame *frame, uint8_t out[FRAME_HEADER_BYTES])
{
	struct wire_out o = wire_out_of(out, FRAME_HEADER_BYTES);

	wire_put_uint(&o, frame->type, 1);
	wire_put_uint(&o, FRAME_VERSION, 1);
	wire_put_uint(&o, frame->flags, 2);
	wire_put_uint(&o, frame->table_bytes, 4);
	wire_put_uint(&o, frame->payload_bytes, 4);
	wire_put_uint(&o, frame->epoch, 4);
	wire_put_uint(&o, frame->seq, 8);
	wire_put_uint(&o, frame->xfer, 8);
	wire_put_uint(&o, frame->linear, 8);
	wire_put_uint(&o, frame->key, 8);
	wire_put_uint(&o, frame->offset, 8);
	wire_put_uint(&o, frame->follows, 4);
	wire_put_uint(&o, crc32c(0, out, CRC_COVERS), 4);
}

/* Whether the frame is a chunk by reference. Its payload does not follow; the last part of its
 * table says where the payload is. */
static int is_ref(const struct frame *frame)
{
	return frame->flags & FRAME_F_REF && shapes[frame->type] & HAS_PAYLOAD;
}

/* Checks that the type is known, and that table and payload are not longer than the type allows.
 * For a chunk by reference, also checks the length of the table's last part (`follows`). */
static tcpx_status check_shape(const struct frame *frame)
{
	unsigned shape = shapes[frame->type];
	uint32_t table_max = 0, payload_max = 0;

	if (shape & HAS_TABLE)
		table_max = FRAME_TABLE_MAX;
	else if (is_ref(frame)) /* the table says only where the payload is */
		table_max = frame->follows < FRAME_TABLE_MAX ? frame->follows : FRAME_TABLE_MAX;

	if (!shape)
		return error_set(TCPX_ERR_PROTOCOL, 0, "frame of unknown type %u", frame->type);
	if (shape & HAS_PAYLOAD)
		payload_max = shape & IS_CONTROL ? FRAME_CONTROL_MAX
			      : is_ref(frame)	 ? FRAME_REF_MAX
						 : FRAME_PAYLOAD_MAX;
	if (frame->table_bytes > table_max)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "frame of type %u with a table of %u bytes, allowed: %u",
				 frame->type, frame->table_bytes, table_max);
	if (is_ref(frame) && (!frame->follows || frame->follows > frame->table_bytes))
		return error_set(
			TCPX_ERR_PROTOCOL, 0,
			"frame of type %u by reference with %u bytes of sources in a table of %u",
			frame->type, frame->follows, frame->table_bytes);
	if (frame->payload_bytes > payload_max)
		return error_set(TCPX_ERR_PROTOCOL, 0,
				 "frame of type %u with a payload of %u bytes, allowed: %u",
				 frame->type, frame->payload_bytes, payload_max);
	return TCPX_OK;
}

tcpx_status wire_frame_decode(const uint8_t in[FRAME_HEADER_BYTES], struct frame *out_frame)
{
	struct wire_cursor c = wire_cursor_of(in, FRAME_HEADER_BYTES);
	struct frame frame = {0};
	uint32_t crc;
	uint8_t version;
	tcpx_status status;

	frame.type = wire_get_u8(&c);
	version = wire_get_u8(&c);
	frame.flags = wire_get_u16(&c);
	frame.table_bytes = wire_get_u32(&c);
	frame.payload_bytes = wire_get_u32(&c);
	frame.epoch = wire_get_u32(&c);
	frame.seq = wire_get_u64(&c);
	frame.xfer = wire_get_u64(&c);
	frame.linear = wire_get_u64(&c);
	frame.key = wire_get_u64(&c);
	frame.offset = wire_get_u64(&c);
	frame.follows = wire_get_u32(&c);
	crc = wire_get_u32(&c);
	if (crc != crc32c(0, in, CRC_COVERS))
		return error_set(TCPX_ERR_CORRUPT, 0, "frame header with a wrong checksum");
	if (version != FRAME_VERSION)
		return error_set(TCPX_ERR_VERSION, 0, "frame of version %u, ours is %u", version,
				 FRAME_VERSION);
	if ((frame.follows && frame.type != FRAME_DATA && !is_ref(&frame)) ||
	    frame.flags & ~FLAGS_KNOWN ||
	    (frame.flags & (FRAME_F_REF | FRAME_F_MSG) && !(shapes[frame.type] & MAY_REF)) ||
	    (frame.flags & FRAME_F_REF && frame.flags & FRAME_F_MSG))
		return error_set(TCPX_ERR_PROTOCOL, 0, "frame of type %u with reserved bits set",
				 frame.type);
	status = check_shape(&frame);
	if (status)
		return status;
	*out_frame = frame;
	return TCPX_OK;
}

void wire_trailer_encode(const struct frame_trailer *trailer, uint8_t out[FRAME_TRAILER_BYTES])
{
	struct wire_out o = wire_out_of(out, FRAME_TRAILER_BYTES);

	wire_put_uint(&o, trailer->seq, 8);
	wire_put_uint(&o, trailer->status, 4);
	wire_put_uint(&o, trailer->reserved, 4);
}

tcpx_status wire_trailer_decode(const uint8_t in[FRAME_TRAILER_BYTES], uint64_t expected_seq,
				struct frame_trailer *out_trailer)
{
	struct wire_cursor c = wire_cursor_of(in, FRAME_TRAILER_BYTES);
	struct frame_trailer trailer;

	trailer.seq = wire_get_u64(&c);
	trailer.status = wire_get_u32(&c);
	trailer.reserved = wire_get_u32(&c);
	if (trailer.seq != expected_seq)
		return error_set(TCPX_ERR_PROTOCOL, 0, "trailer of sequence %llu after header %llu",
				 (unsigned long long)trailer.seq, (unsigned long long)expected_seq);
	if (trailer.status != FRAME_VALID && trailer.status != FRAME_ABORTED)
		return error_set(TCPX_ERR_PROTOCOL, 0, "trailer with status %u", trailer.status);
	*out_trailer = trailer;
	return TCPX_OK;
}
