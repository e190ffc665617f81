/* SPDX-License-Identifier: Apache-2.0 */
/* Rails of the dialling side that lead nowhere: left out, said once, tried again. Control
 * thread. */
#ifndef ENGINE_PEER_RAILS_H
#define ENGINE_PEER_RAILS_H

#include "engine/peer/peer_route.h"

/* A connection by that way failed, or was slower than another one: its rail is left out. */
void rail_failed(struct engine_peer *peer, const struct peer_way *way, tcpx_status status);
/* A connection by that rail stands: where it was left out, its channels come back to it. */
void rail_works(struct engine_peer *peer, uint32_t at);
/* It is not left out, or is to be tried again. */
bool rail_tried(const struct engine_peer *peer, uint32_t rail);
/* Each beat: a rail that was left out is tried again, and gets its channels back. */
void rails_look(struct engine_peer *peer, int64_t now_ns);
/* Something changed on an interface: what was left out is tried again now. */
void rails_now(struct engine_peer *peer);
void rail_probe_cancel(struct engine_peer *peer);

#endif
