/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling side of a link: control link, data channels, and both again when they are lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/calls.h"
#include "engine/carrier.h"
#include "engine/comms.h"
#include "engine/path_mtu.h"
#include "engine/peer_route.h"
#include "engine/rails.h"
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define REDIAL_NS (50 * CLOCK_MS_NS)
#define PATIENCE_NS (3 * CLOCK_S_NS) /* with a rail that may be coming up */
#define PARKED_NS (5 * CLOCK_S_NS)   /* normally the carrier's return ends it */

/* A connection that is dialled: in peer->dial, or of a data channel in peer->chan_dial, until it
 * stands, failed or was cancelled. */
struct peer_dial {
	struct ctl_race *race;
	struct engine_peer *peer;
	uint32_t channel, epoch; /* of a data channel */
	unsigned count;
	struct peer_way ways[PEER_WAYS];
	tcpx_status missed[PEER_WAYS];
};

static struct peer_dial *dial_new(struct engine_peer *peer)
{
	struct peer_dial *dial = calloc(1, sizeof(*dial));

	if (dial)
		dial->peer = peer;
	else
		error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for a connection attempt");
	return dial;
}

void peer_channel_failed(struct engine_peer *peer, uint32_t channel, tcpx_status status, int err)
{
	char what[128];

	if (comms_slot(peer, channel) && !peer->counted_up) {
		comms_give_up(peer, channel, tcpx_status_text(status));
	} else if (!peer->counted_up) {
		text_format(what, sizeof(what), "data channel %u: %s", channel,
			    tcpx_status_text(status));
		peer_die(peer, status, err, what);
		return;
	}
	peer->redial_tries++;
	peer_redial_later(peer, channel);
}

static void channel_missed(void *arg, unsigned at, tcpx_status status, int err)
{
	struct peer_dial *dial = arg;

	(void)err;
	dial->missed[at] = status;
}

/* A way led to the peer: those that did not are to blame themselves. */
static void judge_rails(const struct peer_dial *dial, uint32_t taken)
{
	struct engine_peer *peer = dial->peer;
	uint32_t home = peer_route_home(peer, dial->channel);
	struct peer_way way;

	for (unsigned i = 0; i < dial->count; i++)
		if (dial->missed[i])
			rail_failed(peer, &dial->ways[i], dial->missed[i]);
	rail_works(peer, taken);
	if (carrier_lost(peer->session, home) && peer_route_over(peer, home, &way))
		rail_failed(peer, &way, TCPX_ERR_UNREACHABLE);
}

static void channel_dialled(void *arg, unsigned at, tcpx_status status, int err,
			    const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	uint32_t channel = dial->channel, epoch = dial->epoch, rail = dial->ways[at].rail;
	struct net_chan *net;

	if (status == TCPX_OK)
		judge_rails(dial, rail);
	free(dial);
	peer->chan_dial[channel] = NULL;
	if (status == TCPX_OK) {
		peer->rails.of_channel[channel] =
			(uint8_t)rail; /* NONE is no rail's number either */
		sys_sock_congestion_fit(conn->fd, config_text(CONFIG_CONGESTION));
		status = net_tcp_wrap(conn->fd, &net);
		if (status != TCPX_OK)
			sys_fd_close(conn->fd);
	}
	if (status == TCPX_OK)
		status = peer_attach(peer, channel, epoch, net);
	if (status != TCPX_OK)
		peer_channel_failed(peer, channel, status, err);
	else
		peer->redial_tries = 0;
}

/* A peer that connects waits for all its channels; one that is up has others meanwhile. */
static int64_t head_start(const struct engine_peer *peer)
{
	int64_t start = peer->counted_up ? PATIENCE_NS : CTL_HEAD_START_NS;

	return 3 * peer->rails.took_ns > start ? 3 * peer->rails.took_ns : start;
}

/* Any way but the control link's may lead nowhere: the next ones start before it has failed. */
static void dial_tcp(struct engine_peer *peer, uint32_t channel, uint32_t epoch)
{
	struct ctl_dial_opts opts[PEER_WAYS] = {0};
	struct ctl_race_opts race = {
		.ways = opts,
		.head_start_ns = head_start(peer),
		.missed = channel_missed,
		.done = channel_dialled,
	};
	struct peer_dial *dial = dial_new(peer);
	tcpx_status status;

	if (!dial) {
		peer_channel_failed(peer, channel, TCPX_ERR_NO_MEMORY, 0);
		return;
	}
	dial->channel = channel;
	dial->epoch = epoch;
	race.count = dial->count = peer_route_channel(peer, channel, dial->ways);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->ways[i], &opts[i]);
		peer_route_hello(peer, &opts[i], WIRE_ROLE_DATA);
		opts[i].hello.channel = (uint16_t)channel;
		opts[i].hello.epoch = epoch;
		opts[i].segment_bytes = path_mtu_channel(peer, dial->ways[i].rail);
	}
	status = ctl_race_start(&engine_runtime.loop, &race, dial, &dial->race);
	if (status == TCPX_OK) {
		peer->chan_dial[channel] = dial;
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
		dial_tcp(peer, channel, epoch);
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

/* Its own dial has become a link meanwhile: ours ends before it is one. */
static tcpx_status not_linked(void *arg, const struct wire_hello *answer)
{
	struct engine_peer *peer = ((struct peer_dial *)arg)->peer, *other;

	if (!memcmp(answer->uuid, peer->session->uuid, sizeof(answer->uuid)))
		return TCPX_OK; /* a session may be its own peer */
	other = peer_by_uuid(peer->session, answer->uuid, peer);
	if (!other)
		return TCPX_OK;
	peer_put(other);
	return TCPX_ERR_EXISTS;
}

static void control_missed(void *arg, unsigned at, tcpx_status status, int err)
{
	const struct peer_dial *dial = arg;
	char text[SYS_ADDR_TEXT];

	(void)err;
	if (dial->count > 1)
		LOG_INFO("peer '%s': no link by %s: %s", dial->peer->name,
			 sys_addr_text(&dial->ways[at].remote, text), tcpx_status_text(status));
}

static void control_dialled(void *arg, unsigned at, tcpx_status status, int err,
			    const struct ctl_conn *conn);

/* Dials every address, one after another with a head start; false when none could be dialled, and
 * the last error says why. */
static bool dial_control(struct engine_peer *peer)
{
	struct ctl_dial_opts opts[PEER_WAYS] = {0};
	struct ctl_race_opts race = {
		.ways = opts,
		.head_start_ns = CTL_HEAD_START_NS,
		.agree = not_linked,
		.missed = control_missed,
		.done = control_dialled,
	};
	struct peer_dial *dial = dial_new(peer);

	if (!dial)
		return false;
	race.count = dial->count = peer_route_first(peer, dial->ways);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->ways[i], &opts[i]);
		opts[i].hello = peer->dial_hello;
		opts[i].segment_bytes = path_mtu_control(&dial->ways[i]);
		opts[i].deadline_ns = peer->connect_deadline_ns;
		memcpy(opts[i].key, peer->dial_key, sizeof(opts[i].key));
	}
	peer->rails.dialled_ns = clock_now_ns();
	if (ctl_race_start(&engine_runtime.loop, &race, dial, &dial->race) != TCPX_OK) {
		free(dial);
		return false;
	}
	peer->dial = dial;
	pthread_mutex_lock(&peer->lock); /* queries */
	peer->remote = dial->ways[0].remote;
	pthread_mutex_unlock(&peer->lock);
	return true;
}

static void await_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, redial_timer);

	(void)now_ns;
	if (peer->core_ready || peer->died)
		return;
	peer->awaiting = false;
	if (!dial_control(peer))
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
		peer_put(other);
		/* Who used the handle meanwhile is told to use it again, and gets that link. */
		peer_die(peer, peer->lent ? TCPX_ERR_PEER_CLOSED : TCPX_ERR_EXISTS, 0,
			 "linked already");
		return;
	}
	peer->awaiting = true;
	peer->redial_timer.fn = await_due;
	sys_timer_set(&engine_runtime.loop, &peer->redial_timer, clock_now_ns() + 50 * CLOCK_MS_NS);
}

static void control_dialled(void *arg, unsigned at, tcpx_status status, int err,
			    const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	struct peer_way way = dial->ways[at];
	char text[SYS_ADDR_TEXT], what[256];

	free(dial);
	peer->dial = NULL;
	if (status == TCPX_OK) {
		peer->rails.local = way.local;
		/* Without the head starts of those before it. */
		peer->rails.took_ns =
			clock_now_ns() - peer->rails.dialled_ns - at * CTL_HEAD_START_NS;
		status = peer_control_up(peer, conn, true);
		if (status != TCPX_OK)
			peer_die(peer, status, 0, tcpx_last_error()->what);
		return;
	}
	if (status == TCPX_ERR_EXISTS) {
		exists(peer, conn);
		return;
	}
	text_format(what, sizeof(what), "connecting to %s: %s", sys_addr_text(&way.remote, text),
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
	text_format(what, sizeof(what), "connecting to %s: no answer in time",
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
	if (!dial_control(peer))
		peer_die_last(peer); /* not one dial could be started */
}

static void control_again(void *arg, unsigned at, tcpx_status status, int err,
			  const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	struct sockaddr_storage local = dial->ways[at].local;

	(void)err;
	free(dial);
	peer->dial = NULL;
	if (status == TCPX_OK) {
		peer->rails.local = local;
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
	struct ctl_dial_opts opts[PEER_WAYS] = {0};
	struct ctl_race_opts race = {
		.ways = opts, .head_start_ns = CTL_HEAD_START_NS, .done = control_again};
	int64_t limit = peer->ctl_lost_ns + peer->session->silent_ns;
	struct peer_dial *dial;

	if (peer->died || peer->dial || peer->ctl)
		return;
	peer->ctl_tries++; /* never the rail that was lost first */
	dial = dial_new(peer);
	if (!dial) {
		peer_control_later(peer);
		return;
	}
	race.count = dial->count =
		peer_route_again(peer, peer->ctl_tries % peer->session->nrails, dial->ways);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->ways[i], &opts[i]);
		peer_route_hello(peer, &opts[i], WIRE_ROLE_CONTROL);
		opts[i].segment_bytes = path_mtu_control(&dial->ways[i]);
		opts[i].deadline_ns = clock_now_ns() + CLOCK_S_NS;
		if (opts[i].deadline_ns > limit)
			opts[i].deadline_ns = limit;
	}
	if (ctl_race_start(&engine_runtime.loop, &race, dial, &dial->race) == TCPX_OK) {
		peer->dial = dial;
		return;
	}
	free(dial);
	peer_control_later(peer);
}

static void cancel(struct peer_dial **dial)
{
	if (*dial)
		ctl_race_cancel((*dial)->race);
	free(*dial);
	*dial = NULL;
}

void peer_dial_cancel(struct engine_peer *peer)
{
	cancel(&peer->dial);
	peer_local_cancel(peer);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++)
		cancel(&peer->chan_dial[i]);
	rail_probe_cancel(peer);
}
