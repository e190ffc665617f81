/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a connection goes. Control thread unless said otherwise. */
#ifndef ENGINE_PEER_ROUTE_H
#define ENGINE_PEER_ROUTE_H

#include "engine/engine.h"

void peer_addr_from_wire(const struct wire_address *from, struct sockaddr_storage *out);
void peer_addr_to_wire(const struct sockaddr_storage *from, struct wire_address *out);
enum peer_route {
	PEER_ROUTE_SAME,   /* where the control link goes: it is known to work */
	PEER_ROUTE_DIRECT, /* in the subnet of the rail */
	PEER_ROUTE_GUESS,  /* another address of the peer, which may lead nowhere */
};
/* Fills the remote and the local end of a connection over the rail of that number. */
enum peer_route peer_route_over(const struct engine_peer *peer, uint32_t rail,
				struct ctl_dial_opts *opts);
/* The same for one address. */
void peer_route_to(const struct engine_peer *peer, const struct sockaddr_storage *remote,
		   struct ctl_dial_opts *opts);
/* The peer's address is one of this host's. */
bool peer_route_here(const struct engine_peer *peer);
/* Where to dial the peer of an info. Any thread. */
void peer_route_targets(struct engine_peer *peer, const struct wire_info *info);

#endif
