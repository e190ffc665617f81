/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of inbound peers: how many there may be, how many from one source may be half-open
 * (control connection authenticated, channels missing), and how many dead ones are kept. Control
 * thread, except for inbound_init(). */
#ifndef ENGINE_PEER_INBOUND_H
#define ENGINE_PEER_INBOUND_H

#include "engine/link/engine.h"

void inbound_init(struct session_inbound *inbound);

/* Whether another peer from that address is allowed. If not, its dial is answered with ERR_BUSY. */
bool inbound_has_room(struct engine_session *session, const struct sockaddr_storage *from);
/* its control connection is accepted */
void inbound_begins(struct engine_peer *peer, const struct sockaddr_storage *from);
void inbound_is_up(struct engine_peer *peer); /* called for any peer when it is up */
void inbound_ends(struct engine_peer *peer);  /* called for any peer when it died */
/* Keeps a dead inbound peer whose handle the application has. If too many are kept, forgets the
 * oldest. */
void inbound_remember(struct engine_peer *peer);
void inbound_forget(struct engine_peer *peer); /* called when the peer's handle becomes stale */

#endif
