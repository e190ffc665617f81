/* SPDX-License-Identifier: Apache-2.0 */
/* Rails over which the peer cannot be reached. The dialling side avoids such a rail, logs it once,
 * and tries it again later. */
#include "engine/peer/rails.h"

#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/peer/carrier.h"
#include "engine/channel/comms.h"
#include "engine/peer/path_mtu.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/iface.h"

#define AGAIN_NS CLOCK_S_NS /* pause before a rail is tried again; doubled by each failed attempt */
#define AGAIN_DOUBLED_MAX 6 /* most times that the pause is doubled */
/* time limit of an attempt over an avoided rail */
#define PROBE_NS (2 * CLOCK_S_NS)
/* if a rail fails after it has worked for this long, the first pause is AGAIN_NS again */
#define GOOD_NS (60 * CLOCK_S_NS)

static const char *rail_cause(tcpx_status status)
{
	switch (status) {
	case TCPX_ERR_TIMED_OUT:
	case TCPX_ERR_PEER_SILENT:
		return "nothing answers there in time";
	case TCPX_ERR_AUTH:
	case TCPX_ERR_STALE:
	case TCPX_ERR_PROTOCOL:
	case TCPX_ERR_PEER_RESTARTED:
		return "another session or program answers there";
	default:
		return error_status_text(status);
	}
}

/* Logs that the peer cannot be reached over a rail. The session logs this once per rail until the
 * rail works again. */
static void rail_say(struct engine_peer *peer, const struct peer_route *route, tcpx_status status)
{
	struct engine_session *session = peer->link.session;
	char from[SYS_ADDR_TEXT], to[SYS_ADDR_TEXT], name[IF_NAMESIZE];
	unsigned index = sys_iface_index(&route->local);

	if (session->rails.said & 1u << route->rail)
		return;
	session->rails.said |= 1u << route->rail;
	if (!index || !if_indextoname(index, name))
		name[0] = '\0';
	LOG_WARN(
		"interface %s (%s) does not lead to peer '%s' at %s: %s; it is left out and tried "
		"again; next: check each rail with 'tcpx doctor --peer', or name those to use with "
		"--bind or TCPX_BIND",
		*name ? name : "(gone)", sys_addr_host_text(&route->local, from), peer->who.name,
		sys_addr_text(&route->remote, to), rail_cause(status));
}

static void rail_again_later(struct peer_rail *rail)
{
	int64_t wait =
		AGAIN_NS << (rail->tries < AGAIN_DOUBLED_MAX ? rail->tries : AGAIN_DOUBLED_MAX);

	rail->tries++;
	rail->due_ns = clock_now_ns() + wait;
}

void rail_failed(struct engine_peer *peer, const struct peer_route *route, tcpx_status status)
{
	struct peer_rail *rail;

	if (route->rail == PEER_RAIL_NONE || status == TCPX_ERR_NO_DESCRIPTORS ||
	    status == TCPX_ERR_NO_MEMORY || peer->died)
		return;
	rail = &peer->rails.at[route->rail];
	if (rail->dead)
		return; /* another channel's dial has failed over this rail already */
	if (rail->back_ns && clock_now_ns() - rail->back_ns > GOOD_NS)
		rail->tries = 0;
	rail->dead = true;
	rail->back = false;
	rail->segment_bytes = 0; /* the failure was not due to the packets' size */
	rail_again_later(rail);
	rail_say(peer, route, status);
}

void rail_works(struct engine_peer *peer, uint32_t at)
{
	struct peer_rail *rail;
	char text[SYS_ADDR_TEXT];

	if (at == PEER_RAIL_NONE || !peer->rails.at[at].dead)
		return;
	rail = &peer->rails.at[at];
	rail->dead = false;
	rail->back = true;
	rail->back_ns = clock_now_ns();
	peer->link.session->rails.said &= ~(1u << at);
	LOG_INFO("peer '%s': the rail of %s leads there again", peer->who.name,
		 sys_addr_host_text(&peer->link.session->rails.at[at], text));
}

static void rail_probe_done(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct engine_peer *peer = arg;

	(void)err;
	peer->rails.probe = NULL;
	if (status != TCPX_OK) {
		rail_again_later(&peer->rails.at[peer->rails.probed]);
		return;
	}
	sys_fd_close(conn->fd);
	rail_works(peer, peer->rails.probed);
}

/* Tests an avoided rail by a dial like that of a data channel. The dial has epoch 0, which no
 * channel has, so the peer closes the connection at once. */
static void rail_probe(struct engine_peer *peer, uint32_t at)
{
	struct ctl_dial_opts opts = {0};
	struct peer_route route;
	tcpx_status status;

	if (!peer_route_over(peer, at, &route)) {
		rail_again_later(&peer->rails.at[at]);
		return;
	}
	peer_route_opts(&route, &opts);
	peer_route_hello(peer, &opts, WIRE_ROLE_DATA);
	opts.hello.channel = CORE_PRIO;
	opts.deadline_ns = clock_now_ns() + PROBE_NS;
	peer->rails.probed = at;
	status = ctl_dial_start(&engine_runtime.loop, &opts, rail_probe_done, peer,
				&peer->rails.probe);
	explicit_bzero(opts.key, sizeof(opts.key));
	if (status == TCPX_OK)
		return;
	peer->rails.probe = NULL;
	rail_again_later(&peer->rails.at[at]);
}

/* Gives up connections of channels that moved to another rail, if their own rail works again; the
 * channels are then dialled over their own rail. Leaves at least one channel up, because the peer
 * would end without channels. */
static void rails_come_back(struct engine_peer *peer, int64_t now_ns)
{
	uint32_t up = path_mtu_settled(peer, now_ns), away = 0;

	for (uint32_t i = 0; i <= peer->nbulk; i++) {
		uint32_t home = peer_route_home(peer, i);
		struct engine_chan *chan = peer->link.chan[i];

		if (!peer->rails.at[home].back || peer->rails.of_channel[i] == home ||
		    comms_slot(peer, i) || !chan || !chan->iface || atomic_load(&chan->failed))
			continue;
		away++;
		if (up < 2)
			continue;
		up--;
		path_mtu_replace(chan, 0);
	}
	for (uint32_t i = 0; i < peer->link.session->rails.count && !away; i++)
		peer->rails.at[i].back = false;
}

void rails_look(struct engine_peer *peer, int64_t now_ns)
{
	if (!peer->dialler || !peer->counted_up)
		return;
	rails_come_back(peer, now_ns);
	for (uint32_t i = 0; i < peer->link.session->rails.count && !peer->rails.probe; i++) {
		struct peer_rail *rail = &peer->rails.at[i];

		if (rail->dead && now_ns >= rail->due_ns && !carrier_lost(peer->link.session, i))
			rail_probe(peer, i);
	}
}

void rails_retry_soon(struct engine_peer *peer)
{
	for (uint32_t i = 0; i < peer->link.session->rails.count; i++) {
		peer->rails.at[i].due_ns = 0;
		peer->rails.at[i].tries = 0;
	}
}

void rail_probe_cancel(struct engine_peer *peer)
{
	if (peer->rails.probe)
		ctl_dial_cancel(peer->rails.probe);
	peer->rails.probe = NULL;
}
