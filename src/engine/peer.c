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
#include "engine/again.h"
#include "engine/block.h"
#include "engine/calls.h"
#include "engine/comms.h"
#include "engine/doubt.h"
#include "engine/early.h"
#include "engine/hold.h"
#include "engine/link/hooks.h"
#include "engine/share.h"
#include "engine/stage.h"
#include "sys/cpu.h"
#include "sys/fd.h"
#include "sys/futex.h"

#define CONNECT_LIMIT_NS (10 * CLOCK_S_NS)
#define DEATHS_SAID 50 /* lines about dead peers in 10 s */

static void wake_run(struct sys_post *post);

struct engine_peer *peer_create(struct engine_session *session)
{
	struct engine_peer *peer = handle_take(&session->peers);

	if (!peer)
		return NULL;
	peer->link.session = session;
	peer->link.events = &engine_link_events;
	sys_mutex_init_short(&peer->link.lock);
	list_init(&peer->link.wake.buried);
	early_init(peer);
	doubt_init(peer);
	block_peer_init(peer);
	hold_peer_init(peer);
	list_init(&peer->node);
	list_init(&peer->accept_node);
	list_init(&peer->inbound.half);
	list_init(&peer->inbound.dead);
	list_init(&peer->link.account.waiting);
	list_init(&peer->dialling.connect_timer.node);
	list_init(&peer->dialling.redial_timer.node);
	list_init(&peer->control.timer.node);
	list_init(&peer->link.wake.post.node);
	peer->link.wake.post.fn = wake_run;
	peer->transport = "";
	peer->who.auth = "";
	atomic_store(&peer->state, TCPX_PEER_CONNECTING);
	handle_publish(&session->peers, peer);
	peer->slot_id = peer->link.slot.id;
	peer->control.rival = -1;
	return peer;
}

void peer_enlist(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;

	session_lock(session);
	list_push_back(&session->peer_list, &peer->node);
	session_unlock(session);
}

/* Its slot is kept for the next peer, and freed with the session. */
static void wipe(struct engine_peer *peer)
{
	explicit_bzero(peer->dialling.key, sizeof(peer->dialling.key));
	explicit_bzero(peer->control.key, sizeof(peer->control.key));
	explicit_bzero(peer->shared_memory.nonce, sizeof(peer->shared_memory.nonce));
}

void peer_put(struct engine_peer *peer)
{
	if (atomic_fetch_sub(&peer->link.slot.refs, 1) != 1)
		return;
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

void peer_progress(struct engine_peer *peer)
{
	if (!atomic_load(&peer->link.flush.waiters))
		return;
	atomic_fetch_add(&peer->link.flush.word, 1);
	sys_futex_wake(&peer->link.flush.word, INT_MAX);
}

void peer_wake_control(struct engine_peer *peer)
{
	if (atomic_exchange(&peer->link.wake.posted, 1))
		return;
	peer_get(peer);
	sys_loop_post(&engine_runtime.loop, &peer->link.wake.post);
}

void peer_counters_add(tcpx_counters *sum, const struct core_link *link)
{
	sum->tx_bytes += link->tx_bytes;
	sum->rx_bytes += link->rx_bytes;
	sum->tx_chunks += link->tx_chunks;
	sum->rx_chunks += link->rx_chunks;
	sum->resent_chunks += link->resent;
	sum->aborted_chunks += link->aborted;
	sum->remote_rejects += link->refused;
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
	peer_dial_cancel(peer);
	inbound_ends(peer);
	link_lock(&peer->link);
	peer->error = *error;
	peer->link.core_done = true;
	memcpy(chans, peer->link.chan, sizeof(chans));
	memset(peer->link.chan, 0, sizeof(peer->link.chan));
	link_unlock(&peer->link);
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
	peer_progress(peer);
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

void peer_check_up(struct engine_peer *peer)
{
	struct engine_session *session = peer->link.session;
	bool unknown;
	uint32_t up;

	link_lock(&peer->link);
	up = core_link_channels_up(&peer->link.core);
	link_unlock(&peer->link);
	if (peer->counted_up || up + comms_given_up(peer) < peer->nbulk + 1)
		return;
	peer->counted_up = true;
	inbound_is_up(peer);
	peer_rival_close(peer);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.connect_timer);
	atomic_fetch_add(&session->peers_up, 1);
	again_up(peer);
	LOG_INFO("peer '%s' is up: %s, %u channels", peer->who.name, peer->transport, peer->nbulk);
	peer_set_state(peer, TCPX_PEER_UP);
	session_lock(session);
	unknown = peer_unknown(peer);
	session_unlock(session);
	if (unknown)
		return;
	peer_event(peer, TCPX_EVENT_PEER_UP, TCPX_OK, 0);
	if (!peer->dialler)
		session_accepted(session, peer);
}

/* What other threads left for the control thread. */
static void wake_run(struct sys_post *post)
{
	struct engine_peer *peer = LIST_ENTRY(post, struct engine_peer, link.wake.post);
	struct engine_session *session = peer->link.session;
	uint64_t free_mask;
	bool failed;
	tcpx_status status;

	atomic_store(&peer->link.wake.posted, 0);
	again_start(peer);
	if (peer->control.full)
		peer_die(peer, TCPX_ERR_PEER_STOPPED, 0, "control link does not drain");
	peer_take_down(peer);
	link_lock(&peer->link);
	failed = peer->link.wake.failed;
	status = peer->link.wake.failed_status;
	free_mask = peer->link.wake.free_mask;
	peer->link.wake.free_mask = 0;
	link_unlock(&peer->link);
	if (failed && status == TCPX_ERR_NO_MEMORY)
		status = session_memory_error(session);
	if (failed)
		peer_die(peer, status, 0,
			 status == TCPX_ERR_LIMIT ? error_last()->what : error_status_text(status));
	for (uint32_t i = 0; free_mask && i <= peer->nbulk && !peer->died; i++)
		if ((free_mask & (1ull << i)) && peer->dialler)
			peer_redial_later(peer, i);
	if (!peer->died)
		peer_send_fences(peer);
	if (!peer->died)
		share_run(peer);
	comms_run(peer);
	doubts_look(peer);
	for (;;) {
		struct list_node *node;

		link_lock(&peer->link);
		node = list_pop_front(&peer->link.wake.buried);
		link_unlock(&peer->link);
		if (!node)
			break;
		request_put(LIST_ENTRY(node, struct engine_request, done));
	}
	stage_offer(session);
	peer_put(peer);
}
