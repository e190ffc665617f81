/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of connections to a peer. Control thread unless a comment says otherwise. */
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

/* A way to the peer: the two addresses of a connection. If `local` has no family, the kernel
 * chooses the source. */
struct peer_way {
	struct sockaddr_storage remote, local;
	uint32_t rail; /* the rail of `local`; PEER_RAIL_NONE: none */
};

/* Fills in the addresses and source ports of a dial. */
void peer_route_opts(const struct peer_way *way, struct ctl_dial_opts *opts);
/* Fills in how a further connection of a link authenticates, and its deadline. The caller has set
 * the addresses of `opts`. */
void peer_route_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role);
/* Fills in up to PEER_WAYS ways for the first control connection, best first, and returns how
 * many: the peer's addresses in their order, each from the source address that the routing table
 * chooses among the rails. */
unsigned peer_route_first(const struct engine_peer *peer, struct peer_way *ways);
/* Fills in up to PEER_WAYS ways for a channel, best first, and returns how many: its own rail;
 * then the way of the control connection, which is known to work; if the peer is up, then the
 * other rails. Leaves out rails without a carrier and avoided ones, but not an avoided own rail
 * if the peer is up. */
unsigned peer_route_channel(const struct engine_peer *peer, uint32_t channel,
			    struct peer_way *ways);
/* Fills in up to PEER_WAYS ways for a control connection that was lost, and returns how many:
 * over all rails that have a carrier, beginning with rail `first`, and last the lost way. */
unsigned peer_route_again(const struct engine_peer *peer, uint32_t first, struct peer_way *ways);
/* The rail that a channel belongs to: it is tried first, and the channel returns to it. */
uint32_t peer_route_home(const struct engine_peer *peer, uint32_t channel);
/* Sets *out_way to the way over one rail. False: no option names the rails, the rail is a
 * wildcard, or the peer has no address that fits the rail's. */
bool peer_route_over(const struct engine_peer *peer, uint32_t rail, struct peer_way *out_way);
/* Sets the addresses to dial to those of an info. If the peer is on another host, leaves out
 * those that this host has as well. Any thread. */
void peer_route_targets(struct engine_peer *peer, const struct wire_info *info);

#endif
