/* SPDX-License-Identifier: Apache-2.0 */
/* The tables behind a frame's header: where its payload goes, and where it lies. */
#include "engine/tx_table.h"

#include "mem/region.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out)
{
	uint64_t bytes =
		tx->frame.type == FRAME_READ_REQ ? tx->frame.offset : tx->frame.payload_bytes;
	struct wire_table_writer writer;
	struct core_cursor at = tx->at;

	wire_table_begin(&writer, out, FRAME_TABLE_MAX);
	while (bytes) {
		const struct core_seg *seg = &tx->prog->seg[at.seg];
		uint64_t left = core_seg_length(tx->prog, at.seg) - at.off;
		uint64_t take = left < bytes ? left : bytes;

		wire_table_put(&writer, tx->prog->remote[seg->remote], seg->remote_off + at.off,
			       take);
		bytes -= take;
		at.seg++;
		at.off = 0;
	}
	return (uint32_t)wire_table_end(&writer);
}

uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out)
{
	uint64_t bytes = tx->frame.payload_bytes;
	struct wire_table_writer writer;
	struct core_cursor at = tx->at;

	wire_table_begin(&writer, out, FRAME_TABLE_MAX);
	while (bytes) {
		const struct core_seg *seg = &tx->prog->seg[at.seg];
		const struct mem_region *region = tx->prog->local[seg->local];
		uint64_t left = core_seg_length(tx->prog, at.seg) - at.off;
		uint64_t take = left < bytes ? left : bytes;

		wire_table_put(&writer, region->serial, seg->local_off + at.off, take);
		bytes -= take;
		at.seg++;
		at.off = 0;
	}
	return (uint32_t)wire_table_end(&writer);
}
