/* SPDX-License-Identifier: Apache-2.0 */
/* The routes of connections to a peer. Control thread unless a comment says otherwise. */
#ifndef ENGINE_PEER_PEER_ROUTE_H
#define ENGINE_PEER_PEER_ROUTE_H

#include "ctl/race.h"
#include "engine/link/engine.h"
#include "wire/hello.h"

struct wire_info;

/* Convert an address between its forms in a message and in socket calls. Any thread. */
void peer_addr_from_wire(const struct wire_address *from, struct sockaddr_storage *out);
void peer_addr_to_wire(const struct sockaddr_storage *from, struct wire_address *out);

#define PEER_ROUTES CTL_RACE_ROUTES
#define PEER_RAIL_NONE UINT32_MAX

/* A route to the peer: the remote and the local address of a connection. If `local` has no family,
 * the kernel chooses the source address. */
struct peer_route {
	struct sockaddr_storage remote, local;
	uint32_t rail; /* rail of `local`, or PEER_RAIL_NONE */
};

/* Fills in the addresses, source ports and device of a dial. */
void peer_route_opts(const struct peer_route *route, struct ctl_dial_opts *opts);
/* Fills in the authentication and the deadline of a dial for a further connection of a link. The
 * caller has set the addresses in `opts`. */
void peer_route_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role);
/* Fills in up to PEER_ROUTES routes for the first control connection, best first, and returns their
 * number. First come routes to the peer's addresses in order, each over the rail that the routing
 * table chooses. If the table chooses none of the named rails for an address, the kernel chooses
 * the source, if other sources are allowed; else routes over each rail follow at the end. */
unsigned peer_route_first(const struct engine_peer *peer, struct peer_route *routes);
/* Fills in up to PEER_ROUTES routes for a channel, best first, and returns their number: the
 * channel's own rail, then the route of the control connection, which is known to work, then, if
 * the peer is up, the other rails. Leaves out rails without a carrier, and avoided rails whose next
 * attempt is not due. If the peer is up, the channel's own rail is tried even if it is avoided. */
unsigned peer_route_channel(const struct engine_peer *peer, uint32_t channel,
			    struct peer_route *routes);
/* Fills in up to PEER_ROUTES routes for a control connection that was lost, and returns their
 * number: one over each rail that has a carrier, beginning with rail `first`, and last the lost
 * route. */
unsigned peer_route_again(const struct engine_peer *peer, uint32_t first,
			  struct peer_route *routes);
/* Returns the rail that a channel belongs to. This rail is tried first, and the channel returns to
 * it. */
uint32_t peer_route_home(const struct engine_peer *peer, uint32_t channel);
/* Sets *out_route to the route over one rail. Returns false if no option names the rails, the
 * rail is a wildcard, or no address of the peer fits the rail's address. */
bool peer_route_over(const struct engine_peer *peer, uint32_t rail, struct peer_route *out_route);
/* Sets the addresses to dial to those of `info`. If the peer is on another host, leaves out
 * addresses that this host has as well. Any thread. */
void peer_route_targets(struct engine_peer *peer, const struct wire_info *info);

#endif
