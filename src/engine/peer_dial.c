/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling side of a link: control link, data channels, and both again when they are lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/comms.h"
#include "engine/peer_route.h"
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/sock.h"

#define DIAL_NS (5 * CLOCK_S_NS)
#define REDIAL_NS (50 * CLOCK_MS_NS)
#define PARKED_NS (5 * CLOCK_S_NS) /* normally the carrier's return ends it */

/* Its route is known. */
static void data_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role)
{
	/* The acceptor judges by the address that it sees. */
	int loopback = sys_addr_is_loopback(&opts->remote) &&
		       (!opts->local.ss_family || sys_addr_is_loopback(&opts->local));

	opts->hello = (struct wire_hello){
		.role = role,
		.auth = (uint8_t)ctl_data_auth((enum wire_auth)peer->dial_hello.auth, loopback),
		.key_id = peer->link_id,
	};
	peer_fill_hello(peer->session, &opts->hello);
	memcpy(opts->key, peer->session_key, sizeof(opts->key));
	opts->deadline_ns = clock_now_ns() + DIAL_NS;
}

/* A data channel on its way; in peer->chan_dial until it is there, failed or cancelled. */
struct chan_dial {
	struct ctl_dial *dial;
	struct engine_peer *peer;
	uint32_t channel, epoch;
	bool elsewhere; /* not where the control link goes */
};

static void dial_tcp(struct engine_peer *peer, uint32_t channel, uint32_t epoch, bool same_way);

void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err)
{
	char what[96];

	if (comms_slot(peer, channel) && !peer->counted_up) {
		comms_give_up(peer, channel, tcpx_status_text(status));
	} else if (!peer->counted_up) {
		snprintf(what, sizeof(what), "data channel %u: %s", channel,
			 tcpx_status_text(status));
		peer_die(peer, status, err, what);
		return;
	}
	peer->redial_tries++;
	peer_redial_later(peer, channel);
}

static void channel_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct chan_dial dial = *(struct chan_dial *)arg;
	struct engine_peer *peer = dial.peer;
	struct net_chan *net;

	free(arg);
	peer->chan_dial[dial.channel] = NULL;
	if (status != TCPX_OK && dial.elsewhere) {
		dial_tcp(peer, dial.channel, dial.epoch, true);
		return;
	}
	if (status == TCPX_OK) {
		sys_sock_congestion_fit(conn->fd, config_text(CONFIG_CONGESTION));
		status = net_tcp_wrap(conn->fd, &net);
		if (status != TCPX_OK)
			close(conn->fd);
	}
	if (status == TCPX_OK)
		status = peer_attach(peer, dial.channel, dial.epoch, net);
	if (status != TCPX_OK)
		peer_channel_failed(peer, dial.channel, status, err);
	else
		peer->redial_tries = 0;
}

/* same_way: where the control link goes. Any other way may lead nowhere; the channel comes back to
 * this one then, but from a rail of its own that died under a peer that is up. */
static void dial_tcp(struct engine_peer *peer, uint32_t channel, uint32_t epoch, bool same_way)
{
	struct engine_session *session = peer->session;
	uint32_t rail = channel ? channel - 1 : peer->nbulk;
	struct chan_dial *dial = malloc(sizeof(*dial));
	struct ctl_dial_opts opts = {0};
	enum peer_route route = PEER_ROUTE_SAME;
	int64_t now = clock_now_ns();
	tcpx_status status;

	if (!dial) {
		peer_channel_failed(peer, channel, TCPX_ERR_NO_MEMORY, 0);
		return;
	}
	/* a dead rail is not tried for ever */
	rail = carrier_rail(session, rail + peer->redial_tries);
	if (same_way)
		peer_route_to(peer, &peer->remote, &opts);
	else
		route = peer_route_over(peer, rail, &opts);
	*dial = (struct chan_dial){
		.peer = peer,
		.channel = channel,
		.epoch = epoch,
		.elsewhere = route == PEER_ROUTE_GUESS ||
			     (route == PEER_ROUTE_DIRECT && !peer->counted_up),
	};
	data_hello(peer, &opts, WIRE_ROLE_DATA);
	if (dial->elsewhere && !peer->counted_up &&
	    opts.deadline_ns > now + (peer->connect_deadline_ns - now) / 2)
		opts.deadline_ns = now + (peer->connect_deadline_ns - now) / 2;
	opts.hello.channel = (uint16_t)channel;
	opts.hello.epoch = epoch;
	status = ctl_dial_start(&engine_runtime.loop, &opts, channel_dialled, dial, &dial->dial);
	if (status == TCPX_OK) {
		peer->chan_dial[channel] = dial;
		return;
	}
	same_way = !dial->elsewhere;
	free(dial);
	if (!same_way)
		dial_tcp(peer, channel, epoch, true);
	else if (peer->counted_up)
		peer_channel_failed(peer, channel, status, 0);
	else
		peer_die_last(peer);
}

void peer_dial_channel(struct engine_peer *peer, uint32_t channel)
{
	struct engine_session *session = peer->session;
	const char *why;
	uint32_t epoch;

	if (peer->died || peer->chan_dial[channel] || peer->shared_memory.dial[channel])
		return;
	if (comms_rests(peer, channel)) {
		peer_redial_parked(peer, channel);
		return;
	}
	epoch = comms_next_epoch(peer, channel); /* it is the one that is dialled */
	if (comms_slot(peer, channel) && comms_senseless(peer, &why)) {
		comms_give_up(peer, channel, why);
		return;
	}
	if (peer_local_dial(peer, channel, epoch) || peer->died)
		return;
	if (session->flags & TCPX_SESSION_LOCAL_ONLY)
		peer_die(peer, TCPX_ERR_UNREACHABLE, 0, "peer offers no shared memory, local only");
	else if (channel && peer->counted_up && carrier_lost(session, channel - 1))
		peer_redial_parked(peer, channel); /* the other rails have their own channels */
	else
		dial_tcp(peer, channel, epoch, false);
}

void peer_dial_channels(struct engine_peer *peer)
{
	for (uint32_t i = 0; i <= peer->nbulk && !peer->died; i++)
		peer_dial_channel(peer, i);
}

static void redial_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, redial_timer);
	uint64_t mask = peer->redial_mask;
	uint32_t i;

	(void)now_ns;
	peer->redial_mask = 0;
	for (i = 0; i <= peer->nbulk; i++)
		if ((mask & (1ull << (i < 63 ? i : 63))) && !peer->chan[i])
			peer_dial_channel(peer, i);
}

void peer_redial_later(struct engine_peer *peer, uint32_t channel)
{
	int64_t wait = REDIAL_NS << (peer->redial_tries < 6 ? peer->redial_tries : 6);

	peer->redial_mask |= 1ull << (channel < 63 ? channel : 63);
	peer->redial_timer.fn = redial_due;
	sys_timer_set(&engine_runtime.loop, &peer->redial_timer, clock_now_ns() + wait);
}

void peer_redial_parked(struct engine_peer *peer, uint32_t channel)
{
	peer->redial_mask |= 1ull << (channel < 63 ? channel : 63);
	if (!list_empty(&peer->redial_timer.node))
		return;
	peer->redial_timer.fn = redial_due;
	sys_timer_set(&engine_runtime.loop, &peer->redial_timer, clock_now_ns() + PARKED_NS);
}

void peer_redial_now(struct engine_peer *peer)
{
	if (!peer->redial_mask || !peer->counted_up || peer->died)
		return;
	peer->redial_tries = 0; /* each channel over its own rail first */
	peer->redial_timer.fn = redial_due;
	sys_timer_set(&engine_runtime.loop, &peer->redial_timer, clock_now_ns());
}

static void control_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn);

/* Its own dial has become a link meanwhile: ours ends before it is one. */
static tcpx_status not_linked(void *arg, const struct wire_hello *answer)
{
	struct engine_peer *peer = arg, *other;

	if (!memcmp(answer->uuid, peer->session->uuid, sizeof(answer->uuid)))
		return TCPX_OK; /* a session may be its own peer */
	other = peer_by_uuid(peer->session, answer->uuid, peer);
	return other ? TCPX_ERR_EXISTS : TCPX_OK;
}

/* The next address of the list; false when there is none, and the last error says why. */
static bool dial_next(struct engine_peer *peer)
{
	while (peer->addr_at < peer->naddrs) {
		struct ctl_dial_opts opts = {.hello = peer->dial_hello,
					     .deadline_ns = peer->connect_deadline_ns,
					     .agree = not_linked};
		uint32_t left = peer->naddrs - peer->addr_at;

		/* Each address gets its share of the time, the last one all of it. */
		if (left > 1)
			opts.deadline_ns = clock_now_ns() +
					   (peer->connect_deadline_ns - clock_now_ns()) / left;
		peer_route_to(peer, &peer->addrs[peer->addr_at++], &opts);
		memcpy(opts.key, peer->dial_key, sizeof(opts.key));
		if (ctl_dial_start(&engine_runtime.loop, &opts, control_dialled, peer,
				   &peer->dial) != TCPX_OK)
			continue;
		pthread_mutex_lock(&peer->lock); /* queries */
		peer->remote = opts.remote;
		pthread_mutex_unlock(&peer->lock);
		return true;
	}
	return false;
}

static void await_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, redial_timer);

	(void)now_ns;
	if (peer->core_ready || peer->died)
		return;
	peer->awaiting = false;
	peer->addr_at = 0;
	if (!dial_next(peer))
		peer_die_last(peer); /* not one dial could be started */
}

/* The other side has a link with us already, or its own dial is on the way: that link is the one.
 * A link that only the other side still believes in goes away there: the dial is tried again. */
static void exists(struct engine_peer *peer, const struct ctl_conn *conn)
{
	struct engine_session *session = peer->session;
	struct engine_peer *other;

	pthread_mutex_lock(&session->lock);
	if (conn)
		memcpy(peer->uuid, conn->remote.uuid, sizeof(peer->uuid));
	pthread_mutex_unlock(&session->lock);
	other = peer_by_uuid(session, peer->uuid, peer);
	if (other) {
		peer->same_as = other->slot_id;
		peer_die(peer, TCPX_ERR_EXISTS, 0, "linked already");
		return;
	}
	peer->awaiting = true;
	peer->redial_timer.fn = await_due;
	sys_timer_set(&engine_runtime.loop, &peer->redial_timer, clock_now_ns() + 50 * CLOCK_MS_NS);
}

static void control_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct engine_peer *peer = arg;
	char text[SYS_ADDR_TEXT], what[256];

	peer->dial = NULL;
	if (status == TCPX_OK) {
		status = peer_control_up(peer, conn, true);
		if (status != TCPX_OK)
			peer_die(peer, status, 0, tcpx_last_error()->what);
		return;
	}
	if (status == TCPX_ERR_EXISTS) {
		exists(peer, conn);
		return;
	}
	if (status != TCPX_ERR_AUTH && status != TCPX_ERR_VERSION && dial_next(peer))
		return;
	snprintf(what, sizeof(what), "connecting to %s: %s", sys_addr_text(&peer->remote, text),
		 tcpx_status_text(status));
	peer_die(peer, status, err, what);
}

static void connect_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, connect_timer);
	char text[SYS_ADDR_TEXT], what[128];

	(void)now_ns;
	if (comms_hurry(peer))
		return;
	snprintf(what, sizeof(what), "connecting to %s: no answer in time",
		 sys_addr_text(&peer->remote, text));
	peer_die(peer, TCPX_ERR_TIMED_OUT, 0, what);
}

void peer_connect_timer(struct engine_peer *peer)
{
	peer->connect_timer.fn = connect_due;
	sys_timer_set(&engine_runtime.loop, &peer->connect_timer,
		      peer->connect_deadline_ns + 20 * CLOCK_MS_NS);
}

/* Control thread: everything about the dial is in the peer already. */
void peer_dial_start(struct engine_peer *peer)
{
	if (peer->core_ready || peer->died)
		return; /* the peer's own dial was quicker */
	peer_connect_timer(peer);
	if (!dial_next(peer))
		peer_die_last(peer); /* not one dial could be started */
}

static void control_again(void *arg, tcpx_status status, int err, const struct ctl_conn *conn)
{
	struct engine_peer *peer = arg;

	(void)err;
	peer->dial = NULL;
	if (status == TCPX_OK) {
		peer_control_again(peer, conn);
		return;
	}
	if (status == TCPX_ERR_STALE) {
		peer_die(peer, TCPX_ERR_PEER_CLOSED, 0, "peer does not know the link any more");
		return;
	}
	peer_control_later(peer);
}

static void control_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, connect_timer);

	(void)now_ns;
	peer_dial_control(peer);
}

/* Control thread: the connect timer is free once the peer is up. */
void peer_control_later(struct engine_peer *peer)
{
	peer->connect_timer.fn = control_due;
	sys_timer_set(&engine_runtime.loop, &peer->connect_timer,
		      clock_now_ns() + 100 * CLOCK_MS_NS);
}

/* The control link again, over another rail each time. */
void peer_dial_control(struct engine_peer *peer)
{
	struct ctl_dial_opts opts = {0};
	int64_t limit = peer->ctl_lost_ns + peer->session->silent_ns;

	if (peer->died || peer->dial || peer->ctl)
		return;
	peer->ctl_tries++; /* never the rail that was lost first */
	if (peer_route_over(peer, carrier_rail(peer->session, peer->ctl_tries), &opts) ==
		    PEER_ROUTE_GUESS &&
	    peer->ctl_tries % 2 == 0)
		peer_route_to(peer, &peer->remote, &opts);
	data_hello(peer, &opts, WIRE_ROLE_CONTROL);
	opts.deadline_ns = clock_now_ns() + CLOCK_S_NS;
	if (opts.deadline_ns > limit)
		opts.deadline_ns = limit;
	if (ctl_dial_start(&engine_runtime.loop, &opts, control_again, peer, &peer->dial) !=
	    TCPX_OK) {
		peer->dial = NULL;
		peer_control_later(peer);
	}
}

void peer_dial_cancel(struct engine_peer *peer)
{
	if (peer->dial)
		ctl_dial_cancel(peer->dial);
	peer->dial = NULL;
	peer_local_cancel(peer);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (peer->chan_dial[i])
			ctl_dial_cancel(peer->chan_dial[i]->dial);
		free(peer->chan_dial[i]);
		peer->chan_dial[i] = NULL;
	}
}
