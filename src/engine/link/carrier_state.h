/* SPDX-License-Identifier: Apache-2.0 */
/* Which interfaces have a carrier now. Control thread. */
#ifndef ENGINE_LINK_CARRIER_STATE_H
#define ENGINE_LINK_CARRIER_STATE_H

#include "engine/link/engine.h"

uint32_t carrier_iface(int fd); /* the value of engine_chan.iface for a socket */
/* The number of a rail whose interface has a carrier: `rail`, or the first one after it that has,
 * counted on beyond the last rail (modulo the number of rails). If none has, `rail`. */
uint32_t carrier_rail(const struct engine_session *session, uint32_t rail);
/* Whether the rail's interface has no carrier. False as well if the rail's address is the
 * wildcard, and if no other rail could replace it: there is only one, or the option `bind` names
 * none. */
bool carrier_lost(const struct engine_session *session, uint32_t rail);

#endif
