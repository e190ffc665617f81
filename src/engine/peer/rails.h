/* SPDX-License-Identifier: Apache-2.0 */
/* Rails over which the dialling side cannot reach the peer: they are avoided, logged once, and
 * tried again. Control thread. */
#ifndef ENGINE_PEER_RAILS_H
#define ENGINE_PEER_RAILS_H

#include "engine/peer/peer_route.h"

/* Called when a dial over the route `route` failed, or was slower than one over another route, or
 * when the route's rail has no carrier: the rail is avoided until it works again. Does nothing if
 * this process lacked memory or descriptors. */
void rail_failed(struct engine_peer *peer, const struct peer_route *route, tcpx_status status);
/* Called when a connection over rail `at` is up. If the rail was avoided, it is used again, and its
 * channels return to it. */
void rail_works(struct engine_peer *peer, uint32_t at);
/* Whether the rail may be dialled: it is not avoided, or its next attempt is due. */
bool rail_may_dial(const struct engine_peer *peer, uint32_t rail);
/* Called at each heartbeat: tries avoided rails again, and moves channels back to their own rails
 * that work again. */
void rails_look(struct engine_peer *peer, int64_t now_ns);
/* Called when an interface has its carrier again: makes the next attempt over each avoided rail due
 * at once. */
void rails_retry_soon(struct engine_peer *peer);
void rail_probe_cancel(struct engine_peer *peer);

#endif
