/* SPDX-License-Identifier: Apache-2.0 */
/* Serves READs of the peer. */
#ifndef ENGINE_CHANNEL_SERVE_H
#define ENGINE_CHANNEL_SERVE_H

#include "engine/channel/chan_calls.h"

/* Called by the rx owner when a READ_REQ has arrived, with no lock held. `table` is the frame's
 * table in the receive buffer. Starts to send the pieces that the table lists, or queues a refusal;
 * returns OK in both cases. Returns ERR_PROTOCOL, which ends the peer, for a malformed table. */
tcpx_status serve_list(struct engine_chan *chan, const uint8_t *table);

/* Frees a read response that the core no longer uses, and releases its regions. */
void served_free(struct core_resp *resp);
/* Whether the read response reads from the region. The caller holds link.lock. */
bool served_uses(const struct core_resp *resp, const struct mem_region *region);

#endif
