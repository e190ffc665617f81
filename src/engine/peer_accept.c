/* SPDX-License-Identifier: Apache-2.0 */
/* The accepting side: who may connect, what is answered, and the link that comes of it. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/calls.h"
#include "engine/comms.h"
#include "engine/early.h"
#include "engine/link/hooks.h"
#include "engine/share.h"
#include "sys/addr.h"
#include "sys/crypto.h"
#include "sys/fd.h"
#include "sys/sock.h"

#define ACCEPT_NS (10 * CLOCK_S_NS)

void peer_fill_hello(struct engine_session *session, struct wire_hello *hello)
{
	hello->proto_min = WIRE_PROTO_MIN;
	hello->proto_max = WIRE_PROTO_MAX;
	memcpy(hello->uuid, session->uuid, sizeof(hello->uuid));
	memcpy(hello->incarnation, session->incarnation, sizeof(hello->incarnation));
	memcpy(hello->name, session->name, sizeof(hello->name));
	hello->channels = session->channels;
	hello->chunk_bytes = session->chunk_bytes;
	hello->features = WIRE_FEATURE_SEGMENTS;
	if (!(session->flags & TCPX_SESSION_NO_LOCAL))
		hello->features |= WIRE_FEATURE_LOCAL | WIRE_FEATURE_LOCAL_ANSWER;
	if (comms_first_known(session))
		hello->features |= WIRE_FEATURE_FIRST;
	hello->notify_budget = session->notify_budget;
	hello->notify_cover = session->account.share;
	hello->eager_budget = ENGINE_EAGER_BUDGET;
	hello->read_budget = ENGINE_READ_WINDOW;
	comms_hello(session, &hello->messages);
}

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

static bool is_link(const struct wire_hello *dial)
{
	return dial->role == WIRE_ROLE_DATA || dial->auth == WIRE_AUTH_LINK ||
	       (dial->auth == WIRE_AUTH_BARE && dial->key_id);
}

static int accept_key(void *arg, const struct wire_hello *dial, int loopback,
		      uint8_t key[CTL_KEY_BYTES])
{
	struct engine_session *session = arg;
	struct engine_peer *peer;

	if (is_link(dial)) {
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

static bool same(const uint8_t *a, const uint8_t *b)
{
	return !memcmp(a, b, WIRE_UUID_BYTES);
}

/* One link per pair: one that is up stays; of two dials that cross the lower uuid's survives. */
static bool ours_wins(struct engine_session *session, const struct wire_hello *dial)
{
	struct engine_peer *peer;
	bool wins;

	if (same(dial->uuid, session->uuid))
		return false; /* a session may be its own peer */
	peer = peer_by_uuid(session, dial->uuid,
			    session->identity.own.there && dial->identity.there, NULL);
	if (!peer)
		return false;
	wins = peer->link.core_ready || (peer->dialler && !peer->reconnect.awaiting &&
					 memcmp(session->uuid, dial->uuid, WIRE_UUID_BYTES) < 0);
	peer_put(peer);
	return wins;
}

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
	if (session->closing) {
		answer->status = -TCPX_ERR_REFUSED;
		return;
	}
	if (is_link(dial)) {
		peer = peer_by_link(session, dial->key_id);
		answer->key_id = dial->key_id;
		if (!peer || dial->channel > peer->nbulk)
			answer->status = -TCPX_ERR_STALE;
		return;
	}
	if (!same(dial->want_uuid, anyone) && !same(dial->want_uuid, session->uuid)) {
		answer->status = -TCPX_ERR_PEER_RESTARTED;
		return;
	}
	if (ours_wins(session, dial)) {
		answer->status = -TCPX_ERR_EXISTS;
		return;
	}
	if (!inbound_has_room(session, from)) {
		answer->status = -TCPX_ERR_BUSY;
		return;
	}
	answer->channels =
		dial->channels && session->channels
			? (dial->channels < session->channels ? dial->channels : session->channels)
			: dial->channels + session->channels;
	if (!answer->channels)
		answer->channels = session_auto_channels();
	comms_grant(session, &dial->messages, &answer->messages);
	if (answer->channels + answer->messages.channels > CORE_CHANNELS_MAX - 1)
		answer->channels = CORE_CHANNELS_MAX - 1 - answer->messages.channels;
	if (sys_random(&answer->key_id, sizeof(answer->key_id)) != TCPX_OK)
		answer->status = -TCPX_ERR_INTERNAL;
}

/* Two dials that knew of each other too late, each answered, each proven: the lower uuid's is the
 * link. The other connection stays open until that link is up, or its end would be heard first. */
static bool wins_late(struct engine_peer *ours, const struct ctl_conn *conn)
{
	if (memcmp(ours->link.session->uuid, conn->remote.uuid, WIRE_UUID_BYTES) > 0)
		return false;
	peer_rival_close(ours);
	ours->control.rival = conn->fd;
	return true;
}

static bool settle_dial(struct engine_peer *old, const struct ctl_conn *conn,
			struct engine_peer **out_adopt)
{
	if (old->counted_up) { /* ours was quicker after all */
		sys_fd_close(conn->fd);
		return false;
	}
	if (old->dialler && old->link.core_ready && wins_late(old, conn))
		return false;
	if (!old->dialler || old->dialling.channels_begun) {
		peer_die(old, TCPX_ERR_PEER_CLOSED, 0, "peer connected anew");
		return true;
	}
	peer_dial_cancel(old);
	if (old->control.link)
		ctl_link_close(old->control.link);
	old->control.link = NULL;
	*out_adopt = old;
	return true;
}

/* What we have of this uuid: the new connection is of no use (false), or takes the place of our own
 * dial, whose handle and requests live on (*out_adopt), or of an older one of the peer. The adopted
 * one comes without a reference: while it lives, only this thread takes it off the list. */
static bool settle_dials(struct engine_session *session, const struct ctl_conn *conn,
			 struct engine_peer **out_adopt)
{
	struct engine_peer *old = peer_by_uuid(session, conn->remote.uuid, conn->proven, NULL);
	bool of_use = true;

	*out_adopt = NULL;
	if (old && !same(conn->remote.uuid, session->uuid))
		of_use = settle_dial(old, conn, out_adopt);
	if (old)
		peer_put(old);
	return of_use;
}

static void ready_control(struct engine_session *session, const struct ctl_conn *conn)
{
	struct engine_peer *peer;
	tcpx_status status;

	if (identity_is_impostor(session, conn)) {
		identity_count_impostor(session, &conn->remote_addr);
		sys_fd_close(conn->fd);
		return;
	}
	if (!settle_dials(session, conn, &peer))
		return;
	if (peer) {
		session_lock(session); /* look-ups by address */
		peer->dialler = false;
		session_unlock(session);
	} else {
		peer = peer_create(session);
		if (!peer) {
			sys_fd_close(conn->fd);
			return;
		}
		memcpy(peer->who.uuid, conn->remote.uuid,
		       sizeof(peer->who.uuid)); /* look-ups find it */
		peer->who.keyed = conn->proven;
		inbound_begins(peer, &conn->remote_addr);
		peer_enlist(peer);
	}
	peer->reconnect.awaiting = false;
	peer->dialling.deadline_ns = clock_now_ns() + ACCEPT_NS;
	if (session->plugin) /* its setup may take longer, and is waited for */
		peer->dialling.deadline_ns += session->plugin->setup_ns;
	peer_connect_timer(peer);
	status = peer_control_up(peer, conn, false);
	if (status != TCPX_OK)
		peer_die(peer, status, 0, error_last()->what);
}

static void accept_ready(void *arg, const struct ctl_conn *conn)
{
	struct engine_session *session = arg;
	struct engine_peer *peer;
	struct net_chan *net;

	if (!is_link(&conn->remote)) {
		ready_control(session, conn);
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
	if (net_tcp_wrap(conn->fd, &net) != TCPX_OK) {
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

/* Whom we offered that nonce. */
static struct engine_peer *peer_of_nonce(struct engine_session *session,
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
	return peer_of_nonce(arg, nonce) != NULL;
}

int peer_local_arrived(void *arg, const uint8_t nonce[LOCAL_NONCE_BYTES], uint16_t channel,
		       uint32_t epoch, struct net_chan *chan)
{
	struct engine_peer *found = peer_of_nonce(arg, nonce);

	if (!found || channel > found->nbulk)
		return 0;
	peer_attach(found, channel, epoch, chan); /* owns it either way */
	return 1;
}

/* Both sides cut chunks of one size: the smaller of two wishes, the only one, or the default. */
static uint32_t agree_chunk(uint32_t ours, uint32_t theirs)
{
	uint32_t chunk = !ours || (theirs && theirs < ours) ? theirs : ours;

	if (!chunk)
		return ENGINE_CHUNK_BYTES;
	if (chunk < ENGINE_CHUNK_MIN)
		return ENGINE_CHUNK_MIN;
	return chunk < ENGINE_CHUNK_MAX ? chunk : ENGINE_CHUNK_MAX;
}

static tcpx_status core_start(struct engine_peer *peer, const struct wire_hello *remote)
{
	struct engine_session *session = peer->link.session;
	struct core_config cfg = {
		.chunk_bytes = peer->chunk_bytes,
		.filled_chunk_bytes = session->chunk_bytes || remote->chunk_bytes
					      ? peer->chunk_bytes
					      : ENGINE_FILLED_CHUNK_BYTES,
		.bulk_channels = peer->nbulk,
		.message_channels = peer->comms ? peer->comms->count : 0,
		.message_bytes = peer->comms ? peer->comms->message_bytes : 0,
		.message_window = peer->comms ? peer->comms->window : 0,
		.ops = &engine_core_ops,
		.arg = peer,
	};
	tcpx_status status;

	cfg.credit_out[FRAME_CREDIT_NOTIFY] = remote->notify_budget;
	cfg.credit_out[FRAME_CREDIT_EAGER] = remote->eager_budget;
	cfg.credit_out[FRAME_CREDIT_READ] = remote->read_budget;
	cfg.credit_in[FRAME_CREDIT_NOTIFY] = session->notify_budget;
	cfg.cover_out = remote->notify_cover;
	cfg.cover_in = session->account.share;
	cfg.credit_in[FRAME_CREDIT_EAGER] = ENGINE_EAGER_BUDGET;
	cfg.credit_in[FRAME_CREDIT_READ] = ENGINE_READ_WINDOW;
	status = sys_random(cfg.secret, sizeof(cfg.secret));
	if (status != TCPX_OK)
		return status;
	if (!account_begin(peer))
		return session_memory_error(session);
	link_lock(&peer->link);
	status = core_link_init(&peer->link.core, &cfg);
	peer->link.core_ready = status == TCPX_OK;
	if (peer->link.core_ready)
		early_start(peer);
	link_unlock(&peer->link);
	return status;
}

static const char *auth_name(uint8_t auth, const struct engine_peer *peer)
{
	switch (auth) {
	case WIRE_AUTH_SECRET:
	case WIRE_AUTH_BARE:
		return "secret";
	case WIRE_AUTH_KEY:
		return "key";
	default:
		return sys_addr_is_loopback(&peer->address.remote) ? "loopback" : "insecure";
	}
}

/* The control link stands. Control thread; owns conn->fd. */
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler)
{
	struct engine_session *session = peer->link.session;
	const struct wire_hello *remote = &conn->remote;
	const struct wire_hello *answer = dialler ? &conn->remote : &conn->local;
	struct core_alive_config alive = {.silent_ns = session->silent_ns,
					  .stopped_ns = session->stopped_ns};
	bool local = (conn->local.features & conn->remote.features & WIRE_FEATURE_LOCAL);
	uint64_t channels = (uint64_t)answer->channels + answer->messages.channels;
	tcpx_status status;

	/* A core that is there already was made by a dial of ours that gave way. */
	if (!answer->channels || channels > CORE_CHANNELS_MAX - 1 ||
	    (peer->link.core_ready && channels != peer->nbulk)) {
		sys_fd_close(conn->fd);
		return error_set(TCPX_ERR_PROTOCOL, 0, "%llu channels agreed, of 1..%u",
				 (unsigned long long)channels, CORE_CHANNELS_MAX - 1);
	}
	peer->nbulk = (uint32_t)channels;
	peer->rails.segments_told = remote->features & WIRE_FEATURE_SEGMENTS;
	peer->shared_memory.answers = remote->features & WIRE_FEATURE_LOCAL_ANSWER;
	status = comms_peer_open(peer, &answer->messages,
				 conn->local.features & remote->features & WIRE_FEATURE_FIRST);
	if (status != TCPX_OK) {
		sys_fd_close(conn->fd);
		return status;
	}
	session_lock(session);	/* look-ups by uuid and name */
	link_lock(&peer->link); /* queries */
	peer->chunk_bytes = agree_chunk(session->chunk_bytes, remote->chunk_bytes);
	memcpy(peer->who.name, remote->name, sizeof(peer->who.name));
	memcpy(peer->who.uuid, remote->uuid, sizeof(peer->who.uuid));
	memcpy(peer->who.incarnation, remote->incarnation, sizeof(peer->who.incarnation));
	peer->who.keyed = peer->who.proven = conn->proven;
	memcpy(peer->who.key, remote->identity.key, sizeof(peer->who.key));
	if (conn->proven)
		ctl_key_text(peer->who.key, peer->who.text);
	memcpy(peer->control.key, conn->session_key, sizeof(peer->control.key));
	peer->control.link_id = answer->key_id;
	peer->address.remote = conn->remote_addr;
	peer->dialling.hello.auth = (dialler ? conn->local : conn->remote).auth;
	peer->who.auth = auth_name(peer->dialling.hello.auth, peer);
	link_unlock_only(&peer->link);
	session_unlock(session);
	if (conn->proven)
		identity_end_others(session, peer);
	status = peer->link.core_ready ? TCPX_OK : core_start(peer, remote);
	if (status == TCPX_OK)
		status = peer_ctl_open(peer, conn->fd);
	if (status != TCPX_OK) {
		sys_fd_close(conn->fd);
		return status;
	}
	explicit_bzero(peer->dialling.key,
		       sizeof(peer->dialling.key)); /* what follows has the link's key */
	core_alive_init(&peer->control.alive, &alive, clock_now_ns());
	peer->control.timer.fn = peer_beat;
	sys_timer_set(&engine_runtime.loop, &peer->control.timer, peer->control.alive.due_ns);
	if (dialler)
		return TCPX_OK;
	local = local && session->local &&
		sys_random(peer->shared_memory.nonce, sizeof(peer->shared_memory.nonce)) == TCPX_OK;
	peer->shared_memory.offered = local;
	peer_send_offers(peer, local);
	return TCPX_OK;
}

/* The control link stands again. Owns conn->fd. */
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn)
{
	tcpx_status status;

	if (peer->control.link)
		ctl_link_close(peer->control.link); /* the other side lost it first */
	peer->control.link = NULL;
	status = peer_ctl_open(peer, conn->fd);
	if (status != TCPX_OK) {
		sys_fd_close(conn->fd);
		peer_die(peer, status, 0, "control link");
		return;
	}
	atomic_fetch_add(&peer->link.session->redials, 1);
	LOG_INFO("peer '%s': control link is back", peer->who.name);
	session_lock(peer->link.session); /* look-ups by address */
	link_lock(&peer->link);		  /* queries */
	peer->address.remote = conn->remote_addr;
	link_unlock_only(&peer->link);
	session_unlock(peer->link.session);
	if (!peer->dialler || peer->dialling.connect_timer.fn)
		sys_timer_del(&engine_runtime.loop, &peer->dialling.connect_timer);
	link_lock(&peer->link);
	core_link_refence(&peer->link.core);
	share_again(peer);
	link_unlock(&peer->link);
	peer_send_fences(peer);
}
