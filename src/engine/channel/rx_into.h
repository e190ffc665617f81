/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the destination of an arriving payload. */
#ifndef ENGINE_CHANNEL_RX_INTO_H
#define ENGINE_CHANNEL_RX_INTO_H

#include "engine/channel/chan_calls.h"

/* Called by the rx owner after core_rx_begin(): prepares the destination of the payload (rx->iov,
 * rx->stage), or sends the payload to scratch; if the chunk is refused, rx->verdict is the reason.
 * A READ_REQ is handed to serve_list() instead. `table` is the frame's table in the receive buffer.
 * If the returned status is negative, the channel ends; with ERR_PROTOCOL the peer ends, too. */
tcpx_status rx_into(struct engine_chan *chan, const uint8_t *table);

/* Releases the regions that the chunk is written to. */
void rx_release(struct chan_rx *rx);
/* Refuses the chunk: the rest of its payload goes to scratch, and `status` is the reason. */
void rx_refuse(struct chan_rx *rx, tcpx_status status);
/* Finds the region that a piece of a peer's WRITE or READ names, and checks range and `right`.
 * *out_region is in use until mem_region_access_end(). Logs a refusal at the level INFO, since only
 * this end knows which piece it was. */
tcpx_status rx_region_get(const struct engine_peer *peer, uint64_t key, uint64_t offset,
			  uint64_t length, uint32_t right, struct mem_region **out_region);

#endif
