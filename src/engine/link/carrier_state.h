/* SPDX-License-Identifier: Apache-2.0 */
/* Checks which interfaces have a carrier. For the control thread. */
#ifndef ENGINE_LINK_CARRIER_STATE_H
#define ENGINE_LINK_CARRIER_STATE_H

#include "engine/link/engine.h"

/* Returns the index of the interface that has the socket's local address. Returns 0 if none has it,
 * or if the socket is no IP socket. */
uint32_t carrier_iface(int fd);
/* Returns the first rail for which carrier_lost() is false, or `rail` if all are lost. The search
 * begins at `rail` and goes in a circle: the result may exceed the number of rails, and must be
 * taken modulo that number. */
uint32_t carrier_rail(const struct engine_session *session, uint32_t rail);
/* Returns true if no interface that is up and has a carrier has the rail's address. Returns false
 * if one has it, if the address is the wildcard, or if no other rail could replace this one: there
 * is only one rail, or the option `bind` names none. */
bool carrier_lost(const struct engine_session *session, uint32_t rail);

#endif
