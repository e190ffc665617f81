/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which interfaces have a carrier. For the control thread. */
#ifndef ENGINE_LINK_CARRIER_STATE_H
#define ENGINE_LINK_CARRIER_STATE_H

#include "engine/link/engine.h"

/* Returns the index of the interface of the socket's local address, or 0 if no interface has it. */
uint32_t carrier_iface(int fd);
/* Returns the first rail whose interface has a carrier, or `rail` if there is none. The search
 * begins at `rail` and goes in a circle: the result may exceed the number of rails, and must be
 * taken modulo that number. */
uint32_t carrier_rail(const struct engine_session *session, uint32_t rail);
/* Returns true if the rail's interface has no carrier. Returns false if it has one, if the rail's
 * address is the wildcard, or if no other rail could replace this one: there is only one rail, or
 * the option `bind` names none. */
bool carrier_lost(const struct engine_session *session, uint32_t rail);

#endif
