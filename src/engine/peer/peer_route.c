/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a connection goes: the rail it leaves from and the peer's address it goes to. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/peer/carrier.h"
#include "engine/link/here.h"
#include "engine/peer/peer_route.h"
#include "engine/peer/rails.h"
#include "sys/addr.h"
#include "sys/iface.h"
#include "sys/sock.h"

#define ALL_BITS 128
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

/* The number of an interface means nothing on another host: a link-local address is one of the link
 * that local is on. */
static void take_scope(struct sockaddr_storage *addr, const struct sockaddr_storage *local)
{
	if (sys_addr_is_link_local(addr) && sys_addr_is_link_local(local))
		((struct sockaddr_in6 *)addr)->sin6_scope_id =
			((const struct sockaddr_in6 *)local)->sin6_scope_id;
}

void peer_route_opts(const struct peer_way *way, struct ctl_dial_opts *opts)
{
	uint64_t ports = config_u64(CONFIG_SOURCE_PORTS);

	opts->remote = way->remote;
	opts->local = way->local;
	opts->port_lo = (uint16_t)(ports >> 16);
	opts->port_hi = (uint16_t)ports;
	opts->device = config_text(CONFIG_BIND_DEVICE);
}

/* Its route is known. */
void peer_route_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role)
{
	/* The acceptor judges by the address that it sees. */
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

static bool same_end(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	return a->ss_family == b->ss_family && (!a->ss_family || sys_addr_same_host(a, b));
}

/* Adds it unless it is there already. */
static void add_way(struct peer_way *ways, unsigned *count, const struct peer_way *way)
{
	for (unsigned i = 0; i < *count; i++)
		if (same_end(&ways[i].local, &way->local) &&
		    sys_addr_same_host(&ways[i].remote, &way->remote) &&
		    sys_addr_port(&ways[i].remote) == sys_addr_port(&way->remote))
			return;
	if (*count < PEER_WAYS)
		ways[(*count)++] = *way;
}

/* Whether the rail has an address that packets to remote can leave from. */
static bool serves(const struct engine_session *session, uint32_t rail,
		   const struct sockaddr_storage *remote)
{
	const struct sockaddr_storage *local = &session->rails.at[rail];

	return session->rails.named && local->ss_family == remote->ss_family &&
	       !sys_addr_is_any(local);
}

/* The rail with the source address that the kernel's routes choose; PEER_RAIL_NONE: it is none of
 * them. Where the user named one address of the family, it is that one, wherever routes lead. */
static uint32_t rail_by_route(const struct engine_session *session,
			      const struct sockaddr_storage *remote)
{
	uint32_t one = PEER_RAIL_NONE, found = 0;
	struct sockaddr_storage source;

	for (uint32_t i = 0; i < session->rails.count; i++) {
		if (!serves(session, i, remote))
			continue;
		one = i;
		found++;
	}
	if (found == 1 && !session->rails.any_source)
		return one;
	if (!found || sys_sock_source(remote, config_text(CONFIG_BIND_DEVICE), &source))
		return PEER_RAIL_NONE;
	for (uint32_t i = 0; i < session->rails.count; i++)
		if (serves(session, i, remote) &&
		    sys_addr_same_host(&session->rails.at[i], &source))
			return i;
	return PEER_RAIL_NONE;
}

static struct peer_way way_by(const struct engine_session *session, uint32_t rail,
			      const struct sockaddr_storage *remote)
{
	struct peer_way way = {.remote = *remote, .rail = rail};

	if (rail != PEER_RAIL_NONE)
		way.local = session->rails.at[rail];
	return way;
}

static void say_ours(const struct engine_peer *peer, const struct sockaddr_storage *addr)
{
	char text[SYS_ADDR_TEXT];

	LOG_INFO("peer '%s': its address %s is left out: this host has it, too", peer->who.name,
		 sys_addr_host_text(addr, text));
}

/* Named sources, none of which the routes would take, by turns; an address of a family that none
 * of them has only where there is no other. */
static void add_by_turns(const struct engine_peer *peer, const bool *skip, struct peer_way *ways,
			 unsigned *count)
{
	const struct engine_session *session = peer->link.session;

	for (uint32_t n = 0; n < session->rails.count * peer->address.count; n++) {
		const struct sockaddr_storage *addr = &peer->address.known[n % peer->address.count];
		uint32_t rail =
			carrier_rail(session, n / peer->address.count) % session->rails.count;
		struct peer_way way = way_by(session, rail, addr);

		if (!skip[n % peer->address.count] && serves(session, rail, addr))
			add_way(ways, count, &way);
	}
	for (uint32_t i = 0; i < peer->address.count && !*count; i++) {
		struct peer_way way = way_by(session, PEER_RAIL_NONE, &peer->address.known[i]);

		if (!skip[i])
			add_way(ways, count, &way);
	}
}

unsigned peer_route_first(const struct engine_peer *peer, struct peer_way *ways)
{
	const struct engine_session *session = peer->link.session;
	struct here here = here_now();
	bool elsewhere = false, settled[WIRE_ADDR_MAX] = {false};
	unsigned count = 0;

	for (uint32_t i = 0; i < peer->address.count; i++)
		elsewhere |= here.count && !here_is(&here, &peer->address.known[i]);
	for (uint32_t i = 0; i < peer->address.count; i++) {
		const struct sockaddr_storage *addr = &peer->address.known[i];
		uint32_t rail = rail_by_route(session, addr);
		struct peer_way way = way_by(session, rail, addr);

		settled[i] = true;
		/* One that we have as well would meet somebody here. */
		if (elsewhere && here_is(&here, addr))
			say_ours(peer, addr);
		else if (rail != PEER_RAIL_NONE || session->rails.any_source ||
			 !session->rails.named)
			add_way(ways, &count, &way);
		else
			settled[i] = false;
	}
	if (session->rails.named && !session->rails.any_source)
		add_by_turns(peer, settled, ways, &count);
	here_free(&here);
	return count;
}

/* The peer's address for the rail: one in its own subnet, else one of its family by number. An
 * address that this host has, too, is the peer's only when the peer is here. */
static bool pick_remote(const struct engine_peer *peer, uint32_t rail, struct sockaddr_storage *out)
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
		take_scope(&addr, local);
		direct = here_is_direct(&here, local, &addr);
		if (found && !direct)
			continue;
		found = true;
		*out = addr;
	}
	here_free(&here);
	return found;
}

bool peer_route_over(const struct engine_peer *peer, uint32_t rail, struct peer_way *out_way)
{
	const struct engine_session *session = peer->link.session;
	struct peer_way way = {.rail = rail};

	if (!session->rails.named || sys_addr_is_any(&session->rails.at[rail]) ||
	    !pick_remote(peer, rail, &way.remote))
		return false;
	way.local = session->rails.at[rail];
	*out_way = way;
	return true;
}

/* Where the control link goes: it is known to work. */
static struct peer_way control_way(const struct engine_peer *peer)
{
	const struct engine_session *session = peer->link.session;
	struct peer_way way = {
		.remote = peer->address.remote, .local = peer->rails.local, .rail = PEER_RAIL_NONE};

	for (uint32_t i = 0; i < session->rails.count && way.local.ss_family; i++)
		if (sys_addr_same_host(&session->rails.at[i], &way.local))
			way.rail = i;
	return way;
}

bool rail_tried(const struct engine_peer *peer, uint32_t rail)
{
	const struct peer_rail *at = &peer->rails.at[rail];

	return !at->dead || clock_now_ns() >= at->due_ns;
}

unsigned peer_route_channel(const struct engine_peer *peer, uint32_t channel, struct peer_way *ways)
{
	const struct engine_session *session = peer->link.session;
	const struct peer_way control = control_way(peer);
	uint32_t home = peer_route_home(peer, channel);
	/* One that connects still has nothing to fear from rails beyond the two. */
	uint32_t others = peer->counted_up ? session->rails.count : 1;
	struct peer_way way;
	unsigned count = 0;

	for (uint32_t i = 0; i < others; i++) {
		uint32_t rail = (home + i) % session->rails.count;

		if (((!i && peer->counted_up) || rail_tried(peer, rail)) &&
		    !carrier_lost(session, rail) && peer_route_over(peer, rail, &way))
			add_way(ways, &count, &way);
		if (!i)
			add_way(ways, &count, &control);
	}
	return count;
}

unsigned peer_route_again(const struct engine_peer *peer, uint32_t first, struct peer_way *ways)
{
	const struct engine_session *session = peer->link.session;
	const struct peer_way control = control_way(peer);
	struct peer_way way;
	unsigned count = 0;

	for (uint32_t i = 0; i < session->rails.count; i++) {
		uint32_t rail = (first + i) % session->rails.count;

		if (!carrier_lost(session, rail) && peer_route_over(peer, rail, &way))
			add_way(ways, &count, &way);
	}
	add_way(ways, &count, &control);
	return count;
}

uint32_t peer_route_home(const struct engine_peer *peer, uint32_t channel)
{
	return (channel ? channel - 1 : peer->nbulk) % peer->link.session->rails.count;
}

/* An info names every address of its host: when one is not ours, the peer is elsewhere. */
static bool is_elsewhere(const struct here *here, const struct wire_info *info)
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
	bool elsewhere = is_elsewhere(&here, info);

	peer->address.count = 0;
	for (uint32_t i = 0; i < info->naddrs; i++) {
		struct sockaddr_storage *addr = &peer->address.known[peer->address.count];

		peer_addr_from_wire(&info->addrs[i], addr);
		for (uint32_t r = 0; session->rails.named && r < session->rails.count; r++)
			take_scope(addr, &session->rails.at[r]);
		/* One that we have as well (127.0.0.1, a container bridge) meets others here. */
		if (elsewhere && here_is(&here, addr))
			say_ours(peer, addr);
		else
			peer->address.count++;
	}
	here_free(&here);
}
