/* SPDX-License-Identifier: Apache-2.0 */
/* Reacts to interfaces that lose or regain their carrier, and gives up channels whose data is no
 * longer acknowledged. Control thread. */
#ifndef ENGINE_PEER_CARRIER_H
#define ENGINE_PEER_CARRIER_H

#include "engine/peer/peer_calls.h"
#include "engine/link/carrier_state.h"

/* Called when interface `index` lost its carrier, or regained it (`up`). On a loss, gives up a
 * peer's connections over the interface if the peer has a working channel that does not use it. On
 * a return, dials the lost channels of all peers at once; avoided rails are tried at the next
 * heartbeat. */
void carrier_changed(void *arg, unsigned index, const char *name, int up);
/* Called at each heartbeat: gives up channels whose data was not acknowledged for the silence
 * limit, if at least one channel is not stalled. path_mtu_in_vain() may end the peer
 * instead. */
void carrier_look(struct engine_peer *peer, int64_t now_ns);

#endif
