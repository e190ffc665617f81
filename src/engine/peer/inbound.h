/* SPDX-License-Identifier: Apache-2.0 */
/* Peers that dialled us: how many may be, how many of one source may be half-open, and how many of
 * the dead are remembered. Control thread, but for the session's init. */
#ifndef ENGINE_PEER_INBOUND_H
#define ENGINE_PEER_INBOUND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/list.h"

struct engine_peer;
struct engine_session;

struct session_inbound {
	uint32_t most, live; /* most: TCPX_MAX_PEERS */
	uint32_t nhalf, ndead;
	struct list_node half; /* the control link is proven, channels are missing */
	struct list_node dead; /* oldest first; their handles are out */
};

struct peer_inbound {
	bool live; /* it is counted */
	uint64_t source;
	struct list_node half, dead;
};

void inbound_init(struct session_inbound *inbound);

/* One more, from there. A false answer is to be told as ERR_BUSY. */
bool inbound_has_room(struct engine_session *session, const struct sockaddr_storage *from);
void inbound_begins(struct engine_peer *peer, const struct sockaddr_storage *from);
void inbound_is_up(struct engine_peer *peer); /* of any peer */
void inbound_ends(struct engine_peer *peer);  /* it died */
/* A dead one whose handle the application has: the oldest of too many becomes stale. */
void inbound_remember(struct engine_peer *peer);
void inbound_forget(struct engine_peer *peer); /* its handle is stale now */

#endif
