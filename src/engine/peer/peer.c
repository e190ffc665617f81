/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a peer: how it dies, what ends with it, and when its handle becomes stale. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/request/reconnect.h"
#include "engine/link/block.h"
#include "engine/peer/peer_calls.h"
#include "engine/channel/comms.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "engine/link/hold.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"
#include "sys/addr.h"
#include "sys/cpu.h"
#include "sys/fd.h"
#include "sys/futex.h"

#define DEATHS_SAID 50 /* most log lines of each kind about dead peers in 10 s */

/* Overwrites the peer's keys. The memory of a peer is reused for other peers, and freed only with
 * the session. */
static void peer_wipe_keys(struct engine_peer *peer)
{
	explicit_bzero(peer->dialling.key, sizeof(peer->dialling.key));
	explicit_bzero(peer->control.key, sizeof(peer->control.key));
	explicit_bzero(peer->shared_memory.nonce, sizeof(peer->shared_memory.nonce));
}

void peer_free(struct link *link)
{
	struct engine_peer *peer = link_peer(link);

	peer_wipe_keys(peer);
	if (peer->link.core_ready)
		core_link_fini(&peer->link.core);
	block_shares_free(peer);
	share_peer_free(peer);
	comms_peer_free(peer);
	reconnect_put(peer);
	pthread_mutex_destroy(&peer->link.lock);
	handle_give(&peer->link.session->peers, peer);
	runtime_peer_freed();
}

struct engine_peer *engine_peer_get(struct engine_session *session, uint64_t peer_id)
{
	struct engine_peer *peer;

	/* nothing drops the list's reference to the peer while session.lock is held */
	session_lock(session);
	peer = handle_find(&session->peers, peer_id);
	if (peer && peer->reconnect.now)
		peer = peer->reconnect.now;
	if (peer)
		peer_get(peer);
	session_unlock(session);
	if (!peer)
		error_set(TCPX_ERR_STALE, 0, "peer handle %llx is no longer valid",
			  (unsigned long long)peer_id);
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

static void peer_keep_counters(struct engine_session *session, const struct core_link *link)
{
	pthread_mutex_lock(&session->queue.lock);
	peer_counters_add(&session->counters.gone, link);
	pthread_mutex_unlock(&session->queue.lock);
}

void peer_close_lost_dial(struct engine_peer *peer)
{
	if (peer->control.lost_dial_fd >= 0)
		sys_fd_close(peer->control.lost_dial_fd);
	peer->control.lost_dial_fd = -1;
}

bool peer_malformed(tcpx_status status)
{
	return status == TCPX_ERR_PROTOCOL || status == TCPX_ERR_CORRUPT ||
	       status == TCPX_ERR_VERSION;
}

void peer_release_dead_chan(struct engine_chan *chan)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX] = {chan};

	comms_call_returned(chan->comms);
	if (chan->comms)
		comms_close(chan->comms, false);
	hold_dead(chan->peer, chans);
	chan_put(chan);
}

static void peer_drop_fences(struct engine_peer *peer)
{
	while (peer->link.wake.fences) {
		struct fence_out *fence = peer->link.wake.fences;

		peer->link.wake.fences = fence->next;
		free(fence);
	}
}

/* Logs one line for the peer and the channels that were lost with it. */
static void peer_log_death(struct engine_peer *peer)
{
	/* a peer that connects and dies again and again must not fill the log */
	static struct log_limit limit;
	const tcpx_error *error = &peer->error;
	uint32_t lost = losses_forget(peer);

	/* a failed attempt to dial again: the loss of the link was logged before */
	if (peer->reconnect.successor && !peer->counted_up) {
		if (reconnect_failed_anew(peer, error->status))
			LOG_INFO("%s", error->what);
		return;
	}
	if (error->status == TCPX_ERR_DISCONNECTED || error->status == TCPX_ERR_SESSION_CLOSED ||
	    (!lost && (error->status == TCPX_ERR_PEER_CLOSED || error->status == TCPX_ERR_EXISTS)))
		LOG_INFO("%s", error->what);
	else if (log_allow(&limit, DEATHS_SAID))
		LOG_WARN("%s%s; next: %s", error->what,
			 lost || peer->counted_up ? " (all channels ended)" : "", error->next);
}

/* Whether the peer is hidden from the application: the session has NO_ACCEPT, this side did not
 * dial the peer, and the application did not get its handle. */
bool peer_hidden(const struct engine_peer *peer)
{
	return (peer->link.session->flags & TCPX_SESSION_NO_ACCEPT) && !peer->dialler &&
	       !peer->exposed;
}

/* Warns that this side ended the link while `untaken` notifications were not acknowledged. */
static void peer_say_untaken(const struct engine_peer *peer, uint32_t untaken)
{
	static struct log_limit limit;

	if (untaken && log_allow(&limit, DEATHS_SAID))
		LOG_WARN("peer '%s': closed while %u notifications were on their way, which may be "
			 "lost; next: wait with tcpx_peer_flush() before",
			 peer->who.name, untaken);
}

/* Ends the peer, its channels, and its requests, which get the status of `error`. The order is that
 * of docs/design/recovery.md, "A peer's end": new work is prevented, then the channels stop, then
 * the requests end, and at last the application is notified. Control thread. */
static void peer_end(struct engine_peer *peer, const tcpx_error *error)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX];
	tcpx_status status = error->status;
	struct engine_session *session = peer->link.session;
	bool was_up = peer->counted_up, exposed, unknown, leased;
	uint32_t i, lost, untaken = 0;

	session_lock(session); /* other threads look peers up and read `died` */
	peer->died = true;
	unknown = peer_hidden(peer);
	exposed = (was_up && !unknown) || peer->exposed;
	session_unlock(session);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.connect_timer);
	sys_timer_del(&engine_runtime.loop, &peer->dialling.redial_timer);
	sys_timer_del(&engine_runtime.loop, &peer->control.timer);
	sys_timer_del(&engine_runtime.loop, &peer->goodbye_wait.timer);
	peer->link.events->dying(&peer->link);
	inbound_ends(peer);
	link_lock(&peer->link);
	peer->error = *error;
	peer->link.core_done = true;
	memcpy(chans, peer->link.chan, sizeof(chans));
	memset(peer->link.chan, 0, sizeof(peer->link.chan));
	link_unlock_only(&peer->link);
	peer_log_death(peer);
	for (i = 0; i < CORE_CHANNELS_MAX; i++)
		if (chans[i] && !chan_stop(chans[i], peer_release_dead_chan)) {
			comms_call_pending(chans[i]->comms);
			chans[i] =
				NULL; /* peer_release_dead_chan() drops the channel's reference */
		}
	comms_peer_dead(peer);
	if (peer->control.link)
		ctl_link_close(peer->control.link);
	peer->control.link = NULL;
	peer_close_lost_dial(peer);
	/* wiped here, because the application may keep the dead peer's handle for a long time */
	peer_wipe_keys(peer);
	leased = share_leased(peer);
	link_lock(&peer->link);
	if (peer->link.core_ready) {
		if (leased)
			core_link_lease(&peer->link.core);
		if (status == TCPX_ERR_SESSION_CLOSED || status == TCPX_ERR_DISCONNECTED)
			untaken = core_note_untaken(&peer->link.core);
		core_link_fail(&peer->link.core, status);
		peer_keep_counters(session, &peer->link.core);
	}
	lost = pending_fail(peer, status);
	goodbye_waits_fail(peer, status);
	peer_drop_fences(peer);
	link_unlock(&peer->link);
	pending_say_lost(peer, lost);
	peer_say_untaken(peer, untaken);
	share_peer_dead(peer);
	hold_dead(peer, chans);
	for (i = 0; i < CORE_CHANNELS_MAX; i++)
		if (chans[i])
			chan_put(chans[i]);
	if (was_up)
		atomic_fetch_add(&session->counters.peers_lost, 1);
	else
		atomic_fetch_add(&session->counters.peers_failed, 1);
	if (peer_malformed(status) && peer->link.core_ready)
		atomic_fetch_add(&session->counters.protocol_errors, 1);
	peer_set_state(peer, TCPX_PEER_DEAD);
	link_progress(&peer->link);
	if (exposed) /* otherwise the application does not have the handle */
		peer_event(peer,
			   status == TCPX_ERR_PEER_RESTARTED ? TCPX_EVENT_PEER_RESTARTED
							     : TCPX_EVENT_PEER_DOWN,
			   status, 0);
	/* Forget the peer at once if the application does not have its handle: it was accepted and
	 * not exposed (a hidden peer, too), or another peer has the handle, and keeps this one in
	 * reconnect.now. Others are kept for queries; of the accepted ones, only the newest. */
	if ((!exposed && !peer->dialler) || unknown || peer->reconnect.successor)
		peer_forget(peer);
	else if (!peer->dialler)
		inbound_remember(peer);
}

void peer_die(struct engine_peer *peer, tcpx_status status, int err, const char *what)
{
	tcpx_error error;
	char text[SYS_ADDR_TEXT];

	if (peer->died)
		return;
	if (peer->dialler && peer->address.remote.ss_family)
		error_fill(&error, status, err, "peer '%s': %s (%s)", peer->who.name, what,
			   sys_addr_text(&peer->address.remote, text));
	else
		error_fill(&error, status, err, "peer '%s': %s", peer->who.name, what);
	peer_end(peer, &error);
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
	peer_end(peer, &error);
}

/* Removes a dead peer from the session's list and makes its handle stale. Does nothing if called
 * again. Control thread. */
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
