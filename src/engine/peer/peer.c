/* SPDX-License-Identifier: Apache-2.0 */
/* A peer's life: created, attached to channels, up, dead, given back. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/request/again.h"
#include "engine/link/block.h"
#include "engine/calls.h"
#include "engine/channel/comms.h"
#include "engine/request/doubt.h"
#include "engine/request/early.h"
#include "engine/link/hold.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"
#include "sys/cpu.h"
#include "sys/fd.h"
#include "sys/futex.h"

#define CONNECT_LIMIT_NS (10 * CLOCK_S_NS)
#define DEATHS_SAID 50 /* lines about dead peers in 10 s */

/* Its slot is kept for the next peer, and freed with the session. */
static void wipe(struct engine_peer *peer)
{
	explicit_bzero(peer->dialling.key, sizeof(peer->dialling.key));
	explicit_bzero(peer->control.key, sizeof(peer->control.key));
	explicit_bzero(peer->shared_memory.nonce, sizeof(peer->shared_memory.nonce));
}

void peer_free(struct link *link)
{
	struct engine_peer *peer = link_peer(link);

	wipe(peer);
	if (peer->link.core_ready)
		core_link_fini(&peer->link.core);
	block_shares_free(peer);
	share_peer_free(peer);
	comms_peer_free(peer);
	again_put(peer);
	pthread_mutex_destroy(&peer->link.lock);
	handle_give(&peer->link.session->peers, peer);
}

struct engine_peer *engine_peer_get(struct engine_session *session, uint64_t peer_id)
{
	struct engine_peer *peer;

	/* The list's reference goes only under session.lock. */
	session_lock(session);
	peer = handle_find(&session->peers, peer_id);
	if (peer && peer->reconnect.now)
		peer = peer->reconnect.now;
	if (peer)
		peer_get(peer);
	session_unlock(session);
	if (!peer)
		error_set(TCPX_ERR_STALE, 0, "peer handle is not valid any more");
	return peer;
}

void peer_set_state(struct engine_peer *peer, enum tcpx_peer_state state)
{
	atomic_store(&peer->state, (uint32_t)state);
	sys_futex_wake(&peer->state, INT_MAX);
}

void peer_counters_add(tcpx_counters *sum, const struct core_link *link)
{
	sum->tx_bytes += link->count.tx_bytes;
	sum->rx_bytes += link->count.rx_bytes;
	sum->tx_chunks += link->count.tx_chunks;
	sum->rx_chunks += link->count.rx_chunks;
	sum->resent_chunks += link->count.resent;
	sum->aborted_chunks += link->count.aborted;
	sum->remote_rejects += link->count.refused;
}

static void session_remember(struct engine_session *session, const struct core_link *link)
{
	pthread_mutex_lock(&session->queue_lock);
	peer_counters_add(&session->counters, link);
	pthread_mutex_unlock(&session->queue_lock);
}

void peer_rival_close(struct engine_peer *peer)
{
	if (peer->control.rival >= 0)
		sys_fd_close(peer->control.rival);
	peer->control.rival = -1;
}

bool peer_malformed(tcpx_status status)
{
	return status == TCPX_ERR_PROTOCOL || status == TCPX_ERR_CORRUPT ||
	       status == TCPX_ERR_VERSION;
}

void peer_left_dead(struct engine_chan *chan)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX] = {chan};

	if (chan->comms)
		comms_left(chan->comms);
	hold_dead(chan->peer, chans);
	chan_put(chan);
}

static void drop_fences(struct engine_peer *peer)
{
	while (peer->link.wake.fences) {
		struct fence_out *fence = peer->link.wake.fences;

		peer->link.wake.fences = fence->next;
		free(fence);
	}
}

static void log_death(const struct engine_peer *peer)
{
	static struct log_limit limit; /* one that comes again and again does not fill the log */
	const tcpx_error *error = &peer->error;

	if (error->status == TCPX_ERR_DISCONNECTED || error->status == TCPX_ERR_SESSION_CLOSED ||
	    error->status == TCPX_ERR_PEER_CLOSED || error->status == TCPX_ERR_EXISTS ||
	    (peer->reconnect.lent && !peer->counted_up)) /* that it cannot be reached was said */
		LOG_INFO("%s", error->what);
	else if (log_allow(&limit, DEATHS_SAID))
		LOG_WARN("%s; next: %s", error->what, error->next);
}

/* It connected to a session that does not want to know, and we did not to it. */
bool peer_unknown(const struct engine_peer *peer)
{
	return (peer->link.session->flags & TCPX_SESSION_NO_ACCEPT) && !peer->dialler &&
	       !peer->in_view;
}

/* Control thread. Everything of the peer ends with the error's status. */
static void die(struct engine_peer *peer, const tcpx_error *error)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX];
	tcpx_status status = error->status;
	struct engine_session *session = peer->link.session;
	bool was_up = peer->counted_up, in_view, unknown, leased;
	uint32_t i, lost;

	session_lock(session); /* look-ups by any thread */
	peer->died = true;
	unknown = peer_unknown(peer);
	in_view = (was_up && !unknown) || peer->in_view;
	session_unlock(session);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.connect_timer);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.redial_timer);
	sys_timer_del(&engine_runtime.loop, &peer->control.timer);
	sys_timer_del(&engine_runtime.loop, &peer->doubt.timer);
	peer->link.events->dying(&peer->link);
	inbound_ends(peer);
	link_lock(&peer->link);
	peer->error = *error;
	peer->link.core_done = true;
	memcpy(chans, peer->link.chan, sizeof(chans));
	memset(peer->link.chan, 0, sizeof(peer->link.chan));
	link_unlock_only(&peer->link);
	log_death(peer);
	for (i = 0; i < CORE_CHANNELS_MAX; i++)
		if (chans[i] && !chan_stop(chans[i], peer_left_dead)) {
			comms_stays(chans[i]->comms);
			chans[i] = NULL; /* peer_left_dead()'s */
		}
	comms_peer_dead(peer);
	if (peer->control.link)
		ctl_link_close(peer->control.link);
	peer->control.link = NULL;
	peer_rival_close(peer);
	wipe(peer); /* its handle may be held for long */
	leased = share_leased(peer);
	link_lock(&peer->link);
	if (peer->link.core_ready) {
		if (leased)
			core_link_lease(&peer->link.core);
		core_link_fail(&peer->link.core, status);
		session_remember(session, &peer->link.core);
	}
	lost = early_fail(peer, status);
	doubts_fail(peer, status);
	drop_fences(peer);
	link_unlock(&peer->link);
	early_say_lost(peer, lost);
	share_peer_dead(peer);
	hold_dead(peer, chans);
	for (i = 0; i < CORE_CHANNELS_MAX; i++)
		if (chans[i])
			chan_put(chans[i]);
	if (was_up)
		atomic_fetch_add(&session->peers_lost, 1);
	else
		atomic_fetch_add(&session->peers_failed, 1);
	if (peer_malformed(status) && peer->link.core_ready)
		atomic_fetch_add(&session->protocol_errors, 1);
	peer_set_state(peer, TCPX_PEER_DEAD);
	link_progress(&peer->link);
	if (in_view) /* of another one nobody has a handle */
		peer_event(peer,
			   status == TCPX_ERR_PEER_RESTARTED ? TCPX_EVENT_PEER_RESTARTED
							     : TCPX_EVENT_PEER_DOWN,
			   status, 0);
	/* a stranger that never got through, or nobody was told of; whose handle is out stays */
	if ((!in_view && !peer->dialler) || unknown || peer->reconnect.lent)
		peer_forget(peer);
	else if (!peer->dialler)
		inbound_remember(peer);
}

void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what)
{
	tcpx_error error;

	if (peer->died)
		return;
	error_fill(&error, status, err, "peer '%s': %s", peer->who.name, what);
	die(peer, &error);
}

void peer_die_last(struct engine_peer *peer)
{
	tcpx_error last = *error_last(), error;
	tcpx_status status = last.status ? last.status : TCPX_ERR_UNREACHABLE;

	if (peer->died)
		return;
	error_fill(&error, status, last.system_errno, "peer '%s': %s", peer->who.name, last.what);
	if (last.status)
		memcpy(error.next, last.next, sizeof(error.next));
	die(peer, &error);
}

/* Out of the session's list; the handle is stale from here on. Control thread, after death. */
void peer_forget(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	struct engine_peer *now;

	if (peer->released)
		return;
	peer->released = true;
	inbound_forget(peer);
	session_lock(session);
	handle_hide(peer);
	list_remove(&peer->node);
	now = peer->reconnect.now;
	peer->reconnect.now = NULL;
	session_unlock(session);
	if (now)
		peer_put(now);
	peer_put(peer);
}
