/* SPDX-License-Identifier: Apache-2.0 */
/* The accepting side: which dials are allowed, how they are answered, and the links that result. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/peer/peer_calls.h"
#include "engine/channel/comms.h"
#include "engine/request/pending.h"
#include "engine/link/place.h"
#include "engine/path/share.h"
#include "net/transport.h"
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/sock.h"

/* time limit for all channels of an accepted peer to come up */
#define ACCEPT_NS (10 * CLOCK_S_NS)

/* Returns the live peer whose dial this session accepted as link `link_id`, or NULL if there is
 * none. The caller gets no reference and needs none: it runs on the control thread, and only that
 * thread ends peers. */
static struct engine_peer *peer_by_link(struct engine_session *session, uint64_t link_id)
{
	struct engine_peer *found = NULL;
	struct list_node *pos;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (!peer->died && !peer->dialler && peer->control.link_id == link_id && link_id) {
			found = peer;
			break;
		}
	}
	session_unlock(session);
	return found;
}

/* Whether the dial belongs to an existing link: a data channel, or a control connection dialled
 * again. */
static bool accept_is_of_link(const struct wire_hello *dial)
{
	return dial->role == WIRE_ROLE_DATA || dial->auth == WIRE_AUTH_LINK ||
	       (dial->auth == WIRE_AUTH_BARE && dial->key_id);
}

/* Copies the key with which a dial must prove itself and returns 1. Returns 0 if the dial is
 * refused. */
static int accept_key(void *arg, const struct wire_hello *dial, int loopback,
		      uint8_t key[CTL_KEY_BYTES])
{
	struct engine_session *session = arg;
	struct engine_peer *peer;

	if (accept_is_of_link(dial)) {
		peer = peer_by_link(session, dial->key_id);
		if (!peer || dial->auth != ctl_data_auth((enum wire_auth)peer->dialling.hello.auth,
							 loopback))
			return 0;
		memcpy(key, peer->control.key, CTL_KEY_BYTES);
		return 1;
	}
	switch (dial->auth) {
	case WIRE_AUTH_SECRET:
		memcpy(key, session->secret, CTL_KEY_BYTES);
		return 1;
	case WIRE_AUTH_BARE:
		memcpy(key, session->secret, CTL_KEY_BYTES);
		return loopback;
	case WIRE_AUTH_KEY:
		if (session->flags & TCPX_SESSION_INFO_ONLY)
			return 0;
		for (unsigned i = 0; i < session->keys.count; i++) {
			if (session->keys.id[i] != dial->key_id)
				continue;
			memcpy(key, session->keys.key[i], CTL_KEY_BYTES);
			return 1;
		}
		return 0;
	case WIRE_AUTH_NONE:
		if (session->flags & TCPX_SESSION_INFO_ONLY)
			return 0;
		memset(key, 0, CTL_KEY_BYTES);
		return (session->flags & TCPX_SESSION_INSECURE) ||
		       (loopback && !session->keys.count);
	default:
		return 0;
	}
}

static bool accept_same_uuid(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, WIRE_UUID_BYTES);
}

/* Whether a dial must be answered with ERR_EXISTS, because this session keeps an existing link or
 * its own dial instead. Two sessions have only one link with each other. A link whose control
 * connection has come up is kept. Of two simultaneous dials, the dial of the session with the lower
 * uuid is kept. */
static bool accept_own_dial_wins(struct engine_session *session, const struct wire_hello *dial)
{
	struct engine_peer *peer;
	bool wins;

	if (accept_same_uuid(dial->uuid, session->uuid))
		return false; /* a session may connect to itself */
	peer = peer_by_uuid(session, dial->uuid,
			    session->identity.own.there && dial->identity.there, NULL);
	if (!peer)
		return false;
	wins = peer->link.core_ready || (peer->dialler && !peer->reconnect.awaiting &&
					 memcmp(session->uuid, dial->uuid, WIRE_UUID_BYTES) < 0);
	peer_put(peer);
	return wins;
}

/* Fills in the answer to a dial: a refusal (answer->status), or what the two ends agree on, such as
 * the number of channels. Called before the dialler has sent the last message of the handshake. */
static void accept_answer(void *arg, const struct wire_hello *dial,
			  const struct sockaddr_storage *from, struct wire_hello *answer)
{
	static const uint8_t anyone[WIRE_UUID_BYTES];
	struct engine_session *session = arg;
	struct engine_peer *peer;

	peer_fill_hello(session, answer);
	answer->role = dial->role;
	answer->auth = dial->auth;
	answer->channel = dial->channel;
	answer->epoch = dial->epoch;
	if (atomic_load(&session->closing)) {
		answer->status = -TCPX_ERR_REFUSED;
		return;
	}
	if (accept_is_of_link(dial)) {
		peer = peer_by_link(session, dial->key_id);
		answer->key_id = dial->key_id;
		if (!peer || dial->channel > peer->nbulk)
			answer->status = -TCPX_ERR_STALE;
		return;
	}
	if (!accept_same_uuid(dial->want_uuid, anyone) &&
	    !accept_same_uuid(dial->want_uuid, session->uuid)) {
		answer->status = -TCPX_ERR_PEER_RESTARTED;
		return;
	}
	if (accept_own_dial_wins(session, dial)) {
		answer->status = -TCPX_ERR_EXISTS;
		return;
	}
	if (!inbound_has_room(session, from)) {
		answer->status = -TCPX_ERR_BUSY;
		return;
	}
	answer->channels =
		dial->channels && session->tuning.channels
			? (dial->channels < session->tuning.channels ? dial->channels
								     : session->tuning.channels)
			: dial->channels + session->tuning.channels;
	if (!answer->channels)
		answer->channels = session_auto_channels();
	comms_grant(session, &dial->messages, &answer->messages);
	if (answer->channels + answer->messages.channels > CORE_CHANNELS_MAX - 1)
		answer->channels = CORE_CHANNELS_MAX - 1 - answer->messages.channels;
	if (sys_random(&answer->key_id, sizeof(answer->key_id)) != TCPX_OK)
		answer->status = -TCPX_ERR_INTERNAL;
}

/* Decides between our own dial and the peer's, when both were made at the same time, answered and
 * authenticated. The dial of the session with the lower uuid becomes the link; returns whether that
 * is ours. If it is ours, keeps the peer's connection open until the link is up: if the connection
 * were closed now, the peer would see its dial fail before it knows of the link. */
static bool accept_own_dial_won(struct engine_peer *ours, const struct ctl_conn *conn)
{
	if (memcmp(ours->link.session->uuid, conn->remote.uuid, WIRE_UUID_BYTES) > 0)
		return false;
	peer_close_lost_dial(ours);
	ours->control.lost_dial_fd = conn->fd;
	return true;
}

/* The part of accept_settle() for the case that a peer with the connection's uuid exists (`old`).
 * Returns what accept_settle() returns. */
static bool accept_settle_dial(struct engine_peer *old, const struct ctl_conn *conn,
			       struct engine_peer **out_adopt)
{
	if (old->counted_up) { /* the link is up already */
		sys_fd_close(conn->fd);
		return false;
	}
	if (old->dialler && old->link.core_ready && accept_own_dial_won(old, conn))
		return false;
	if (!old->dialler || old->dialling.channels_begun) {
		peer_die(old, TCPX_ERR_PEER_CLOSED, 0, "peer has connected again");
		return true;
	}
	peer_dial_cancel(old);
	if (old->control.link)
		ctl_link_close(old->control.link);
	old->control.link = NULL;
	*out_adopt = old;
	return true;
}

/* Decides whether a new connection is used; a peer with the same uuid may exist already. Returns
 * false if the connection is not used; it has then been closed or stored. If it is used, returns
 * true and sets *out_adopt to our own dial, which the connection replaces and whose handle and
 * requests are kept. *out_adopt is NULL if a new peer must be made; any older link with the peer
 * has then been ended. *out_adopt holds no reference and needs none, because only the control
 * thread ends peers. */
static bool accept_settle(struct engine_session *session, const struct ctl_conn *conn,
			  struct engine_peer **out_adopt)
{
	struct engine_peer *old = peer_by_uuid(session, conn->remote.uuid, conn->proven, NULL);
	bool of_use = true;

	*out_adopt = NULL;
	if (old && !accept_same_uuid(conn->remote.uuid, session->uuid))
		of_use = accept_settle_dial(old, conn, out_adopt);
	if (old)
		peer_put(old);
	return of_use;
}

/* Called for a new control connection that is accepted and authenticated: makes a peer for it, or
 * adopts our own dial, and opens the link. Owns conn->fd. */
static void accept_control(struct engine_session *session, const struct ctl_conn *conn)
{
	struct engine_peer *peer;
	tcpx_status status;

	if (identity_is_impostor(session, conn)) {
		identity_count_impostor(session, &conn->remote_addr);
		sys_fd_close(conn->fd);
		return;
	}
	if (!accept_settle(session, conn, &peer))
		return;
	if (peer) {
		/* The adopted dial is still not counted as inbound: the limits are for what others
		 * do, and the application has chosen to connect to this peer. */
		session_lock(session); /* other threads look up dialled peers by address */
		peer->dialler = false;
		session_unlock(session);
	} else {
		peer = peer_create(session);
		if (!peer) {
			sys_fd_close(conn->fd);
			return;
		}
		memcpy(peer->who.uuid, conn->remote.uuid,
		       sizeof(peer->who.uuid)); /* for look-ups by uuid */
		peer->who.keyed = conn->proven;
		inbound_begins(peer, &conn->remote_addr);
		peer_enlist(peer);
	}
	peer->reconnect.awaiting = false;
	peer->dialling.deadline_ns = clock_now_ns() + ACCEPT_NS;
	/* the plugin's setup may take longer, so the peer has more time to come up */
	if (session->plugin)
		peer->dialling.deadline_ns += session->plugin->setup_ns;
	peer_connect_timer(peer);
	status = peer_control_up(peer, conn, false);
	if (status != TCPX_OK)
		peer_die(peer, status, 0, error_last()->what);
}

/* Called when a connection is accepted and authenticated. It is a new control connection, a control
 * connection dialled again, or a data channel. Owns conn->fd. */
static void accept_ready(void *arg, const struct ctl_conn *conn)
{
	struct engine_session *session = arg;
	struct engine_peer *peer;
	struct net_chan *net;

	if (!accept_is_of_link(&conn->remote)) {
		accept_control(session, conn);
		return;
	}
	peer = peer_by_link(session, conn->remote.key_id);
	if (!peer) {
		sys_fd_close(conn->fd);
		return;
	}
	if (conn->remote.role == WIRE_ROLE_CONTROL) {
		peer_control_again(peer, conn);
		return;
	}
	sys_sock_congestion_fit(conn->fd, config_text(CONFIG_CONGESTION));
	if (net_transport_adopt(conn->fd, &net) != TCPX_OK) {
		sys_fd_close(conn->fd);
		return;
	}
	if (peer_attach(peer, conn->remote.channel, conn->remote.epoch, net) != TCPX_OK)
		LOG_DEBUG("peer '%s': channel %u not attached", peer->who.name,
			  conn->remote.channel);
}

static const struct ctl_identity *accept_identity(void *arg)
{
	return &((struct engine_session *)arg)->identity.own;
}

const struct ctl_accept_ops peer_accept_ops = {
	.key = accept_key,
	.answer = accept_answer,
	.ready = accept_ready,
	.identity = accept_identity,
};

/* Returns the live peer to which this nonce was offered, or NULL if no live peer was. The caller
 * gets no reference and needs none: it runs on the control thread, which alone ends peers. */
static struct engine_peer *accept_peer_of_nonce(struct engine_session *session,
						const uint8_t nonce[LOCAL_NONCE_BYTES])
{
	struct engine_peer *found = NULL;
	struct list_node *pos;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		if (!peer->died && !peer->dialler && peer->shared_memory.offered &&
		    sys_equal_secret(peer->shared_memory.nonce, nonce, LOCAL_NONCE_BYTES))
			found = peer;
	}
	session_unlock(session);
	return found;
}

int peer_local_expected(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES])
{
	return accept_peer_of_nonce(arg, nonce) != NULL;
}

int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan)
{
	struct engine_peer *found = accept_peer_of_nonce(arg, nonce);

	if (!found || channel > found->nbulk)
		return 0;
	peer_attach(found, channel, epoch, chan); /* takes `chan` over, even on failure */
	return 1;
}
