/* SPDX-License-Identifier: Apache-2.0 */
/* The functions by which the core and the link call the layers above them. Also runs the work that
 * was deferred until the link's lock is free. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/request/goodbye_wait.h"
#include "engine/session/calls.h"
#include "engine/link/hold.h"
#include "engine/path/paths.h"
#include "engine/channel/serve.h"

static void hook_ended(void *arg, struct core_xfer *xfer)
{
	struct engine_request *request = LIST_ENTRY(xfer, struct engine_request, xfer);

	(void)arg;
	if (!goodbye_wait_add(request))
		request_ended(request);
}

static void hook_resp_ended(void *arg, struct core_resp *resp)
{
	(void)arg;
	served_free(resp);
}

static void hook_kick(void *arg, uint32_t channel)
{
	struct engine_peer *peer = arg;

	atomic_fetch_or(&peer->link.kick_mask, 1ull << channel);
}

static void hook_close_channel(void *arg, uint32_t channel)
{
	struct engine_peer *peer = arg;

	/* The peer has fenced the channel, which is still up on this side. */
	peer->link.wake.close_mask |= 1ull << channel;
	link_wake(&peer->link);
}

static void hook_fail(void *arg, tcpx_status status)
{
	struct engine_peer *peer = arg;

	if (!peer->link.wake.failed) {
		peer->link.wake.failed = true;
		peer->link.wake.failed_status = status;
	}
	link_wake(&peer->link);
}

static void hook_fence(void *arg, uint32_t channel, uint32_t epoch, uint64_t applied,
		       const struct core_nack *nacks, uint32_t count)
{
	struct engine_peer *peer = arg;
	struct fence_out *fence = malloc(sizeof(*fence) + count * sizeof(*nacks)), **tail;

	if (!fence) {
		hook_fail(peer, TCPX_ERR_NO_MEMORY);
		return;
	}
	*fence = (struct fence_out){
		.channel = channel, .epoch = epoch, .count = count, .applied = applied};
	if (count)
		memcpy(fence->nacks, nacks, count * sizeof(*nacks));
	for (tail = &peer->link.wake.fences; *tail; tail = &(*tail)->next)
		;
	*tail = fence;
	link_wake(&peer->link);
}

static void hook_channel_free(void *arg, uint32_t channel)
{
	struct engine_peer *peer = arg;

	hold_fenced(peer, channel);
	peer->link.wake.free_mask |= 1ull << channel;
	link_wake(&peer->link);
}

static void hook_notifying(void *arg, struct core_xfer *xfer)
{
	(void)arg;
	/* the acknowledgement arrives on the priority channel, whatever the bytes went by */
	atomic_store(&LIST_ENTRY(xfer, struct engine_request, xfer)->leads, true);
}

static void hook_notify(void *arg, struct core_notify_in *msg)
{
	note_published(arg, msg);
}

static void hook_note_ended(void *arg)
{
	link_progress(&((struct engine_peer *)arg)->link);
}

static tcpx_status hook_deliver(void *arg, struct core_xfer *xfer, const void *data, uint64_t bytes)
{
	/* Copying into the application's memory may wait for a page, so the copy is prepared here
	 * and made when the lock is free. */
	return bytes ? path_deliver(arg, LIST_ENTRY(xfer, struct engine_request, xfer), data, bytes)
		     : TCPX_OK;
}

/* Stores whether the link waits for staging memory. The caller holds queue.lock. */
static void set_hungry(struct engine_peer *peer, bool hungry)
{
	peer->link.session->staging.hungry += (uint32_t)hungry - (uint32_t)peer->link.quota.hungry;
	peer->link.quota.hungry = hungry;
}

static uint64_t hook_stage_take(void *arg, uint64_t want, uint64_t least)
{
	struct engine_peer *peer = arg;
	struct engine_session *session = peer->link.session;
	uint64_t quota = session->staging.pool / 2, got;

	pthread_mutex_lock(&session->queue.lock);
	got = want < session->staging.free ? want : session->staging.free;
	if (peer->link.quota.held + got > quota)
		got = quota > peer->link.quota.held ? quota - peer->link.quota.held : 0;
	if (got < least)
		got = 0;
	session->staging.free -= got;
	peer->link.quota.held += got;
	set_hungry(peer, got < want);
	pthread_mutex_unlock(&session->queue.lock);
	return got;
}

/* Reserves staging memory that the peer may keep without a request: `want` bytes, or none if all
 * peers together would then keep more than an eighth of the pool. Returns the number of bytes
 * reserved. */
static uint64_t hook_stage_ahead(void *arg, uint64_t want)
{
	struct engine_peer *peer = arg;
	struct engine_session *session = peer->link.session;

	pthread_mutex_lock(&session->queue.lock);
	if (session->staging.ahead + want > session->staging.pool / 8)
		want = 0;
	session->staging.ahead += want;
	peer->link.quota.ahead += want;
	pthread_mutex_unlock(&session->queue.lock);
	return want;
}

/* Returns staging memory of the link to the session's pool. A dead link also gives up what the peer
 * may keep without a request. If other links wait for staging memory, wakes the control thread,
 * which offers the memory to them. This link needs no offer, since its core asks again at once. */
static void hook_stage_give(void *arg, uint64_t bytes)
{
	struct engine_peer *peer = arg;
	struct engine_session *session = peer->link.session;
	bool others;

	pthread_mutex_lock(&session->queue.lock);
	if (peer->link.core.dead) {
		set_hungry(peer, false);
		session->staging.ahead -= peer->link.quota.ahead;
		peer->link.quota.ahead = 0;
	}
	session->staging.free += bytes;
	peer->link.quota.held -= bytes;
	others = session->staging.hungry > peer->link.quota.hungry;
	others &= bytes > 0;
	session->staging.returned |= others;
	pthread_mutex_unlock(&session->queue.lock);
	if (others)
		link_wake(&peer->link);
}

static void hook_fill(void *arg)
{
	path_fill(arg);
}

static void hook_fill_drop(void *arg, struct core_job *job)
{
	path_fill_drop(arg, job);
}

static void *hook_alloc(void *arg, size_t bytes)
{
	return session_alloc(((struct engine_peer *)arg)->link.session, bytes);
}

static void hook_free(void *arg, void *ptr, size_t bytes)
{
	session_free(((struct engine_peer *)arg)->link.session, ptr, bytes);
}

static void *hook_note_alloc(void *arg, size_t bytes, size_t there)
{
	return account_note_alloc(((struct engine_peer *)arg)->link.session, bytes, there);
}

static void hook_note_grew(void *arg, size_t more)
{
	account_note_grew(((struct engine_peer *)arg)->link.session, more);
}

static void hook_note_free(void *arg, void *ptr, size_t there)
{
	account_note_free(((struct engine_peer *)arg)->link.session, ptr, there);
}

static uint64_t hook_note_take(void *arg, uint64_t want, uint64_t least)
{
	return account_take(arg, want, least);
}

static void hook_note_give(void *arg, uint64_t bytes)
{
	account_give(arg, bytes);
}

const struct core_ops engine_core_ops = {
	.ended = hook_ended,
	.resp_ended = hook_resp_ended,
	.kick = hook_kick,
	.close_channel = hook_close_channel,
	.fence = hook_fence,
	.channel_free = hook_channel_free,
	.notify = hook_notify,
	.note_ended = hook_note_ended,
	.notifying = hook_notifying,
	.deliver = hook_deliver,
	.stage_take = hook_stage_take,
	.stage_ahead = hook_stage_ahead,
	.stage_give = hook_stage_give,
	.fill = hook_fill,
	.fill_drop = hook_fill_drop,
	.alloc = hook_alloc,
	.free = hook_free,
	.note_alloc = hook_note_alloc,
	.note_grew = hook_note_grew,
	.note_free = hook_note_free,
	.note_take = hook_note_take,
	.note_give = hook_note_give,
	.fail = hook_fail,
};

static struct engine_chan *hooks_chan_get(struct engine_peer *peer, uint32_t channel)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer_chan_get(peer, channel);
	link_unlock_only(&peer->link);
	return chan;
}

/* Kicks a channel. `here` says whether this thread may send on the priority channel; `solo` says
 * that it posts a solo WRITE. */
static void hooks_kick(struct engine_peer *peer, uint32_t channel, bool here, bool solo)
{
	struct engine_chan *chan = hooks_chan_get(peer, channel);

	if (!chan)
		return;
	if (worker_is_current(chan->worker) ||
	    (channel == CORE_PRIO && here && !runtime_is_control()))
		(solo ? chan_tx_kick_solo : chan_tx_kick)(chan);
	else
		worker_kick(chan);
	chan_put(chan);
}

/* Does what was deferred while the lock was held: the work of path_flush(), and kicks of channels.
 * `here` says whether this thread may send on the priority channel; the control thread never
 * does. */
static void hooks_run(struct engine_peer *peer, bool here)
{
	uint64_t mask;

	path_flush(peer);
	while ((mask = atomic_exchange(&peer->link.kick_mask, 0))) {
		while (mask) {
			uint32_t channel = (uint32_t)__builtin_ctzll(mask);

			mask &= mask - 1;
			hooks_kick(peer, channel, here, false);
		}
	}
}

/* Runs deferred work, and keeps this thread's last error, because the caller that unlocked may be
 * about to return it. */
static void hooks_deferred(struct link *link)
{
	tcpx_error last;

	if (!error_last()->status) {
		hooks_run(link_peer(link), true);
		return;
	}
	last = *error_last();
	hooks_run(link_peer(link), true);
	(void)error_raise(&last);
}

/* Runs deferred work on a thread that posts or that has ended copies. Unless `sends` is
 * POST_NOTHING, this thread first sends on the priority channel. Then it wakes only one of the
 * sleeping workers; that worker wakes the others. A second wake-up would often take the processor
 * from this thread in the middle of its call. With POST_FIRST, this thread instead kicks all
 * channels but the first one whose worker sleeps, and then sends for that one itself, so that all
 * send at the same time. */
static void hooks_posted(struct link *link, enum post_sends sends)
{
	struct engine_peer *peer = link_peer(link);
	struct engine_chan *first = NULL;
	uint64_t mask, later = 0;

	path_flush(peer);
	mask = atomic_exchange(&peer->link.kick_mask, 0);
	if (sends != POST_NOTHING && (mask & 1ull << CORE_PRIO)) {
		hooks_kick(peer, CORE_PRIO, true, sends == POST_FIRST);
		/* Also takes kicks that were added in the meantime, maybe again of the priority
		 * channel. */
		mask = (mask & ~(1ull << CORE_PRIO)) | atomic_exchange(&peer->link.kick_mask, 0);
	}
	while (mask) {
		uint32_t channel = (uint32_t)__builtin_ctzll(mask);
		struct engine_chan *chan = hooks_chan_get(peer, channel);

		mask &= mask - 1;
		if (!chan)
			continue;
		if (!first && worker_sleeps(chan)) {
			first = chan;
			continue;
		} else if (sends == POST_FIRST || !worker_sleeps(chan)) {
			worker_kick(chan);
		} else {
			later |= 1ull << channel;
		}
		chan_put(chan);
	}
	/* The worker that is woken below kicks the channels in `later`, so kick_mask must be set
	 * first. */
	atomic_fetch_or(&peer->link.kick_mask, later);
	if (first && sends == POST_FIRST) {
		chan_tx_kick(first);
		hooks_run(peer, false);
		chan_put(first);
	} else if (first) {
		worker_kick(first);
		if (later && atomic_load(&first->tx_blocked))
			/* transport full: the worker was not woken, so it does not kick the
			 * others */
			hooks_run(peer, false);
		chan_put(first);
	}
}

static void hooks_dying(struct link *link)
{
	peer_dial_cancel(link_peer(link));
}

static tcpx_status hooks_attach(struct link *link, uint32_t channel, uint32_t epoch,
				struct net_chan *chan)
{
	return peer_attach(link_peer(link), channel, epoch, chan);
}

static void hooks_settled(struct link *link)
{
	peer_check_up(link_peer(link));
}

static void hooks_dial_later(struct link *link, uint32_t channel)
{
	peer_redial_later(link_peer(link), channel);
}

static bool hooks_listen_local(struct link *link)
{
	return session_local_open(link->session);
}

const struct link_events engine_link_events = {
	.deferred = hooks_deferred,
	.posted = hooks_posted,
	.free = peer_free,
	.dying = hooks_dying,
	.woken = peer_woken,
	.control = &peer_ctl_ops,
	.attach = hooks_attach,
	.settled = hooks_settled,
	.dial_later = hooks_dial_later,
	.listen_local = hooks_listen_local,
};
