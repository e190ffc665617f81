/* SPDX-License-Identifier: Apache-2.0 */
/* Encodes the tables that follow a frame's header. */
#ifndef ENGINE_LINK_TX_TABLE_H
#define ENGINE_LINK_TX_TABLE_H

#include "core/link.h"

/* Both return the bytes written, at most FRAME_TABLE_MAX. The first one encodes the pieces of the
 * peer's memory; the second one, for frames by reference, those of ours, by the numbers of the
 * regions. */
uint32_t tx_table_encode(const struct core_tx *tx, uint8_t *out);
uint32_t tx_table_sources(const struct core_tx *tx, uint8_t *out);

#endif
