/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses the route of a connection: the local rail and the peer's address. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/peer/peer_calls.h"
#include "engine/peer/carrier.h"
#include "engine/link/here.h"
#include "engine/peer/peer_route.h"
#include "engine/peer/rails.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

/* time limit for dialling a further connection of a link */
#define DIAL_NS (5 * CLOCK_S_NS)

void peer_addr_from_wire(const struct wire_address *from, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (from->family == 6) {
		struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)out;

		sin6->sin6_family = AF_INET6;
		memcpy(&sin6->sin6_addr, from->bytes, 16);
		sin6->sin6_port = htons(from->port);
		sin6->sin6_scope_id = from->scope;
	} else {
		struct sockaddr_in *sin = (struct sockaddr_in *)out;

		sin->sin_family = AF_INET;
		memcpy(&sin->sin_addr, from->bytes, 4);
		sin->sin_port = htons(from->port);
	}
}

void peer_addr_to_wire(const struct sockaddr_storage *from, struct wire_address *out)
{
	memset(out, 0, sizeof(*out));
	if (from->ss_family == AF_INET6) {
		const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)from;

		out->family = 6;
		memcpy(out->bytes, &sin6->sin6_addr, 16);
		out->port = ntohs(sin6->sin6_port);
		out->scope = sin6->sin6_scope_id;
	} else {
		const struct sockaddr_in *sin = (const struct sockaddr_in *)from;

		out->family = 4;
		memcpy(out->bytes, &sin->sin_addr, 4);
		out->port = ntohs(sin->sin_port);
	}
}

/* If both addresses are link-local, sets the interface of `addr` to that of `local`. An interface
 * index means nothing on another host, so the index that came with the address cannot be used. */
static void route_take_scope(struct sockaddr_storage *addr, const struct sockaddr_storage *local)
{
	if (sys_addr_is_link_local(addr) && sys_addr_is_link_local(local))
		((struct sockaddr_in6 *)addr)->sin6_scope_id =
			((const struct sockaddr_in6 *)local)->sin6_scope_id;
}

void peer_route_opts(const struct peer_route *route, struct ctl_dial_opts *opts)
{
	uint64_t ports = config_u64(CONFIG_SOURCE_PORTS);

	opts->remote = route->remote;
	opts->local = route->local;
	opts->port_lo = (uint16_t)(ports >> 16);
	opts->port_hi = (uint16_t)ports;
	opts->device = config_text(CONFIG_BIND_DEVICE);
}

void peer_route_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role)
{
	/* whether our source address, by which the acceptor decides, will be a loopback address */
	int loopback = sys_addr_is_loopback(&opts->remote) &&
		       (!opts->local.ss_family || sys_addr_is_loopback(&opts->local));

	opts->hello = (struct wire_hello){
		.role = role,
		.auth = (uint8_t)ctl_data_auth((enum wire_auth)peer->dialling.hello.auth, loopback),
		.key_id = peer->control.link_id,
	};
	peer_fill_hello(peer->link.session, &opts->hello);
	memcpy(opts->key, peer->control.key, sizeof(opts->key));
	opts->deadline_ns = clock_now_ns() + DIAL_NS;
}

static bool route_same_end(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return a->ss_family == b->ss_family && (!a->ss_family || sys_addr_same_host(a, b));
}

/* Adds the route, unless the list contains it or is full. */
static void route_add(struct peer_route *routes, unsigned *count, const struct peer_route *route)
{
	for (unsigned i = 0; i < *count; i++)
		if (route_same_end(&routes[i].local, &route->local) &&
		    sys_addr_same_host(&routes[i].remote, &route->remote) &&
		    sys_addr_port(&routes[i].remote) == sys_addr_port(&route->remote))
			return;
	if (*count < PEER_ROUTES)
		routes[(*count)++] = *route;
}

/* Whether the rail can be the source of a connection to `remote`: an option names the rails, and
 * the rail's address is no wildcard and has the family of `remote`. Does not check that packets
 * from the rail reach `remote`. */
static bool route_rail_serves(const struct engine_session *session, uint32_t rail,
			      const struct sockaddr_storage *remote)
{
	const struct sockaddr_storage *local = &session->rails.at[rail];

	return session->rails.named && local->ss_family == remote->ss_family &&
	       !sys_addr_is_any(local);
}

/* Returns the rail whose address the kernel's routing table chooses as the source for `remote`, or
 * PEER_RAIL_NONE. If the user named exactly one address of the family and any_source is not set,
 * returns the rail of that address without a look-up in the table. */
static uint32_t route_rail_by_kernel(const struct engine_session *session,
				     const struct sockaddr_storage *remote)
{
	uint32_t one = PEER_RAIL_NONE, found = 0;
	struct sockaddr_storage source;

	for (uint32_t i = 0; i < session->rails.count; i++) {
		if (!route_rail_serves(session, i, remote))
			continue;
		one = i;
		found++;
	}
	if (found == 1 && !session->rails.any_source)
		return one;
	if (!found || sys_sock_source(remote, config_text(CONFIG_BIND_DEVICE), &source))
		return PEER_RAIL_NONE;
	for (uint32_t i = 0; i < session->rails.count; i++)
		if (route_rail_serves(session, i, remote) &&
		    sys_addr_same_host(&session->rails.at[i], &source))
			return i;
	return PEER_RAIL_NONE;
}

static struct peer_route route_by(const struct engine_session *session, uint32_t rail,
				  const struct sockaddr_storage *remote)
{
	struct peer_route route = {.remote = *remote, .rail = rail};

	if (rail != PEER_RAIL_NONE)
		route.local = session->rails.at[rail];
	return route;
}

static void route_say_own_address(const struct engine_peer *peer,
				  const struct sockaddr_storage *addr)
{
	char text[SYS_ADDR_TEXT];

	LOG_INFO("peer '%s': its address %s is not dialled: this host has it, too", peer->who.name,
		 sys_addr_host_text(addr, text));
}

/* Adds routes to the addresses for which the routing table chooses none of the named rails: each
 * rail of the same family with each such address. If the list is still empty, adds a route without
 * a source address. skip[i] is true for an address that has a route or must not be dialled. */
static void route_add_in_turn(const struct engine_peer *peer, const bool *skip,
			      struct peer_route *routes, unsigned *count)
{
	const struct engine_session *session = peer->link.session;

	for (uint32_t n = 0; n < session->rails.count * peer->address.count; n++) {
		const struct sockaddr_storage *addr = &peer->address.known[n % peer->address.count];
		uint32_t rail =
			carrier_rail(session, n / peer->address.count) % session->rails.count;
		struct peer_route route = route_by(session, rail, addr);

		if (!skip[n % peer->address.count] && route_rail_serves(session, rail, addr))
			route_add(routes, count, &route);
	}
	for (uint32_t i = 0; i < peer->address.count && !*count; i++) {
		struct peer_route route =
			route_by(session, PEER_RAIL_NONE, &peer->address.known[i]);

		if (!skip[i])
			route_add(routes, count, &route);
	}
}

unsigned peer_route_first(const struct engine_peer *peer, struct peer_route *routes)
{
	const struct engine_session *session = peer->link.session;
	struct here here = here_now();
	bool elsewhere = false, settled[WIRE_ADDR_MAX] = {false};
	unsigned count = 0;

	for (uint32_t i = 0; i < peer->address.count; i++)
		elsewhere |= here.count && !here_is(&here, &peer->address.known[i]);
	for (uint32_t i = 0; i < peer->address.count; i++) {
		const struct sockaddr_storage *addr = &peer->address.known[i];
		uint32_t rail = route_rail_by_kernel(session, addr);
		struct peer_route route = route_by(session, rail, addr);

		settled[i] = true;
		/* Do not dial an address that this host has as well: a process of this host would
		 * answer. */
		if (elsewhere && here_is(&here, addr))
			route_say_own_address(peer, addr);
		else if (rail != PEER_RAIL_NONE || session->rails.any_source ||
			 !session->rails.named)
			route_add(routes, &count, &route);
		else
			settled[i] = false;
	}
	if (session->rails.named && !session->rails.any_source)
		route_add_in_turn(peer, settled, routes, &count);
	here_free(&here);
	return count;
}

/* Chooses the peer's address for a rail: an address in the rail's subnet, else one of the rail's
 * family, chosen by the rail's number. If the peer is on another host, skips addresses that this
 * host has as well. Returns false if no address fits. */
static bool route_pick_remote(const struct engine_peer *peer, uint32_t rail,
			      struct sockaddr_storage *out)
{
	const struct sockaddr_storage *local = &peer->link.session->rails.at[rail];
	struct here here = here_now();
	bool together = here_is(&here, &peer->address.remote), found = false, direct = false;

	for (uint32_t a = 0; a < peer->address.count && !direct; a++) {
		struct sockaddr_storage addr =
			peer->address.known[(rail + a) % peer->address.count];

		if (addr.ss_family != local->ss_family || (!together && here_is(&here, &addr)) ||
		    sys_addr_is_link_local(&addr) != sys_addr_is_link_local(local))
			continue;
		route_take_scope(&addr, local);
		direct = here_is_direct(&here, local, &addr);
		if (found && !direct)
			continue;
		found = true;
		*out = addr;
	}
	here_free(&here);
	return found;
}

bool peer_route_over(const struct engine_peer *peer, uint32_t rail, struct peer_route *out_route)
{
	const struct engine_session *session = peer->link.session;
	struct peer_route route = {.rail = rail};

	if (!session->rails.named || sys_addr_is_any(&session->rails.at[rail]) ||
	    !route_pick_remote(peer, rail, &route.remote))
		return false;
	route.local = session->rails.at[rail];
	*out_route = route;
	return true;
}

/* Returns the route of the control connection, which is known to work. */
static struct peer_route route_of_control(const struct engine_peer *peer)
{
	const struct engine_session *session = peer->link.session;
	struct peer_route route = {
		.remote = peer->address.remote, .local = peer->rails.local, .rail = PEER_RAIL_NONE};

	for (uint32_t i = 0; i < session->rails.count && route.local.ss_family; i++)
		if (sys_addr_same_host(&session->rails.at[i], &route.local))
			route.rail = i;
	return route;
}

bool rail_may_dial(const struct engine_peer *peer, uint32_t rail)
{
	const struct peer_rail *at = &peer->rails.at[rail];

	return !at->dead || clock_now_ns() >= at->due_ns;
}

unsigned peer_route_channel(const struct engine_peer *peer, uint32_t channel,
			    struct peer_route *routes)
{
	const struct engine_session *session = peer->link.session;
	const struct peer_route control = route_of_control(peer);
	uint32_t home = peer_route_home(peer, channel);
	/* While the peer connects, the channel's own rail and the route of the control connection
	 * are enough. */
	uint32_t others = peer->counted_up ? session->rails.count : 1;
	struct peer_route route;
	unsigned count = 0;

	for (uint32_t i = 0; i < others; i++) {
		uint32_t rail = (home + i) % session->rails.count;

		if (((!i && peer->counted_up) || rail_may_dial(peer, rail)) &&
		    !carrier_lost(session, rail) && peer_route_over(peer, rail, &route))
			route_add(routes, &count, &route);
		if (!i)
			route_add(routes, &count, &control);
	}
	return count;
}

unsigned peer_route_again(const struct engine_peer *peer, uint32_t first, struct peer_route *routes)
{
	const struct engine_session *session = peer->link.session;
	const struct peer_route control = route_of_control(peer);
	struct peer_route route;
	unsigned count = 0;

	for (uint32_t i = 0; i < session->rails.count; i++) {
		uint32_t rail = (first + i) % session->rails.count;

		if (!carrier_lost(session, rail) && peer_route_over(peer, rail, &route))
			route_add(routes, &count, &route);
	}
	route_add(routes, &count, &control);
	return count;
}

uint32_t peer_route_home(const struct engine_peer *peer, uint32_t channel)
{
	return (channel ? channel - 1 : peer->nbulk) % peer->link.session->rails.count;
}

/* Whether the peer is on another host. All addresses of an info lead to the peer's host, so the
 * peer is on another host if this host lacks one of them. Returns false if this host's addresses
 * cannot be read. */
static bool route_is_elsewhere(const struct here *here, const struct wire_info *info)
{
	for (uint32_t i = 0; i < info->naddrs && here->count; i++) {
		struct sockaddr_storage addr;

		peer_addr_from_wire(&info->addrs[i], &addr);
		if (!here_is(here, &addr))
			return true;
	}
	return false;
}

void peer_route_targets(struct engine_peer *peer, const struct wire_info *info)
{
	const struct engine_session *session = peer->link.session;
	struct here here = here_now();
	bool elsewhere = route_is_elsewhere(&here, info);

	peer->address.count = 0;
	for (uint32_t i = 0; i < info->naddrs; i++) {
		struct sockaddr_storage *addr = &peer->address.known[peer->address.count];

		peer_addr_from_wire(&info->addrs[i], addr);
		for (uint32_t r = 0; session->rails.named && r < session->rails.count; r++)
			route_take_scope(addr, &session->rails.at[r]);
		/* Leave out an address that this host has as well (127.0.0.1, a container bridge):
		 * a process of this host would answer there. */
		if (elsewhere && here_is(&here, addr))
			route_say_own_address(peer, addr);
		else
			peer->address.count++;
	}
	here_free(&here);
}
