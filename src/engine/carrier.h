/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces that lose their carrier, and rails that are dead further on. Control thread. */
#ifndef ENGINE_CARRIER_H
#define ENGINE_CARRIER_H

#include "engine/engine.h"

void carrier_changed(void *arg, unsigned index, const char *name, int up);
uint32_t carrier_iface(int fd); /* what engine_chan.iface says of a socket */
/* The rail of that number, or the next one that has a carrier. */
uint32_t carrier_rail(const struct engine_session *session, uint32_t rail);
bool carrier_lost(const struct engine_session *session, uint32_t rail);
/* Each beat: a channel over a rail that is dead further on is given up, where another one lives. */
void carrier_look(struct engine_peer *peer, int64_t now_ns);

#endif
