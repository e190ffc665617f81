/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of frame headers and trailers. Layout: docs/design/wire-frames.md. */
#ifndef WIRE_FRAME_CODEC_H
#define WIRE_FRAME_CODEC_H

#include "base/frame.h"
#include <tcpx/types.h>

/* Writes a header of FRAME_HEADER_BYTES, including its crc. */
void wire_frame_encode(const struct frame *frame, uint8_t out[FRAME_HEADER_BYTES]);

/* Reads a header. ERR_CORRUPT: wrong crc; ERR_VERSION: another frame version; ERR_PROTOCOL: unknown
 * type, unknown flags, or a table or payload that the type does not allow or that is longer than it
 * may be (control types: FRAME_CONTROL_MAX). */
tcpx_status wire_frame_decode(const uint8_t in[FRAME_HEADER_BYTES], struct frame *out_frame);

void wire_trailer_encode(const struct frame_trailer *trailer, uint8_t out[FRAME_TRAILER_BYTES]);
/* Reads a trailer. ERR_PROTOCOL: an unknown status, or a sequence other than expected_seq. */
tcpx_status wire_trailer_decode(const uint8_t in[FRAME_TRAILER_BYTES], uint64_t expected_seq,
				struct frame_trailer *out_trailer);

#endif
