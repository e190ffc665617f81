/* SPDX-License-Identifier: Apache-2.0 */
/* The tables behind a frame's header. */
#ifndef ENGINE_LINK_TX_TABLE_H
#define ENGINE_LINK_TX_TABLE_H

#include "core/link.h"

/* At most FRAME_TABLE_MAX bytes each, returned. The pieces of the peer's memory that the frame
 * concerns; by reference also those of ours that it lies in, by the regions' numbers. */
uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out);
uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out);

#endif
