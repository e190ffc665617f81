/* SPDX-License-Identifier: Apache-2.0 */
/* The dialling side of a control connection: dials it, and dials it again when it is lost. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/peer/peer_calls.h"
#include "engine/channel/comms.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/peer_dial.h"
#include "sys/addr.h"

/* Whether the session that answers has proved its key. */
static bool dial_is_proven(const struct engine_session *session, const struct wire_hello *answer)
{
	return session->identity.own.there && answer->identity.there;
}

#define OTHER_KEY "the session that answers has another key than expected"
#define OTHER_KEY_NEXT "compare the expected key with the key of the other side"

/* Refuses an authenticated answer and returns `status`. Keeps the error in dial->refusal, from
 * where the caller of the connect gets it. */
static tcpx_status dial_refuse(struct peer_dial *dial, tcpx_status status, const char *what,
			       const char *next)
{
	error_set(status, 0, "%s", what);
	error_next("%s", next);
	dial->refusal = *error_last();
	return status;
}

/* Checks the session that answered. Returns ERR_AUTH if it has not proved the expected key, and
 * ERR_INVALID if it is this session itself, unless this session's own info was dialled. Returns
 * ERR_EXISTS if this session has another link with, or another dial to, that session. */
static tcpx_status dial_agrees(void *arg, const struct wire_hello *answer)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer, *other;
	struct engine_session *session = peer->link.session;
	bool proven = dial_is_proven(session, answer);

	if (peer->who.expects && (!proven || memcmp(answer->identity.key, peer->who.expected,
						    sizeof(peer->who.expected)) != 0))
		return dial_refuse(dial, TCPX_ERR_AUTH, OTHER_KEY, OTHER_KEY_NEXT);
	if (!memcmp(answer->uuid, session->uuid, sizeof(answer->uuid)))
		return !memcmp(peer->dialling.hello.want_uuid, session->uuid, sizeof(answer->uuid))
			       ? TCPX_OK /* this session dialled itself by its own info */
			       : dial_refuse(
					 dial, TCPX_ERR_INVALID, "this session itself answered",
					 "name another session's address; a session connects to "
					 "itself by its connection info");
	other = peer_by_uuid(session, answer->uuid, proven, peer);
	if (!other)
		return TCPX_OK;
	peer_put(other);
	return TCPX_ERR_EXISTS;
}

static void dial_control_missed(void *arg, unsigned at, tcpx_status status, int err)
{
	const struct peer_dial *dial = arg;
	char text[SYS_ADDR_TEXT];

	(void)err;
	if (dial->count > 1)
		LOG_INFO("peer '%s': no link by %s: %s", dial->peer->who.name,
			 sys_addr_text(&dial->routes[at].remote, text), error_status_text(status));
}

static void dial_control_done(void *arg, unsigned at, tcpx_status status, int err,
			      const struct ctl_conn *conn);

/* Dials all routes in a race. Each begins a head start after the one before it, or as soon as a
 * route has failed. Returns false and sets the last error if no dial could be started. */
static bool dial_control_start(struct engine_peer *peer)
{
	struct ctl_dial_opts opts[PEER_ROUTES] = {0};
	struct ctl_race_opts race = {
		.routes = opts,
		.head_start_ns = CTL_HEAD_START_NS,
		.agree = dial_agrees,
		.missed = dial_control_missed,
		.done = dial_control_done,
	};
	struct peer_dial *dial = peer_dial_new(peer);

	if (!dial)
		return false;
	race.count = dial->count = peer_route_first(peer, dial->routes);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->routes[i], &opts[i]);
		opts[i].hello = peer->dialling.hello;
		opts[i].identity = &peer->link.session->identity.own;
		opts[i].segment_bytes = path_mtu_control(&dial->routes[i]);
		opts[i].deadline_ns = peer->dialling.deadline_ns;
		memcpy(opts[i].key, peer->dialling.key, sizeof(opts[i].key));
	}
	peer->rails.dialled_ns = clock_now_ns();
	if (peer_dial_race(dial, &race, opts) != TCPX_OK) {
		free(dial);
		return false;
	}
	peer->dialling.control = dial;
	link_lock(&peer->link); /* other threads query the peer */
	peer->address.remote = dial->routes[0].remote;
	link_unlock(&peer->link);
	return true;
}

/* Called after a pause: dials again, unless the peer's own dial has become the link or the peer is
 * dead. */
static void dial_await_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, dialling.redial_timer);

	(void)now_ns;
	if (peer->link.core_ready || peer->died)
		return;
	peer->reconnect.awaiting = false;
	if (!dial_control_start(peer))
		peer_die_last(peer); /* no dial could be started */
}

/* Called when the dial ended with ERR_EXISTS: the peer refused it, because the peer has a link with
 * this session or dials it, or dial_agrees() returned the status. If this end has another link with
 * that session, or dials it a second time, ends `peer`, so that the other link or dial is used. The
 * error is ERR_AUTH if the other one has not proved the expected key. If there is no other one,
 * waits a short time and dials again. In that time the peer's link may end, or the peer's dial may
 * arrive. */
static void dial_exists(struct engine_peer *peer, const struct ctl_conn *conn)
{
	struct engine_session *session = peer->link.session;
	struct engine_peer *other;

	session_lock(session);
	if (conn) {
		memcpy(peer->who.uuid, conn->remote.uuid, sizeof(peer->who.uuid));
		peer->who.keyed = dial_is_proven(session, &conn->remote);
	}
	session_unlock(session);
	other = peer_by_uuid(session, peer->who.uuid, peer->who.keyed, peer);
	if (other && !peer_is_expected(other, peer)) {
		error_set(TCPX_ERR_AUTH, 0, "%s", OTHER_KEY);
		error_next("%s", OTHER_KEY_NEXT);
		peer_put(other);
		peer_die_last(peer);
		return;
	}
	if (other) {
		peer->dialling.duplicate_of = other->app_handle;
		peer_put(other);
		/* If the handle had a link before (successor), requests that were posted to `peer`
		 * end with PEER_CLOSED; the next use of the handle gets the other link. */
		peer_die(peer, peer->reconnect.successor ? TCPX_ERR_PEER_CLOSED : TCPX_ERR_EXISTS,
			 0, "already linked");
		return;
	}
	peer->reconnect.awaiting = true;
	peer->dialling.redial_timer.fn = dial_await_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.redial_timer,
		      clock_now_ns() + 50 * CLOCK_MS_NS);
}

/* Sets the last error of a failed dial: the general text of the status, and in brackets the dial's
 * own text if that says more. The dial's own text begins with the address. */
static void raise_dial_error(const struct sockaddr_storage *remote, tcpx_status status, int err)
{
	tcpx_error cause = *error_last();
	char address[SYS_ADDR_TEXT];
	const char *general = error_status_text(status), *said = cause.what;
	size_t len = strlen(sys_addr_text(remote, address));

	if (cause.status != status || strncmp(said, address, len) != 0 || said[len] != ':') {
		error_set(status, err, "connecting to %s: %s", address, general);
		return;
	}
	said += len + 2;
	if (!strncmp(said, general, strlen(general)))
		error_set(status, 0, "connecting to %s: %s", address, said);
	else
		error_set(status, 0, "connecting to %s: %s (%s)", address, general, said);
	error_next("%s", cause.next);
	cause = *error_last();
	cause.system_errno = err; /* `said` already contains the text of `err` */
	error_raise(&cause);
}

/* Called when a dial of a link's first control connection has ended. On success starts the link; on
 * ERR_EXISTS calls dial_exists(); otherwise ends the peer with the error of the dial. */
static void dial_control_done(void *arg, unsigned at, tcpx_status status, int err,
			      const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	struct peer_route route = dial->routes[at];
	tcpx_error refusal = dial->refusal;
	char text[SYS_ADDR_TEXT];

	free(dial);
	peer->dialling.control = NULL;
	if (status == TCPX_OK) {
		peer->rails.local = route.local;
		/* without the head starts of the routes before this one */
		peer->rails.took_ns =
			clock_now_ns() - peer->rails.dialled_ns - at * CTL_HEAD_START_NS;
		status = peer_control_up(peer, conn, true);
		if (status != TCPX_OK)
			peer_die(peer, status, 0, error_last()->what);
		return;
	}
	if (status == TCPX_ERR_EXISTS) {
		dial_exists(peer, conn);
		return;
	}
	if (status == TCPX_ERR_BUSY) {
		error_set(status, 0, "connecting to %s: it has reached its limit of peers",
			  sys_addr_text(&route.remote, text));
		error_next("raise TCPX_MAX_PEERS there, or wait until others have left");
		peer_die_last(peer);
		return;
	}
	if (refusal.status == status) {
		error_set(status, 0, "connecting to %s: %s", sys_addr_text(&route.remote, text),
			  refusal.what);
		error_next("%s", refusal.next);
		peer_die_last(peer);
		return;
	}
	raise_dial_error(&route.remote, status, err);
	peer_die_last(peer);
}

/* Starts the dial of a peer whose addresses and authentication are set. Control thread. */
void peer_dial_start(struct engine_peer *peer)
{
	if (peer->link.core_ready || peer->died)
		return; /* the peer's own dial became the link, or the peer died */
	peer_connect_timer(peer);
	if (!dial_control_start(peer))
		peer_die_last(peer); /* no dial could be started */
}

/* Called when an attempt to dial a lost control connection has ended. */
static void dial_control_again(void *arg, unsigned at, tcpx_status status, int err,
			       const struct ctl_conn *conn)
{
	struct peer_dial *dial = arg;
	struct engine_peer *peer = dial->peer;
	struct sockaddr_storage local = dial->routes[at].local;

	(void)err;
	free(dial);
	peer->dialling.control = NULL;
	if (status == TCPX_OK) {
		peer->rails.local = local;
		peer_control_again(peer, conn);
		return;
	}
	if (status == TCPX_ERR_STALE) {
		peer_die(peer, TCPX_ERR_PEER_CLOSED, 0, "peer no longer knows the link");
		return;
	}
	peer_control_later(peer);
}

static void dial_control_due(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_peer *peer = LIST_ENTRY(timer, struct engine_peer, dialling.connect_timer);

	(void)now_ns;
	peer_dial_control(peer);
}

/* Dials the control connection again after 100 ms. Uses connect_timer, which is free once the peer
 * is up. Control thread. */
void peer_control_later(struct engine_peer *peer)
{
	peer->dialling.connect_timer.fn = dial_control_due;
	sys_timer_set(&engine_runtime.loop, &peer->dialling.connect_timer,
		      clock_now_ns() + 100 * CLOCK_MS_NS);
}

/* Dials a lost control connection again. Each attempt begins with the next rail. */
void peer_dial_control(struct engine_peer *peer)
{
	struct ctl_dial_opts opts[PEER_ROUTES] = {0};
	struct ctl_race_opts race = {
		.routes = opts, .head_start_ns = CTL_HEAD_START_NS, .done = dial_control_again};
	int64_t limit = peer->control.lost_ns + peer->link.session->tuning.silent_ns;
	struct peer_dial *dial;

	if (peer->died || peer->dialling.control || peer->control.link)
		return;
	peer->dialling.control_tries++;
	dial = peer_dial_new(peer);
	if (!dial) {
		peer_control_later(peer);
		return;
	}
	race.count = dial->count = peer_route_again(
		peer, peer->dialling.control_tries % peer->link.session->rails.count, dial->routes);
	for (unsigned i = 0; i < race.count; i++) {
		peer_route_opts(&dial->routes[i], &opts[i]);
		peer_route_hello(peer, &opts[i], WIRE_ROLE_CONTROL);
		opts[i].segment_bytes = path_mtu_control(&dial->routes[i]);
		opts[i].deadline_ns = clock_now_ns() + CLOCK_S_NS;
		if (opts[i].deadline_ns > limit)
			opts[i].deadline_ns = limit;
	}
	if (peer_dial_race(dial, &race, opts) == TCPX_OK) {
		peer->dialling.control = dial;
		return;
	}
	free(dial);
	peer_control_later(peer);
}
