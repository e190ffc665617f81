/* SPDX-License-Identifier: Apache-2.0 */
/* Calls about connected peers: flush, find, query, counters. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "engine/peer/peer_calls.h"
#include "engine/channel/comms.h"
#include "engine/path/share.h"
#include "engine/request/goodbye_wait.h"
#include "engine/request/pending.h"
#include "sys/addr.h"
#include "sys/futex.h"

/* Whether a request with a number up to `until`, or a notification with a number up to `notes`, is
 * still under way. The caller holds link.lock. */
static bool flush_pending(struct engine_peer *peer, uint64_t until, uint64_t notes)
{
	struct core_xfer *xfer = NULL;

	while ((xfer = core_xfer_after(&peer->link.core, xfer)))
		if (LIST_ENTRY(xfer, struct engine_request, xfer)->post_seq <= until)
			return true;
	return core_notes_wait(&peer->link.core, notes) || goodbye_wait_has(peer, until);
}

/* Waits until all posts that wait for the link are handed to the core. Then records the numbers of
 * the last request and of the last notification, asks for acknowledgements, and waits until
 * everything up to these numbers has ended. Returns IN_PROGRESS at the timeout, or the link's error
 * if the link has ended. */
tcpx_status engine_flush(struct engine_session *session, uint64_t peer_id, int64_t timeout_ns)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
	int64_t deadline = timeout_ns < 0 ? -1 : clock_after(timeout_ns);
	uint64_t until = 0, notes = 0;
	tcpx_status status = TCPX_OK;
	bool first = true;

	if (!peer)
		return TCPX_ERR_STALE;
	atomic_fetch_add(&peer->link.flush.waiters, 1);
	for (;;) {
		uint32_t word = atomic_load(&peer->link.flush.word);
		bool wait = false;

		link_lock(&peer->link);
		if (peer->link.core_done)
			status = error_raise(&peer->error);
		else if (pending_waits(peer))
			/* check again when posts that wait have gone to the core */
			wait = true;
		else if (peer->link.core_ready && first) {
			first = false;
			until = peer->post_seq;
			notes = core_note_last(&peer->link.core);
			core_link_ask(&peer->link.core);
		}
		if (status == TCPX_OK && !first)
			wait = flush_pending(peer, until, notes);
		link_unlock(&peer->link);
		if (!wait)
			break;
		if (sys_futex_wait(&peer->link.flush.word, word, deadline) < 0) {
			status = TCPX_IN_PROGRESS; /* what was posted continues */
			break;
		}
	}
	atomic_fetch_sub(&peer->link.flush.waiters, 1);
	peer_put(peer);
	return status;
}

void peer_notes_await(struct engine_peer *peer, int64_t deadline)
{
	bool asked = false, wait;
	uint32_t word;

	atomic_fetch_add(&peer->link.flush.waiters, 1);
	do {
		word = atomic_load(&peer->link.flush.word);
		link_lock(&peer->link);
		wait = peer->link.core_ready && !peer->link.core_done &&
		       core_note_untaken(&peer->link.core);
		if (wait && !asked)
			core_link_ask(&peer->link.core);
		asked = true;
		link_unlock(&peer->link);
	} while (wait && sys_futex_wait(&peer->link.flush.word, word, deadline) >= 0);
	atomic_fetch_sub(&peer->link.flush.waiters, 1);
}

tcpx_status engine_peer_find(struct engine_session *session, const char *name, tcpx_peer *out_peer)
{
	struct list_node *pos;
	uint64_t id = 0;

	session_lock(session);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);
		uint32_t state = atomic_load(&peer->state);

		if ((state == TCPX_PEER_UP || state == TCPX_PEER_SUSPECT) &&
		    !strcmp(peer->who.name, name))
			id = peer->app_handle;
	}
	session_unlock(session);
	if (!id)
		return error_set(TCPX_ERR_NOT_FOUND, 0, "no connected peer is named '%s'", name);
	out_peer->id = id;
	return TCPX_OK;
}

/* Asks the workers for new samples of the peer's channels, and waits at most 100 ms for them. */
static void peer_sample_channels(struct engine_peer *peer)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX];
	uint32_t count = 0;

	link_lock(&peer->link);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (!peer->link.chan[i])
			continue;
		chan_get(peer->link.chan[i]);
		chans[count++] = peer->link.chan[i];
	}
	link_unlock(&peer->link);
	chan_sample_all(chans, count);
	while (count)
		chan_put(chans[--count]);
}

/* Fills in *out_info. The figures of the transports are sums over the channels. Workers take new
 * samples for this call; the last sample is used if a worker is busy for too long
 * (chan_sample_all). */
tcpx_status engine_peer_query(struct engine_session *session, uint64_t peer_id,
			      tcpx_peer_info *out_info)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
	tcpx_peer_info info = {.sz = out_info->sz};
	char text[SYS_ADDR_TEXT];

	if (!peer)
		return TCPX_ERR_STALE;
	peer_sample_channels(peer);
	link_lock(&peer->link);
	memcpy(info.name, peer->who.name, sizeof(info.name));
	info.state = (enum tcpx_peer_state)atomic_load(&peer->state);
	snprintf(info.transport, sizeof(info.transport), "%s", peer->transport);
	snprintf(info.auth, sizeof(info.auth), "%s", peer->who.auth);
	snprintf(info.address, sizeof(info.address), "%.63s",
		 sys_addr_text(&peer->address.remote, text));
	memcpy(info.key, peer->who.text, sizeof(info.key));
	info.chunk_bytes = peer->chunk_bytes;
	info.rtt_ns = (uint64_t)atomic_load(&peer->control.rtt_ns);
	info.read_bytes_per_s = peer->rate[0];
	info.write_bytes_per_s = peer->rate[1];
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		struct net_chan_info chan = {{0}};

		if (!peer->link.chan[i])
			continue;
		chan_sample_read(peer->link.chan[i], &chan);
		info.channels += i != CORE_PRIO && !peer->link.chan[i]->comms;
		info.message_channels += peer->link.chan[i]->comms != NULL;
		if (i != CORE_PRIO || !info.congestion[0])
			memcpy(info.congestion, chan.congestion, sizeof(info.congestion));
		if (chan.copy)
			snprintf(info.copy, sizeof(info.copy), "%s", chan.copy);
		info.busy_ns += chan.busy_ns;
		info.rwnd_limited_ns += chan.rwnd_limited_ns;
		info.sndbuf_limited_ns += chan.sndbuf_limited_ns;
		info.retransmits += chan.retransmits;
	}
	if (peer->comms && info.message_channels < peer->comms->count)
		text_format(info.message_error, sizeof(info.message_error), "%s",
			    peer->comms->missing);
	if (peer->shared)
		memcpy(info.share_error, peer->shared->why, sizeof(info.share_error));
	link_unlock(&peer->link);
	*out_info = info;
	peer_put(peer);
	return TCPX_OK;
}

/* Fills in the state of one channel. The caller holds link.lock. */
static void channel_describe(struct engine_chan *chan, tcpx_channel_info *out_info)
{
	struct net_chan_info net = {{0}};

	chan_sample_read(chan, &net);
	out_info->channel = chan->index;
	out_info->messages = chan->comms != NULL;
	if (chan->comms) {
		snprintf(out_info->nic, sizeof(out_info->nic), "%s", comms_nic_name(chan->comms));
		out_info->relayed = comms_relayed(chan->comms);
		snprintf(out_info->unpack, sizeof(out_info->unpack), "%s",
			 comms_unpack_text(chan->comms));
	}
	out_info->sends_posted = net.messages.sends_posted;
	out_info->sends_done = net.messages.sends_done;
	out_info->posted = net.messages.posted;
	out_info->done = net.messages.done;
	out_info->unpacked = net.messages.unpacked;
	out_info->consumed = net.messages.consumed;
}

tcpx_status engine_channel_query(struct engine_session *session, uint64_t peer_id, uint32_t index,
				 tcpx_channel_info *out_info)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);
	tcpx_status status = TCPX_ERR_NOT_FOUND;
	uint32_t up = 0;

	if (!peer)
		return TCPX_ERR_STALE;
	peer_sample_channels(peer);
	link_lock(&peer->link);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX && status != TCPX_OK; i++) {
		if (!peer->link.chan[i] || up++ != index)
			continue;
		channel_describe(peer->link.chan[i], out_info);
		status = TCPX_OK;
	}
	link_unlock(&peer->link);
	peer_put(peer);
	return status == TCPX_OK
		       ? status
		       : error_set(status, 0, "there is no channel %u: the peer has %u", index, up);
}

tcpx_status engine_peer_error(struct engine_session *session, uint64_t peer_id,
			      tcpx_error *out_error)
{
	struct engine_peer *peer = engine_peer_get(session, peer_id);

	if (!peer)
		return TCPX_ERR_STALE;
	link_lock(&peer->link);
	*out_error = peer->error;
	link_unlock(&peer->link);
	peer_put(peer);
	return TCPX_OK;
}

/* Fills in the counters: the counts of ended peers plus those of live peers' cores, and the counts
 * of the session. */
void engine_counters(struct engine_session *session, tcpx_counters *out_counters)
{
	tcpx_counters sum;
	struct list_node *pos;

	session_lock(session);
	pthread_mutex_lock(&session->queue.lock);
	sum = session->counters.gone;
	sum.staging_bytes = session->staging.pool - session->staging.free;
	pthread_mutex_unlock(&session->queue.lock);
	LIST_FOREACH(pos, &session->peer_list) {
		struct engine_peer *peer = LIST_ENTRY(pos, struct engine_peer, node);

		sum.peers_connecting += atomic_load(&peer->state) == TCPX_PEER_CONNECTING;
		link_lock(&peer->link);
		if (peer->link.core_ready && !peer->link.core.dead)
			peer_counters_add(&sum, &peer->link.core);
		link_unlock_only(&peer->link);
	}
	session_unlock(session);
	sum.sz = out_counters->sz;
	sum.requests_posted = atomic_load(&session->counters.posted);
	sum.requests_done = atomic_load(&session->counters.done);
	sum.requests_failed = atomic_load(&session->counters.failed);
	sum.requests_active = atomic_load(&session->counters.active);
	sum.notifications_sent = atomic_load(&session->counters.notes_out);
	sum.notifications_received = atomic_load(&session->counters.notes_in);
	sum.peers_up = atomic_load(&session->counters.peers_up);
	sum.peers_lost = atomic_load(&session->counters.peers_lost);
	sum.peers_failed = atomic_load(&session->counters.peers_failed);
	sum.channels_lost = atomic_load(&session->counters.channels_lost);
	sum.control_redials = atomic_load(&session->counters.redials);
	sum.carrier_losses = atomic_load(&session->counters.carrier_losses);
	sum.protocol_errors = atomic_load(&session->counters.protocol_errors);
	sum.accepted = atomic_load(&session->counters.ctl.accepted);
	sum.preauth_rejects = atomic_load(&session->counters.ctl.preauth_rejects);
	sum.auth_failures = atomic_load(&session->counters.ctl.auth_failures);
	sum.impostors = atomic_load(&session->identity.impostors);
	sum.regions = mem_regions_count(session->regions);
	sum.memory_bytes = account_bytes(session);
	sum.holders_ended = atomic_load(&session->account.ended);
	*out_counters = sum;
}
