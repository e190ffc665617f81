/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of inbound peers: how many there may be, how many of one source may be half-open, and how
 * many dead ones are remembered. Control thread, except for inbound_init(). */
#ifndef ENGINE_PEER_INBOUND_H
#define ENGINE_PEER_INBOUND_H

#include "engine/link/engine.h"

void inbound_init(struct session_inbound *inbound);

/* Whether another peer from that address is allowed. If not, the answer is ERR_BUSY. */
bool inbound_has_room(struct engine_session *session, const struct sockaddr_storage *from);
void inbound_begins(struct engine_peer *peer, const struct sockaddr_storage *from);
void inbound_is_up(struct engine_peer *peer); /* for any peer: it is up */
void inbound_ends(struct engine_peer *peer);  /* for any peer: it died */
/* Keeps a dead peer whose handle the application has. If there are too many, drops the oldest. */
void inbound_remember(struct engine_peer *peer);
void inbound_forget(struct engine_peer *peer); /* the peer's handle is stale now */

#endif
