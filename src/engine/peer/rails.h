/* SPDX-License-Identifier: Apache-2.0 */
/* Rails of the dialling side that do not reach the peer: avoided, logged once, tried again. Control
 * thread. */
#ifndef ENGINE_PEER_RAILS_H
#define ENGINE_PEER_RAILS_H

#include "engine/peer/peer_route.h"

/* A connection over that way failed, or was slower than another one: its rail is avoided. */
void rail_failed(struct engine_peer *peer, const struct peer_way *way, tcpx_status status);
/* A connection over that rail is up. If the rail was avoided, its channels return to it. */
void rail_works(struct engine_peer *peer, uint32_t at);
/* Whether the rail may be dialled: it is not avoided, or another attempt is due. */
bool rail_tried(const struct engine_peer *peer, uint32_t rail);
/* At each heartbeat: tries avoided rails again, and moves channels back to rails that work
 * again. */
void rails_look(struct engine_peer *peer, int64_t now_ns);
/* An interface changed: avoided rails are tried again now. */
void rails_now(struct engine_peer *peer);
void rail_probe_cancel(struct engine_peer *peer);

#endif
