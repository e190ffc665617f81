/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets the thread of an application that polls in a loop receive on the priority channels, so that
 * a small transfer and the peer's answer do not wait until a worker wakes up.
 *
 * Between two polls of such a loop the application keeps the channels: epoll does not report their
 * data to the worker. A poll that finds something gives the channels back to the worker. If the
 * loop ends without such a poll, the worker takes the channels back about a millisecond later
 * (worker.c).
 */
#include "engine/channel/app_poll.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/worker.h"

#define LOOP_GAP_NS (20 * 1000ll) /* longest time between two polls of the same loop */
#define LOOP_CALLS 4		  /* polls without result, after the first one, that make a loop */
#define RECV_EVERY_NS 1000	  /* shortest time between two receives: each costs system calls */
/* a receive is made every so many polls without result, even if RECV_EVERY_NS is not over */
#define RECV_EVERY_CALLS 64
#define SENDS_NS 20000 /* added to RECV_EVERY_NS while bulk bytes wait to be sent */
#define RECV_PRIOS 4   /* most channels that the loop receives on; the worker serves the others */
#define RECV_BYTES (256u << 10) /* about the most bytes received at a time on a channel */

/* The polling loop of the application on this thread. */
static _Thread_local struct {
	int64_t called_ns, received_ns;
	uint32_t calls;
	/* the loop has received since a poll last found something, and may keep channels */
	bool keeps;
	bool receiving; /* a receive is under way */
} loop;

bool app_poll_receives(void)
{
	return loop.receiving;
}

/* Makes the calling thread the rx owner of the peer's priority channel, and returns the channel
 * with a reference. Returns NULL if the peer has no priority channel, or if that channel has
 * failed, is stopped, is a plugin channel, or has another rx owner. Sets *out_sends to whether bulk
 * bytes wait to be sent to the peer: the threads that send them need the processor more than a
 * receive does. */
static struct engine_chan *prio_enter(struct engine_peer *peer, bool *out_sends)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer_chan_get(peer, CORE_PRIO);
	*out_sends = peer->link.core_ready && !list_empty(&peer->link.core.sendq.bulk);
	link_unlock_only(&peer->link);
	if (!chan)
		return NULL;
	if (!chan->comms && !atomic_load(&chan->failed) && chan_rx_try(chan))
		return chan;
	chan_put(chan);
	return NULL;
}

/* Ends the calling thread's rx ownership. If `gives_back` is true and the channel has not failed,
 * lets the worker receive again. */
static void prio_leave(struct engine_chan *chan, bool gives_back)
{
	bool again = false;

	if (gives_back && !atomic_load(&chan->failed)) {
		chan_rx_mark(chan);
		again = chan_wait_recv(chan);
	}
	chan_rx_leave(chan);
	if (again)
		worker_again(chan);
}

static bool prio_kept(const struct engine_chan *chan)
{
	return atomic_load_explicit(&chan->app.kept, memory_order_relaxed);
}

/* Receives on the peer's priority channel, about RECV_BYTES at most. Takes the channel from the
 * worker first, unless an application keeps it already. If bulk bytes wait to be sent to the peer,
 * receives nothing, gives a channel that an application keeps back to its worker, and delays the
 * next receive (SENDS_NS). */
static void prio_receive(struct engine_peer *peer, int64_t now_ns)
{
	bool sends;
	struct engine_chan *chan = prio_enter(peer, &sends);

	if (!chan)
		return;
	if (sends) {
		loop.received_ns = now_ns + SENDS_NS;
		prio_leave(chan, prio_kept(chan));
		chan_put(chan);
		return;
	}
	atomic_store_explicit(&chan->app.polled_ns, now_ns, memory_order_relaxed);
	if (!prio_kept(chan)) {
		chan_keep_recv(chan);
		atomic_store(&chan->app.kept, true);
		worker_lend(chan);
	}
	loop.receiving = true;
	chan_rx_run(chan, RECV_BYTES);
	prio_leave(chan, false);
	/* With NET_CAP_DOORBELL, one event announces both arriving data and room to send, so
	 * sending is tried as well. */
	if (chan->net->ops->caps & NET_CAP_DOORBELL && atomic_exchange(&chan->tx_blocked, 0))
		chan_tx_kick(chan);
	link_run_deferred(&peer->link);
	loop.receiving = false;
	chan_put(chan);
}

/* Gives the peer's priority channel back to its worker if an application keeps it. */
static void prio_give_back(struct engine_peer *peer, int64_t now_ns)
{
	bool sends;
	struct engine_chan *chan = prio_enter(peer, &sends);

	(void)now_ns;
	if (!chan)
		return;
	prio_leave(chan, prio_kept(chan));
	chan_put(chan);
}

/* Calls fn for the peer, or for the first RECV_PRIOS peers of the session if peer is NULL.
 * Restores this thread's last error afterwards, because the application may still read it. */
static void prios_each(struct engine_session *session, struct engine_peer *peer,
		       void (*fn)(struct engine_peer *peer, int64_t now_ns), int64_t now_ns)
{
	struct engine_peer *each = NULL;
	tcpx_error last = *error_last();
	uint32_t n = 0;

	if (peer)
		fn(peer, now_ns);
	while (!peer && n++ < RECV_PRIOS && (each = session_next_peer(session, each)))
		fn(each, now_ns);
	if (each)
		peer_put(each);
	if (last.status || error_last()->status)
		(void)error_raise(&last);
}

void app_poll_missed(struct engine_session *session, struct engine_peer *peer, bool receives)
{
	int64_t now_ns = clock_now_ns();
	bool goes_on = now_ns - loop.called_ns < LOOP_GAP_NS;

	loop.called_ns = now_ns;
	loop.calls = goes_on ? loop.calls + 1 : 0;
	if (!receives || loop.calls < LOOP_CALLS || session->flags & TCPX_SESSION_NO_INLINE ||
	    (now_ns - loop.received_ns < RECV_EVERY_NS && loop.calls % RECV_EVERY_CALLS))
		return;
	loop.received_ns = now_ns;
	loop.keeps = true;
	prios_each(session, peer, prio_receive, now_ns);
	loop.called_ns = clock_now_ns(); /* a long receive does not end the loop */
}

void app_poll_found(struct engine_session *session, struct engine_peer *peer)
{
	loop.calls = 0;
	if (!loop.keeps)
		return;
	loop.keeps = false;
	prios_each(session, peer, prio_give_back, 0);
}
