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
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/iface.h"
#include "sys/sock.h"

#define LOCAL_RING_BYTES (2u << 20) /* measured: docs/design/local.md */
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

/* The local end of a connection: the rail of that number, if it has the remote address's family. */
static void pick_local(const struct engine_session *session, uint32_t rail,
		       struct ctl_dial_opts *opts)
{
	uint64_t ports = config_u64(CONFIG_SOURCE_PORTS);

	opts->port_lo = (uint16_t)(ports >> 16);
	opts->port_hi = (uint16_t)ports;
	opts->device = config_text(CONFIG_BIND_DEVICE);
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

/* The peer's address for a rail: one in the rail's own subnet, else one of its family by number. */
static void pick_remote(const struct engine_peer *peer, uint32_t rail, struct sockaddr_storage *out)
{
	const struct engine_session *session = peer->session;
	struct sys_iface *ifaces = NULL;
	unsigned count = 0, i;
	const struct sockaddr_storage *local;

	*out = peer->remote;
	if (!session->bound || !peer->naddrs)
		return;
	local = &session->rails[rail % session->nrails];
	if (sys_iface_list(&ifaces, &count) != TCPX_OK)
		count = 0;
	for (uint32_t a = 0; a < peer->naddrs; a++) {
		const struct sockaddr_storage *addr = &peer->addrs[(rail + a) % peer->naddrs];

		for (i = 0; i < count; i++) {
			if (!sys_addr_same_host(&ifaces[i].addr, local) ||
			    !sys_iface_direct(&ifaces[i], addr))
				continue;
			*out = *addr;
			free(ifaces);
			return;
		}
	}
	free(ifaces);
	for (uint32_t a = 0; a < peer->naddrs; a++) {
		const struct sockaddr_storage *addr = &peer->addrs[(rail + a) % peer->naddrs];

		if (addr->ss_family == local->ss_family) {
			*out = *addr;
			return;
		}
	}
}

static void data_hello(struct engine_peer *peer, struct ctl_dial_opts *opts, uint8_t role)
{
	opts->hello = (struct wire_hello){
		.role = role,
		.auth = (uint8_t)ctl_data_auth((enum wire_auth)peer->dial_hello.auth,
					       sys_addr_is_loopback(&peer->remote)),
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
};

static void channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err)
{
	char what[96];

	if (!peer->counted_up) {
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
	struct chan_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	const char *congestion = config_text(CONFIG_CONGESTION);
	struct net_chan *net;
	uint32_t channel = dial->channel, epoch = dial->epoch;

	free(dial);
	peer->chan_dial[channel] = NULL;
	if (status == TCPX_OK) {
		if (*congestion)
			sys_sock_congestion_set(conn->fd, congestion);
		status = net_tcp_wrap(conn->fd, &net);
		if (status != TCPX_OK)
			close(conn->fd);
	}
	if (status == TCPX_OK)
		status = peer_attach(peer, channel, epoch, net);
	if (status != TCPX_OK)
		channel_failed(peer, channel, status, err);
	else
		peer->redial_tries = 0;
}

/* False: it is to be dialled over tcp. */
static bool dial_local(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct engine_session *session = peer->session;
	struct net_chan *net;
	tcpx_status status;

	if (!peer->have_local_offer || (session->flags & TCPX_SESSION_NO_LOCAL))
		return false;
	status = local_dial(peer->local_name, peer->local_nonce, (uint16_t)channel, epoch,
			    LOCAL_RING_BYTES, &net);
	if (status == TCPX_ERR_NO_DESCRIPTORS || status == TCPX_ERR_NO_MEMORY) {
		channel_failed(peer, channel, status, tcpx_last_error()->system_errno);
		return true;
	}
	if (status != TCPX_OK) {
		peer->have_local_offer = false; /* another host: said once, then tcp */
		LOG_INFO("peer '%s' is not on this host: tcp", peer->name);
		return false;
	}
	return peer_attach(peer, channel, epoch, net) == TCPX_OK;
}

void peer_dial_channel(struct engine_peer *peer, uint32_t channel)
{
	struct engine_session *session = peer->session;
	uint32_t rail = channel ? channel - 1 : peer->nbulk, epoch;
	struct chan_dial *dial;
	struct ctl_dial_opts opts = {0};
	tcpx_status status;

	if (peer->died || peer->chan_dial[channel])
		return;
	pthread_mutex_lock(&peer->lock);
	epoch = peer->core.chan[channel].epoch + 1;
	pthread_mutex_unlock(&peer->lock);
	if (dial_local(peer, channel, epoch) || peer->died)
		return;
	if (session->flags & TCPX_SESSION_LOCAL_ONLY) {
		peer_die(peer, TCPX_ERR_UNREACHABLE, 0, "peer is not on this host, local only");
		return;
	}
	if (channel && peer->counted_up && carrier_lost(session, rail)) {
		peer_redial_parked(peer, channel); /* the other rails have their own channels */
		return;
	}
	dial = malloc(sizeof(*dial));
	if (!dial) {
		channel_failed(peer, channel, TCPX_ERR_NO_MEMORY, 0);
		return;
	}
	*dial = (struct chan_dial){.peer = peer, .channel = channel, .epoch = epoch};
	data_hello(peer, &opts, WIRE_ROLE_DATA);
	/* a dead rail is not tried for ever */
	rail = carrier_rail(session, rail + peer->redial_tries);
	pick_remote(peer, rail, &opts.remote);
	pick_local(session, rail, &opts);
	opts.hello.channel = (uint16_t)channel;
	opts.hello.epoch = epoch;
	status = ctl_dial_start(&engine_runtime.loop, &opts, channel_dialled, dial, &dial->dial);
	if (status != TCPX_OK) {
		free(dial);
		if (peer->counted_up)
			channel_failed(peer, channel, status, 0);
		else
			peer_die_last(peer);
		return;
	}
	peer->chan_dial[channel] = dial;
}

void peer_dial_channels(struct engine_peer *peer)
{
	for (uint32_t i = 0; i <= peer->nbulk && !peer->died; i++)
		peer_dial_channel(peer, i);
}

static void control_dialled(void *arg, tcpx_status status, int err, const struct ctl_conn *conn);

/* The next address of the list; false when there is none, and the last error says why. */
static bool dial_next(struct engine_peer *peer)
{
	struct engine_session *session = peer->session;

	while (peer->addr_at < peer->naddrs) {
		struct ctl_dial_opts opts = {.hello = peer->dial_hello,
					     .deadline_ns = peer->connect_deadline_ns};
		uint32_t left = peer->naddrs - peer->addr_at;

		/* Each address gets its share of the time, the last one all of it. */
		if (left > 1)
			opts.deadline_ns = clock_now_ns() +
					   (peer->connect_deadline_ns - clock_now_ns()) / left;
		opts.remote = peer->addrs[peer->addr_at++];
		memcpy(opts.key, peer->dial_key, sizeof(opts.key));
		pick_local(session, carrier_rail(session, 0), &opts);
		pthread_mutex_lock(&peer->lock); /* queries */
		peer->remote = opts.remote;
		pthread_mutex_unlock(&peer->lock);
		if (ctl_dial_start(&engine_runtime.loop, &opts, control_dialled, peer,
				   &peer->dial) == TCPX_OK)
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
	uint32_t rail;

	if (peer->died || peer->dial || peer->ctl)
		return;
	peer->ctl_tries++; /* never the rail that was lost first */
	data_hello(peer, &opts, WIRE_ROLE_CONTROL);
	rail = carrier_rail(peer->session, peer->ctl_tries);
	pick_remote(peer, rail, &opts.remote);
	pick_local(peer->session, rail, &opts);
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
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (peer->chan_dial[i])
			ctl_dial_cancel(peer->chan_dial[i]->dial);
		free(peer->chan_dial[i]);
		peer->chan_dial[i] = NULL;
	}
}
