/* SPDX-License-Identifier: Apache-2.0 */
/* Serves READs of the peer. */
#ifndef ENGINE_CHANNEL_SERVE_H
#define ENGINE_CHANNEL_SERVE_H

#include "engine/channel/chan_calls.h"

/* Called by the rx owner, no lock held: a READ_REQ has arrived. Starts to send the pieces in its
 * table, or queues a refusal. table: the frame's, in the buffer. ERR_PROTOCOL: the list is
 * malformed, and the peer ends. */
tcpx_status serve_list(struct engine_chan *chan, const uint8_t *table);

/* Frees a response that the core does not use any more, with its references to regions. */
void served_free(struct core_push *push);
/* Whether the response reads from the region. The caller holds link.lock. */
bool served_uses(const struct core_push *push, const struct mem_region *region);

#endif
