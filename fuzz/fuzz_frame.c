/* SPDX-License-Identifier: Apache-2.0 */
/* Frame headers and trailers: what decodes is what would be encoded, and within limits. */
#include "target.h"

#include "wire/frame_codec.h"

static void check_header(const uint8_t bytes[FRAME_HEADER_BYTES])
{
	uint8_t again[FRAME_HEADER_BYTES];
	struct frame frame = {.type = 0xee};

	if (wire_frame_decode(bytes, &frame)) {
		FUZZ_CHECK(frame.type == 0xee);
		return;
	}
	FUZZ_CHECK(frame.table_bytes <= FRAME_TABLE_MAX);
	FUZZ_CHECK(frame.payload_bytes <=
		   (frame.type > FRAME_DATA_LAST ? FRAME_CONTROL_MAX : FRAME_PAYLOAD_MAX));
	wire_frame_encode(&frame, again);
	FUZZ_CHECK(!memcmp(bytes, again, sizeof(again)));
}

static void check_trailer(const uint8_t bytes[FRAME_TRAILER_BYTES])
{
	uint8_t again[FRAME_TRAILER_BYTES];
	struct frame_trailer trailer;
	uint64_t seq = 0;

	for (int i = 0; i < 8; i++)
		seq |= (uint64_t)bytes[i] << (8 * i);
	FUZZ_CHECK(wire_trailer_decode(bytes, ~seq, &trailer));
	if (wire_trailer_decode(bytes, seq, &trailer))
		return;
	FUZZ_CHECK(trailer.status == FRAME_VALID || trailer.status == FRAME_ABORTED);
	wire_trailer_encode(&trailer, again);
	FUZZ_CHECK(!memcmp(bytes, again, sizeof(again)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t bytes[FRAME_HEADER_BYTES] = {0};

	memcpy(bytes, data, size < sizeof(bytes) ? size : sizeof(bytes));
	check_header(bytes);
	fuzz_fix_crc(bytes, 60);
	check_header(bytes);
	check_trailer(bytes);
	return 0;
}
