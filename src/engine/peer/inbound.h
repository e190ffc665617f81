/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of inbound peers: how many there may be, how many from one source may be half-open
 * (control connection authenticated, channels missing), and how many dead ones are kept. Control
 * thread, except for inbound_init(). */
#ifndef ENGINE_PEER_INBOUND_H
#define ENGINE_PEER_INBOUND_H

#include "engine/link/engine.h"

void inbound_init(struct session_inbound *inbound);

/* Whether another peer may connect from that address, given the limits on live peers and on
 * half-open peers of one source. If not, the caller answers the dial with ERR_BUSY. */
bool inbound_has_room(struct engine_session *session, const struct sockaddr_storage *from);
/* called when the control connection of a new peer is accepted: counts it as live and half-open */
void inbound_begins(struct engine_peer *peer, const struct sockaddr_storage *from);
/* called for any peer when it comes up: the peer is no longer counted as half-open */
void inbound_is_up(struct engine_peer *peer);
/* called for any peer when it dies: the peer is no longer counted */
void inbound_ends(struct engine_peer *peer);
/* Called for a dead peer that the application may still ask for: keeps the peer if it is inbound.
 * If more than 64 dead peers are kept, forgets the oldest. */
void inbound_remember(struct engine_peer *peer);
/* called when the peer's handle becomes stale: the dead peer is no longer kept */
void inbound_forget(struct engine_peer *peer);

#endif
