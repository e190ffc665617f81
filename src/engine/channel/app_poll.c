/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that polls in a loop receives on the priority channels itself, so that neither a
 * message nor its answer waits for a thread to wake. Such a loop keeps the channels between two
 * calls of the application: epoll reports nothing to their worker. A call that finds something
 * gives the channels back to the worker. If the loop ends without such a call, the worker, which
 * checks each millisecond, takes the channels back (worker.c).
 */
#include "engine/channel/app_poll.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/worker.h"

#define LOOP_GAP_NS (20 * 1000ll) /* most time between two calls that belong to one loop */
#define LOOP_CALLS 4		  /* calls in a row that make a loop */
#define RECV_EVERY_NS 1000	  /* least time between receives, each a system call per channel */
/* calls after which a receive is made even if RECV_EVERY_NS is not over */
#define RECV_EVERY_CALLS 64
#define SENDS_NS 20000		/* no receive for this time while bulk bytes wait to be sent */
#define RECV_PRIOS 4		/* most channels received on; the worker receives for the others */
#define RECV_BYTES (256u << 10) /* most bytes received at a time on a channel */

/* The polling loop of the application on this thread. */
static _Thread_local struct {
	int64_t called_ns, received_ns;
	uint32_t calls;
	bool keeps;	/* this thread keeps priority channels */
	bool receiving; /* a receive is under way */
} loop;

bool app_poll_receives(void)
{
	return loop.receiving;
}

/* Becomes the rx owner of a peer's priority channel, and returns the channel with a reference.
 * NULL: the peer has no such channel, it failed, is a plugin channel, or has another rx owner.
 * *out_sends: true if bulk bytes wait to be sent to the peer. Then the threads that send them
 * need the processor more than a receive. */
static struct engine_chan *prio_enter(struct engine_peer *peer, bool *out_sends)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer->link.chan[CORE_PRIO];
	if (chan)
		chan_get(chan);
	*out_sends = peer->link.core_ready && !list_empty(&peer->link.core.sendq.bulk);
	link_unlock_only(&peer->link);
	if (!chan)
		return NULL;
	if (!chan->comms && !atomic_load(&chan->failed) && chan_rx_try(chan))
		return chan;
	chan_put(chan);
	return NULL;
}

/* Stops being the rx owner. gives_back: the worker receives from now on, as epoll reports to it. */
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

/* Receives once on the peer's priority channel, which it takes from the worker unless a loop
 * keeps it already. If bulk bytes wait to be sent to the peer, gives the channel back to its
 * worker instead, and delays the next receive by SENDS_NS. */
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
	/* A transport with a doorbell reports arriving data and room to send by one event. */
	if (chan->net->ops->caps & NET_CAP_DOORBELL && atomic_exchange(&chan->tx_blocked, 0))
		chan_tx_kick(chan);
	link_run_deferred(&peer->link);
	loop.receiving = false;
	chan_put(chan);
}

/* Gives the peer's priority channel back to its worker, if an application's loop keeps it. */
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

void app_poll_missed(struct engine_session *session, struct engine_peer *peer)
{
	int64_t now_ns = clock_now_ns();
	bool goes_on = now_ns - loop.called_ns < LOOP_GAP_NS;

	loop.called_ns = now_ns;
	loop.calls = goes_on ? loop.calls + 1 : 0;
	if (loop.calls < LOOP_CALLS || session->flags & TCPX_SESSION_NO_INLINE ||
	    (now_ns - loop.received_ns < RECV_EVERY_NS && loop.calls % RECV_EVERY_CALLS))
		return;
	loop.received_ns = now_ns;
	loop.keeps = true;
	prios_each(session, peer, prio_receive, now_ns);
	loop.called_ns = clock_now_ns(); /* the receive may have taken long */
}

void app_poll_found(struct engine_session *session, struct engine_peer *peer)
{
	loop.calls = 0;
	if (!loop.keeps)
		return;
	loop.keeps = false;
	prios_each(session, peer, prio_give_back, 0);
}
