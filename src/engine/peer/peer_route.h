/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of connections to a peer. Control thread unless it says otherwise. */
#ifndef ENGINE_PEER_PEER_ROUTE_H
#define ENGINE_PEER_PEER_ROUTE_H

#include "ctl/race.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

struct wire_info;

void peer_addr_from_wire(const struct wire_address *from, struct sockaddr_storage *out);
void peer_addr_to_wire(const struct sockaddr_storage *from, struct wire_address *out);

#define PEER_WAYS CTL_RACE_WAYS
#define PEER_RAIL_NONE UINT32_MAX

/* A way to the peer. local without a family: the kernel chooses. */
struct peer_way {
	struct sockaddr_storage remote, local;
	uint32_t rail; /* the rail of local; or PEER_RAIL_NONE */
};

/* Fills in both ends of a connection that takes this way. */
void peer_route_opts(const struct peer_way *way, struct ctl_dial_opts *opts);
/* Fills in the authentication of a further connection of a link; opts already has its ends. */
void peer_route_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role);
/* Each of these fills up to PEER_WAYS ways, the best first, and returns how many.
 * The first control link: the peer's addresses in their order, from the source that the routes
 * choose among the rails. */
unsigned peer_route_first(const struct engine_peer *peer, struct peer_way *ways);
/* A channel: its own rail unless that is dead, then the way of the control link, which is known to
 * work; if the peer is up, the other rails, too. */
unsigned peer_route_channel(const struct engine_peer *peer, uint32_t channel,
			    struct peer_way *ways);
/* A control link that was lost: over each rail, `first` first. */
unsigned peer_route_again(const struct engine_peer *peer, uint32_t first, struct peer_way *ways);
/* The rail that a channel belongs to. */
uint32_t peer_route_home(const struct engine_peer *peer, uint32_t channel);
/* The way over a rail. False: the rail has no address, or the peer has none of its family. */
bool peer_route_over(const struct engine_peer *peer, uint32_t rail, struct peer_way *out_way);
/* Takes the addresses to dial from an info. Any thread. */
void peer_route_targets(struct engine_peer *peer, const struct wire_info *info);

#endif
