/* SPDX-License-Identifier: Apache-2.0 */
/* What happens when the control connection of a peer comes up, for the first time or again: stores
 * what the two ends agreed on, starts the core, and sends offers and fences. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "engine/link/account.h"
#include "engine/request/reconnect.h"
#include "engine/peer/carrier.h"
#include "engine/channel/comms.h"
#include "engine/request/pending.h"
#include "engine/peer/path_mtu.h"
#include "engine/peer/peer_dial.h"
#include "engine/path/share.h"
#include "plugin/plugin.h"
#include "sys/addr.h"
#include "sys/fd.h"
#include "sys/crypto.h"
#include "wire/control.h"

/* Sends the fences that the core has prepared. Does nothing while there is no control
 * connection. */
void peer_send_fences(struct engine_peer *peer)
{
	struct fence_out *fence;
	uint32_t i;

	if (!peer->control.link)
		return; /* core_link_refence() prepares the fences again on reconnection */
	for (;;) {
		struct frame frame = {.type = FRAME_FENCE};
		uint8_t *payload;
		struct wire_out out;

		link_lock(&peer->link);
		fence = peer->link.wake.fences;
		if (fence)
			peer->link.wake.fences = fence->next;
		link_unlock(&peer->link);
		if (!fence)
			return;
		payload = malloc((size_t)fence->count * WIRE_REFUSAL_BYTES + 1);
		if (!payload || fence->count > WIRE_REFUSALS_MAX) {
			free(payload);
			free(fence);
			peer_die(peer, TCPX_ERR_NO_MEMORY, 0,
				 "no memory for the fence of a lost channel");
			return;
		}
		out = wire_out_of(payload, (size_t)fence->count * WIRE_REFUSAL_BYTES);
		for (i = 0; i < fence->count; i++)
			wire_put_refusal(&out, fence->nacks[i].seq,
					 (tcpx_status)fence->nacks[i].status);
		frame.key = fence->channel;
		frame.epoch = fence->epoch;
		frame.linear = fence->applied;
		frame.payload_bytes = fence->count * WIRE_REFUSAL_BYTES;
		frame.offset = path_mtu_requested(peer, fence->channel);
		link_tell(&peer->link, &frame, payload);
		free(payload);
		free(fence);
		if (peer->died)
			return;
	}
}

/* Sends what the dialling side needs before it dials channels: addresses, the local listener (if
 * `local`), and last the number of channels. The dialling side begins when this number arrives. */
void peer_send_offers(struct engine_peer *peer, bool local)
{
	struct engine_session *session = peer->link.session;
	struct frame frame = {.type = FRAME_RAILS};
	uint8_t payload[WIRE_RAILS_MAX];
	struct wire_address addrs[WIRE_ADDR_MAX];

	frame.payload_bytes =
		(uint32_t)wire_rails_encode(addrs, session_addresses(session, addrs), payload);
	link_tell(&peer->link, &frame, payload);
	if (local) {
		struct wire_local offer = {0};
		uint8_t bytes[WIRE_LOCAL_MAX];

		memcpy(offer.nonce, peer->shared_memory.nonce, sizeof(offer.nonce));
		memcpy(offer.name, session->listen.local_name, sizeof(offer.name) - 1);
		frame = (struct frame){.type = FRAME_LOCAL};
		frame.payload_bytes = (uint32_t)wire_local_encode(&offer, bytes);
		link_tell(&peer->link, &frame, bytes);
	}
	frame = (struct frame){.type = FRAME_CHANNELS, .linear = peer->nbulk};
	link_tell(&peer->link, &frame, NULL);
}

tcpx_status peer_ctl_open(struct engine_peer *peer, int fd)
{
	peer->control.iface = carrier_iface(fd);
	return ctl_link_open(&engine_runtime.loop, fd, peer->link.events->control, peer,
			     &peer->control.link);
}

/* Returns the chunk size for both ends: the smaller of the sizes that the two ends request, within
 * limits. 0 means that an end requests none; if both are 0, returns the default. */
static uint32_t control_agree_chunk(uint32_t ours, uint32_t theirs)
{
	uint32_t chunk = !ours || (theirs && theirs < ours) ? theirs : ours;

	if (!chunk)
		return ENGINE_CHUNK_BYTES;
	if (chunk < ENGINE_CHUNK_MIN)
		return ENGINE_CHUNK_MIN;
	return chunk < ENGINE_CHUNK_MAX ? chunk : ENGINE_CHUNK_MAX;
}

/* Starts the core of the peer's link with the values that the two ends agreed on. On an error the
 * link has no core. */
static tcpx_status control_core_start(struct engine_peer *peer, const struct wire_hello *remote)
{
	struct engine_session *session = peer->link.session;
	struct core_config cfg = {
		.chunk_bytes = peer->chunk_bytes,
		.filled_chunk_bytes = session->tuning.chunk_bytes || remote->chunk_bytes
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
	cfg.credit_in[FRAME_CREDIT_NOTIFY] = session->tuning.notify_budget;
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
		pending_start(peer);
	link_unlock(&peer->link);
	pending_say_too_long(peer);
	return status;
}

static const char *control_auth_name(uint8_t auth, const struct engine_peer *peer)
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

/* Called when the control connection is up for the first time. Checks and stores what the two ends
 * agreed on, and starts the core and the heartbeats. The accepting side then sends its offers. Owns
 * conn->fd. On an error the caller must end the peer. Control thread. */
tcpx_status peer_control_up(struct engine_peer *peer, const struct ctl_conn *conn, bool dialler)
{
	struct engine_session *session = peer->link.session;
	const struct wire_hello *remote = &conn->remote;
	const struct wire_hello *answer = dialler ? &conn->remote : &conn->local;
	struct core_alive_config alive = {.silent_ns = session->tuning.silent_ns,
					  .stopped_ns = session->tuning.stopped_ns};
	bool local = (conn->local.features & conn->remote.features & WIRE_FEATURE_LOCAL);
	uint64_t channels = (uint64_t)answer->channels + answer->messages.channels;
	tcpx_status status;

	/* If there is a core already, it belongs to our own dial, which this connection replaces.
	 * The number of channels must then be that of the core. */
	if (!answer->channels || channels > CORE_CHANNELS_MAX - 1 ||
	    (peer->link.core_ready && channels != peer->nbulk)) {
		sys_fd_close(conn->fd);
		if (!peer->link.core_ready)
			return error_set(TCPX_ERR_PROTOCOL, 0,
					 "peer wants %llu channels, outside 1..%u",
					 (unsigned long long)channels, CORE_CHANNELS_MAX - 1);
		return error_set(TCPX_ERR_PROTOCOL, 0, "peer wants %llu channels, not %u as before",
				 (unsigned long long)channels, peer->nbulk);
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
	session_lock(session);	/* other threads look peers up by uuid and name */
	link_lock(&peer->link); /* other threads query the peer */
	peer->chunk_bytes = control_agree_chunk(session->tuning.chunk_bytes, remote->chunk_bytes);
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
	peer->who.auth = control_auth_name(peer->dialling.hello.auth, peer);
	link_unlock_only(&peer->link);
	session_unlock(session);
	if (conn->proven)
		identity_end_others(session, peer);
	status = peer->link.core_ready ? TCPX_OK : control_core_start(peer, remote);
	if (status == TCPX_OK)
		status = peer_ctl_open(peer, conn->fd);
	if (status != TCPX_OK) {
		sys_fd_close(conn->fd);
		return status;
	}
	/* later dials use the link's key, so wipe this one */
	explicit_bzero(peer->dialling.key, sizeof(peer->dialling.key));
	core_alive_init(&peer->control.alive, &alive, clock_now_ns());
	peer->control.timer.fn = peer_beat;
	sys_timer_set(&engine_runtime.loop, &peer->control.timer, peer->control.alive.due_ns);
	if (dialler)
		return TCPX_OK;
	local = local && session->listen.local &&
		sys_random(peer->shared_memory.nonce, sizeof(peer->shared_memory.nonce)) == TCPX_OK;
	peer->shared_memory.offered = local;
	peer_send_offers(peer, local);
	return TCPX_OK;
}

/* Called when the control connection has been dialled again. Owns conn->fd. */
void peer_control_again(struct engine_peer *peer, const struct ctl_conn *conn)
{
	tcpx_status status;

	if (peer->control.link)
		/* the peer has lost the old connection and dialled again; this end has not noticed
		 * the loss */
		ctl_link_close(peer->control.link);
	peer->control.link = NULL;
	status = peer_ctl_open(peer, conn->fd);
	if (status != TCPX_OK) {
		sys_fd_close(conn->fd);
		peer_die(peer, status, 0, "cannot open the control link again");
		return;
	}
	atomic_fetch_add(&peer->link.session->counters.redials, 1);
	losses_log(peer);
	LOG_INFO("peer '%s': control link is back", peer->who.name);
	session_lock(peer->link.session); /* other threads look peers up by address */
	link_lock(&peer->link);		  /* other threads query the peer */
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
