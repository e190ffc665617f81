/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that lose their carrier, and rails whose network fails elsewhere. Control thread. */
#ifndef ENGINE_PEER_CARRIER_H
#define ENGINE_PEER_CARRIER_H

#include "engine/peer/peer_calls.h"
#include "engine/link/carrier_state.h"

/* Called when an interface lost its carrier, or got it back (`up`). Lost: gives up the
 * connections over it, if a channel over another interface works. Back: dials lost channels at
 * once; avoided rails are tried at the next heartbeat. */
void carrier_changed(void *arg, unsigned index, const char *name, int up);
/* Called at each heartbeat: gives up channels whose data was not acknowledged for the silence
 * limit, if another channel is acknowledged. */
void carrier_look(struct engine_peer *peer, int64_t now_ns);

#endif
