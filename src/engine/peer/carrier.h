/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that lose their carrier, and rails that are dead further on. Control thread. */
#ifndef ENGINE_PEER_CARRIER_H
#define ENGINE_PEER_CARRIER_H

#include "engine/engine.h"
#include "engine/link/carrier_state.h"

void carrier_changed(void *arg, unsigned index, const char *name, int up);
/* Each beat: a channel over a rail that is dead further on is given up, where another one lives. */
void carrier_look(struct engine_peer *peer, int64_t now_ns);

#endif
