/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the tables between a frame's header and its payload. */
#ifndef ENGINE_LINK_TX_TABLE_H
#define ENGINE_LINK_TX_TABLE_H

#include "core/link.h"

/* Both encode the pieces of the frame and return the number of bytes written, at most
 * FRAME_TABLE_MAX. encode: where the pieces are in the peer's memory. sources, for frames by
 * reference: where they are in memory of this side, with the serial numbers of the regions. */
uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out);
uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out);

#endif
