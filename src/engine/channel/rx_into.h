/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the destination of an arriving payload. */
#ifndef ENGINE_CHANNEL_RX_INTO_H
#define ENGINE_CHANNEL_RX_INTO_H

#include "engine/channel/chan_calls.h"

/* Called by the rx owner after core_rx_begin(): fills rx->iov, or marks the payload for scratch and
 * sets rx->verdict. table: the frame's, in the buffer. A status < 0 ends the channel; ERR_PROTOCOL
 * ends the peer, too. */
tcpx_status rx_into(struct engine_chan *chan, const uint8_t *table);

/* Releases the regions that the chunk is written to. */
void rx_release(struct chan_rx *rx);
/* The rest of the payload goes to scratch, and the chunk counts as refused with status. */
void rx_refuse(struct chan_rx *rx, tcpx_status status);

#endif
