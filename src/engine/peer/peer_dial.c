/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling side of a link: dials the channels, and dials them again when they are lost. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/peer/carrier.h"
#include "engine/channel/comms.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/peer_dial.h"
#include "engine/peer/rails.h"
#include "net/transport.h"
#include "sys/fd.h"
#include "sys/sock.h"

/* pause before a lost channel is dialled again; each failure doubles it, up to 64 times this
 * value */
#define REDIAL_NS (50 * CLOCK_MS_NS)
/* for a peer that is up, least time that one route is tried before the next one is tried as well */
#define PATIENCE_NS (3 * CLOCK_S_NS)
/* pause before a channel that cannot be dialled, for example because its rail has no carrier, is
 * tried again; a carrier that returns ends the pause */
#define PARKED_NS (5 * CLOCK_S_NS)

struct peer_dial *peer_dial_new(struct engine_peer *peer)
{
	struct peer_dial *dial = calloc(1, sizeof(*dial));

	if (dial)
		dial->peer = peer;
	else
		error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a connection attempt");
	return dial;
}

tcpx_status peer_dial_race(struct peer_dial *dial, const struct ctl_race_opts *race,
			   struct ctl_dial_opts routes[PEER_ROUTES])
{
	tcpx_status status = ctl_race_start(&engine_runtime.loop, race, dial, &dial->race);

	explicit_bzero(routes, PEER_ROUTES * sizeof(*routes));
	return status;
}

void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err)
{
	char what[128];

	if (comms_slot(peer, channel) && !peer->counted_up) {
		comms_give_up(peer, channel, error_status_text(status));
	} else if (!peer->counted_up) {
		text_format(what, sizeof(what), "data channel %u: %s", channel,
			    error_status_text(status));
		peer_die(peer, status, err, what);
		return;
	}
	peer->dialling.tries++;
	peer_redial_later(peer, channel);
}

static void dial_channel_missed(void *arg, unsigned at, tcpx_status status, int err)
{
	struct peer_dial *dial = arg;

	(void)err;
	dial->missed[at] = status;
}

/* Called when a route, over rail `taken`, led to the peer. Marks that rail as working. The rails of
 * routes that failed, or had no answer after the head start and were overtaken, are marked as dead;
 * so is the channel's own rail if it has no carrier. */
static void dial_judge_rails(const struct peer_dial *dial, uint32_t taken)
{
	struct engine_peer *peer = dial->peer;
	uint32_t home = peer_route_home(peer, dial->channel);
	struct peer_route route;

	for (unsigned i = 0; i < dial->count; i++)
		if (dial->missed[i])
			rail_failed(peer, &dial->routes[i], dial->missed[i]);
	rail_works(peer, taken);
	if (carrier_lost(peer->link.session, home) && peer_route_over(peer, home, &route))
		rail_failed(peer, &route, TCPX_ERR_UNREACHABLE);
}

static void dial_channel_done(void *arg, unsigned at, tcpx_status status, int err,
			      const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	uint32_t channel = dial->channel, epoch = dial->epoch, rail = dial->routes[at].rail;
	struct net_chan *net;

	if (status == TCPX_OK)
		dial_judge_rails(dial, rail);
	free(dial);
	peer->dialling.channel[channel] = NULL;
	if (status == TCPX_OK) {
		peer->rails.of_channel[channel] =
			(uint8_t)rail; /* PEER_RAIL_NONE becomes a number that no rail has */
		sys_sock_congestion_fit(conn->fd, config_text(CONFIG_CONGESTION));
		status = net_transport_adopt(conn->fd, &net);
		if (status != TCPX_OK)
			sys_fd_close(conn->fd);
	}
	if (status == TCPX_OK)
		status = peer_attach(peer, channel, epoch, net);
	if (status != TCPX_OK)
		peer_channel_failed(peer, channel, status, err);
	else
		peer->dialling.tries = 0;
}

/* Returns how long one route is tried before the next one is tried as well: at least three times as
 * long as the dial of the control connection took. While the peer connects, the time is otherwise
 * short, because the peer is up only when all its channels are. A peer that is up has other
 * channels, so the channel's own rail gets more time. */
static int64_t dial_head_start(const struct engine_peer *peer)
{
	int64_t start = peer->counted_up ? PATIENCE_NS : CTL_HEAD_START_NS;

	return 3 * peer->rails.took_ns > start ? 3 * peer->rails.took_ns : start;
}

/* Dials a channel over TCP. Only the route of the control connection is known to work. So if a
 * route has not led to the peer after the head start, the next route is tried as well. */
static void dial_tcp_start(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct ctl_dial_opts opts[PEER_ROUTES] = {0};
	struct ctl_race_opts race = {
		.routes = opts,
		.head_start_ns = dial_head_start(peer),
		.missed = dial_channel_missed,
		.done = dial_channel_done,
	};
	struct peer_dial *dial = peer_dial_new(peer);
	tcpx_status status;

	if (!dial) {
		peer_channel_failed(peer, channel, TCPX_ERR_NO_MEMORY, 0);
		return;
	}
	dial->channel = channel;
	dial->epoch = epoch;
	race.count = dial->count = peer_route_channel(peer, channel, dial->routes);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->routes[i], &opts[i]);
		peer_route_hello(peer, &opts[i], WIRE_ROLE_DATA);
		opts[i].hello.channel = (uint16_t)channel;
		opts[i].hello.epoch = epoch;
		opts[i].segment_bytes = path_mtu_channel(peer, dial->routes[i].rail);
	}
	status = peer_dial_race(dial, &race, opts);
	if (status == TCPX_OK) {
		peer->dialling.channel[channel] = dial;
		return;
	}
	free(dial);
	if (peer->counted_up)
		peer_channel_failed(peer, channel, status, 0);
	else
		peer_die_last(peer);
}

void peer_dial_channel(struct engine_peer *peer, uint32_t channel)
{
	struct engine_session *session = peer->link.session;
	const char *why;
	uint32_t epoch;

	if (peer->died || peer->dialling.channel[channel] || peer->shared_memory.dial[channel])
		return;
	if (comms_rests(peer, channel)) {
		peer_redial_parked(peer, channel);
		return;
	}
	epoch = comms_next_epoch(peer, channel);
	if (comms_slot(peer, channel) && comms_not_tried(peer, &why)) {
		comms_give_up(peer, channel, why);
		return;
	}
	if (peer_local_dial(peer, channel, epoch) || peer->died)
		return;
	if (session->flags & TCPX_SESSION_LOCAL_ONLY)
		peer_die(peer, TCPX_ERR_UNREACHABLE, 0,
			 "peer offers no shared memory, and the session is LOCAL_ONLY");
	else if (channel && peer->counted_up && carrier_lost(session, channel - 1))
		/* the channels of other rails suffice until the carrier returns */
		peer_redial_parked(peer, channel);
	else
		dial_tcp_start(peer, channel, epoch);
}

void peer_dial_channels(struct engine_peer *peer)
{
	for (uint32_t i = 0; i <= peer->nbulk && !peer->died; i++)
		peer_dial_channel(peer, i);
}

static void dial_again_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, dialling.redial_timer);
	uint64_t mask = peer->dialling.redial_mask;
	uint32_t i;

	(void)now_ns;
	peer->dialling.redial_mask = 0;
	for (i = 0; i <= peer->nbulk; i++)
		if ((mask & (1ull << i)) && !peer->link.chan[i])
			peer_dial_channel(peer, i);
}

void peer_redial_later(struct engine_peer *peer, uint32_t channel)
{
	int64_t wait = REDIAL_NS << (peer->dialling.tries < 6 ? peer->dialling.tries : 6);

	peer->dialling.redial_mask |= 1ull << channel;
	peer->dialling.redial_timer.fn = dial_again_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.redial_timer, clock_now_ns() + wait);
}

void peer_redial_parked(struct engine_peer *peer, uint32_t channel)
{
	peer->dialling.redial_mask |= 1ull << channel;
	if (!list_empty(&peer->dialling.redial_timer.node))
		return;
	peer->dialling.redial_timer.fn = dial_again_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.redial_timer,
		      clock_now_ns() + PARKED_NS);
}

void peer_redial_now(struct engine_peer *peer)
{
	if (!peer->dialling.redial_mask || !peer->counted_up || peer->died)
		return;
	peer->dialling.tries = 0; /* the next pauses are short */
	peer->dialling.redial_timer.fn = dial_again_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.redial_timer, clock_now_ns());
}

static void dial_cancel(struct peer_dial **dial)
{
	if (*dial)
		ctl_race_cancel((*dial)->race);
	free(*dial);
	*dial = NULL;
}

void peer_dial_cancel(struct engine_peer *peer)
{
	dial_cancel(&peer->dialling.control);
	peer_local_cancel(peer);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++)
		dial_cancel(&peer->dialling.channel[i]);
	rail_probe_cancel(peer);
}
