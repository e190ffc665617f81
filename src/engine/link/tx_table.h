/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the table between a frame's header and its payload. */
#ifndef ENGINE_LINK_TX_TABLE_H
#define ENGINE_LINK_TX_TABLE_H

#include "core/link.h"

/* Both functions encode the pieces of the frame and return the number of bytes written, at most
 * FRAME_TABLE_MAX. tx_table_encode() encodes where the pieces are in the peer's memory.
 * tx_table_sources(), for frames by reference, encodes where they are in this side's memory, by the
 * serial numbers of the regions. */
uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out);
uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out);

#endif
