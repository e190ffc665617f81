/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the table between a frame's header and its payload: where each piece of the payload is
 * written to or read from. */
#include "engine/link/tx_table.h"

#include "mem/region.h"
#include "wire/frame_codec.h"
#include "wire/table.h"

uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out)
{
	uint64_t bytes =
		tx->frame.type == FRAME_READ_REQ ? tx->frame.offset : tx->frame.payload_bytes;
	struct wire_table_writer writer;
	struct core_cursor at = tx->at;
	struct core_piece piece;

	wire_table_begin(&writer, out, FRAME_TABLE_MAX);
	while (core_piece_next(tx->segs, &at, &bytes, &piece))
		wire_table_put(&writer, tx->segs->remote[piece.seg->remote],
			       piece.seg->remote_off + piece.off, piece.length);
	return (uint32_t)wire_table_end(&writer);
}

uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out)
{
	uint64_t bytes = tx->frame.payload_bytes;
	struct wire_table_writer writer;
	struct core_cursor at = tx->at;
	struct core_piece piece;

	wire_table_begin(&writer, out, FRAME_TABLE_MAX);
	while (core_piece_next(tx->segs, &at, &bytes, &piece)) {
		const struct mem_region *region = tx->segs->local[piece.seg->local];

		wire_table_put(&writer, region->serial, piece.seg->local_off + piece.off,
			       piece.length);
	}
	return (uint32_t)wire_table_end(&writer);
}
