/* SPDX-License-Identifier: Apache-2.0 */
/* Which way a connection goes: the rail it leaves from and the peer's address it goes to. */
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "engine/engine.h"
#include "engine/peer_route.h"
#include "sys/addr.h"
#include "sys/iface.h"

#define ALL_BITS 128

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

/* This host's addresses as they are now. */
struct here {
	struct sys_iface *ifaces;
	unsigned count;
};

static struct here here_now(void)
{
	struct here here = {0};

	if (sys_iface_list(&here.ifaces, &here.count) != TCPX_OK)
		here.count = 0; /* then nothing is known to be ours, or direct */
	return here;
}

static bool is_here(const struct here *here, const struct sockaddr_storage *addr)
{
	if (sys_addr_is_loopback(addr))
		return true;
	for (unsigned i = 0; i < here->count; i++)
		if (sys_addr_same_subnet(&here->ifaces[i].addr, addr, ALL_BITS))
			return true;
	return false;
}

bool peer_route_here(const struct engine_peer *peer)
{
	struct here here = here_now();
	bool is = is_here(&here, &peer->remote);

	free(here.ifaces);
	return is;
}

/* The number of an interface means nothing on another host: a link-local address is one of the link
 * that local is on. */
static void take_scope(struct sockaddr_storage *addr, const struct sockaddr_storage *local)
{
	if (sys_addr_is_link_local(addr) && sys_addr_is_link_local(local))
		((struct sockaddr_in6 *)addr)->sin6_scope_id =
			((const struct sockaddr_in6 *)local)->sin6_scope_id;
}

static bool is_direct(const struct here *here, const struct sockaddr_storage *local,
		      const struct sockaddr_storage *addr)
{
	for (unsigned i = 0; i < here->count; i++)
		if (sys_addr_same_host(&here->ifaces[i].addr, local) &&
		    sys_iface_direct(&here->ifaces[i], addr))
			return true;
	return false;
}

/* The local end of a connection: the rail of that number, if it has the remote address's family. */
static void pick_local(const struct engine_session *session, uint32_t rail,
		       struct ctl_dial_opts *opts)
{
	uint64_t ports = config_u64(CONFIG_SOURCE_PORTS);

	opts->port_lo = (uint16_t)(ports >> 16);
	opts->port_hi = (uint16_t)ports;
	opts->device = config_text(CONFIG_BIND_DEVICE);
	memset(&opts->local, 0, sizeof(opts->local));
	if (!session->bound)
		return;
	for (uint32_t i = 0; i < session->nrails; i++) {
		const struct sockaddr_storage *local =
			&session->rails[(rail + i) % session->nrails];

		if (local->ss_family == opts->remote.ss_family && !sys_addr_is_any(local)) {
			opts->local = *local;
			sys_addr_set_port(&opts->local, 0);
			return;
		}
	}
}

void peer_route_to(const struct engine_peer *peer, const struct sockaddr_storage *remote,
		   struct ctl_dial_opts *opts)
{
	opts->remote = *remote;
	pick_local(peer->session, carrier_rail(peer->session, 0), opts);
}

/* The peer's address for the rail: one in its own subnet, else one of its family by number. An
 * address that this host has, too, is the peer's only when the peer is here. */
static enum peer_route pick_remote(const struct engine_peer *peer, uint32_t rail,
				   struct sockaddr_storage *out)
{
	const struct sockaddr_storage *local = &peer->session->rails[rail % peer->session->nrails];
	struct here here = here_now();
	bool together = is_here(&here, &peer->remote);
	enum peer_route found = PEER_ROUTE_SAME;

	for (uint32_t a = 0; a < peer->naddrs && found != PEER_ROUTE_DIRECT; a++) {
		struct sockaddr_storage addr = peer->addrs[(rail + a) % peer->naddrs];

		if (addr.ss_family != local->ss_family || (!together && is_here(&here, &addr)) ||
		    sys_addr_is_link_local(&addr) != sys_addr_is_link_local(local))
			continue;
		take_scope(&addr, local);
		if (is_direct(&here, local, &addr))
			found = PEER_ROUTE_DIRECT;
		else if (found != PEER_ROUTE_SAME)
			continue;
		else
			found = PEER_ROUTE_GUESS;
		*out = addr;
	}
	free(here.ifaces);
	return found;
}

enum peer_route peer_route_over(const struct engine_peer *peer, uint32_t rail,
				struct ctl_dial_opts *opts)
{
	const struct engine_session *session = peer->session;
	enum peer_route found = PEER_ROUTE_SAME;

	opts->remote = peer->remote;
	if (session->bound && !sys_addr_is_any(&session->rails[rail % session->nrails]))
		found = pick_remote(peer, rail, &opts->remote);
	pick_local(session, rail, opts);
	return sys_addr_same_host(&opts->remote, &peer->remote) ? PEER_ROUTE_SAME : found;
}

/* An info names every address of its host: when one is not ours, the peer is elsewhere. */
static bool is_elsewhere(const struct here *here, const struct wire_info *info)
{
	for (uint32_t i = 0; i < info->naddrs && here->count; i++) {
		struct sockaddr_storage addr;

		peer_addr_from_wire(&info->addrs[i], &addr);
		if (!is_here(here, &addr))
			return true;
	}
	return false;
}

void peer_route_targets(struct engine_peer *peer, const struct wire_info *info)
{
	const struct engine_session *session = peer->session;
	struct here here = here_now();
	bool elsewhere = is_elsewhere(&here, info);

	peer->naddrs = 0;
	for (uint32_t i = 0; i < info->naddrs; i++) {
		struct sockaddr_storage *addr = &peer->addrs[peer->naddrs];

		peer_addr_from_wire(&info->addrs[i], addr);
		for (uint32_t r = 0; session->bound && r < session->nrails; r++)
			take_scope(addr, &session->rails[r]);
		/* One that we have as well (127.0.0.1, a container bridge) meets others here. */
		peer->naddrs += !elsewhere || !is_here(&here, addr);
	}
	free(here.ifaces);
}
