/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that lose their carrier, and rails whose network fails elsewhere. Control thread. */
#ifndef ENGINE_PEER_CARRIER_H
#define ENGINE_PEER_CARRIER_H

#include "engine/peer/peer_calls.h"
#include "engine/link/carrier_state.h"

void carrier_changed(void *arg, unsigned index, const char *name, int up);
/* At each heartbeat: gives up channels whose data is not acknowledged, if another channel still
 * works. */
void carrier_look(struct engine_peer *peer, int64_t now_ns);

#endif
