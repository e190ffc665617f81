/* SPDX-License-Identifier: Apache-2.0 */
/* Encoding of frame headers and trailers. Layout: docs/design/wire-frames.md. */
#ifndef WIRE_FRAME_CODEC_H
#define WIRE_FRAME_CODEC_H

#include "base/frame.h"
#include <tcpx/types.h>

/* Writes a header of FRAME_HEADER_BYTES, including its crc. */
void wire_frame_encode(const struct frame *frame, uint8_t out[FRAME_HEADER_BYTES]);

/* Decodes a header. Returns ERR_CORRUPT if the crc is wrong, ERR_VERSION for another frame version,
 * ERR_PROTOCOL if the type or a flag is unknown, or if the type does not allow a flag, `follows`,
 * or the length of table or payload. Control frames have at most FRAME_CONTROL_MAX bytes of
 * payload. */
tcpx_status wire_frame_decode(const uint8_t in[FRAME_HEADER_BYTES], struct frame *out_frame);

void wire_trailer_encode(const struct frame_trailer *trailer, uint8_t out[FRAME_TRAILER_BYTES]);
/* Decodes a trailer. Returns ERR_PROTOCOL if the status is unknown, or the sequence is not
 * expected_seq. */
tcpx_status wire_trailer_decode(const uint8_t in[FRAME_TRAILER_BYTES], uint64_t expected_seq,
				struct frame_trailer *out_trailer);

#endif
