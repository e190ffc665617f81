/* SPDX-License-Identifier: Apache-2.0 */
/* Rails of the dialling side that do not reach the peer: avoided, logged once, tried again. Control
 * thread. */
#ifndef ENGINE_PEER_RAILS_H
#define ENGINE_PEER_RAILS_H

#include "engine/peer/peer_route.h"

/* A connection over that way failed, or lost against another one: its rail is avoided. */
void rail_failed(struct engine_peer *peer, const struct peer_way *way, tcpx_status status);
/* A connection over that rail is up: if the rail was avoided, its channels return to it. */
void rail_works(struct engine_peer *peer, uint32_t at);
/* Whether it is not avoided, or is due for another try. */
bool rail_tried(const struct engine_peer *peer, uint32_t rail);
/* Each beat: tries avoided rails again, and moves channels back to those that work. */
void rails_look(struct engine_peer *peer, int64_t now_ns);
/* An interface changed: avoided rails are tried again now. */
void rails_now(struct engine_peer *peer);
void rail_probe_cancel(struct engine_peer *peer);

#endif
