/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lets the thread of an application that polls in a loop receive on the priority channels, so that
 * a small transfer and the peer's answer do not wait until a worker wakes up.
 *
 * Between two polls of such a loop the application keeps the channels: epoll does not report their
 * data to the worker. A poll that finds something gives the channels back to the worker, because
 * the application may do other work now. There is one exception, where cores are few: a worker that
 * wakes up takes a core from an application that polls, so an application that polled again soon
 * after its last find keeps the channels. A wait gives them back before it sleeps. If the loop ends
 * in another way, the worker takes the channels back some milliseconds later (worker.c).
 */
#include "engine/channel/app_poll.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/worker.h"

#define LOOP_GAP_NS (20 * 1000ll) /* longest time between two polls of the same loop */
/* longest time between a find and the next poll of an application that goes on polling: after that
 * the worker takes the channels back anyway */
#define RESUME_NS CLOCK_MS_NS
/* an application that keeps channels at a find keeps those that it has polled within this time */
#define POLLED_NS (CLOCK_MS_NS / 5)
#define LOOP_CALLS 4 /* polls without result, after the first one, that make a loop */
/* Shortest time between two receives, which cost system calls. The first receive after a find comes
 * no sooner either, because the application may only be asking whether there is more. */
#define RECV_EVERY_NS 1000
/* a receive is made every so many polls without result, even if RECV_EVERY_NS is not over */
#define RECV_EVERY_CALLS 64
#define SENDS_NS 20000 /* added to RECV_EVERY_NS while bulk bytes wait to be sent */
#define RECV_PRIOS 4   /* most channels that the loop receives on; the worker serves the others */
#define RECV_BYTES (256u << 10) /* about the most bytes received at a time on a channel */

/* The polling loop of the application on this thread. */
static _Thread_local struct {
	int64_t called_ns;
	int64_t received_ns; /* time of the last receive or find */
	uint32_t calls;
	int64_t found_ns; /* when a poll found something; 0 if one that did not followed */
	bool resumes;	  /* a poll came within RESUME_NS after the last find before that */
	bool keeps;	  /* the loop has received, and may keep channels */
	bool receiving;	  /* a receive is under way */
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
 * next receive (SENDS_NS). Returns whether bytes have arrived. */
static bool prio_receive(struct engine_peer *peer, int64_t now_ns)
{
	bool sends, arrived;
	struct engine_chan *chan = prio_enter(peer, &sends);

	if (!chan)
		return false;
	if (sends) {
		loop.received_ns = now_ns + SENDS_NS;
		prio_leave(chan, prio_kept(chan));
		chan_put(chan);
		return false;
	}
	atomic_store_explicit(&chan->app.polled_ns, now_ns, memory_order_relaxed);
	if (!prio_kept(chan)) {
		chan_keep_recv(chan);
		atomic_store(&chan->app.kept, true);
		worker_lend(chan);
	}
	loop.receiving = true;
	arrived = chan_rx_run(chan, RECV_BYTES);
	prio_leave(chan, false);
	/* With NET_CAP_DOORBELL, one event announces both arriving data and room to send, so
	 * sending is tried as well. */
	if (chan->net->ops->caps & NET_CAP_DOORBELL && atomic_exchange(&chan->tx_blocked, 0))
		chan_tx_kick(chan);
	link_run_deferred(&peer->link);
	loop.receiving = false;
	chan_put(chan);
	return arrived;
}

/* Gives the peer's priority channel back to its worker if an application keeps it and has not
 * polled it since `since_ns`. Returns false. */
static bool prio_give_back(struct engine_peer *peer, int64_t since_ns)
{
	bool sends;
	struct engine_chan *chan = prio_enter(peer, &sends);

	if (!chan)
		return false;
	prio_leave(chan, prio_kept(chan) && atomic_load(&chan->app.polled_ns) < since_ns);
	chan_put(chan);
	return false;
}

/* Calls fn for the peer, or for the first RECV_PRIOS peers of the session if peer is NULL. Restores
 * this thread's last error afterwards, because the application may still read it. Returns whether a
 * call of fn returned true. */
static bool prios_each(struct engine_session *session, struct engine_peer *peer,
		       bool (*fn)(struct engine_peer *peer, int64_t ns), int64_t ns)
{
	struct engine_peer *each = NULL;
	tcpx_error last = *error_last();
	bool any = false;
	uint32_t n = 0;

	if (peer)
		any = fn(peer, ns);
	while (!peer && n++ < RECV_PRIOS && (each = session_next_peer(session, each)))
		any |= fn(each, ns);
	if (each)
		peer_put(each);
	if (last.status || error_last()->status)
		(void)error_raise(&last);
	return any;
}

/* Returns whether the poll at `now_ns` belongs to the same loop as the last one. */
static bool loop_goes_on(int64_t now_ns)
{
	bool goes_on = now_ns - loop.called_ns < LOOP_GAP_NS;

	if (loop.found_ns) {
		loop.resumes = now_ns - loop.found_ns < RESUME_NS;
		goes_on |= loop.keeps && loop.resumes;
		loop.found_ns = 0;
	}
	return goes_on;
}

bool app_poll_missed(struct engine_session *session, struct engine_peer *peer, bool receives)
{
	int64_t now_ns = clock_now_ns();

	worker_app_polled(now_ns);
	loop.calls = loop_goes_on(now_ns) ? loop.calls + 1 : 0;
	loop.called_ns = now_ns;
	if (!receives || loop.calls < LOOP_CALLS || session->flags & TCPX_SESSION_NO_INLINE ||
	    (now_ns - loop.received_ns < RECV_EVERY_NS && loop.calls % RECV_EVERY_CALLS))
		return false;
	loop.received_ns = now_ns;
	loop.keeps = true;
	if (!prios_each(session, peer, prio_receive, now_ns))
		return false;
	loop.called_ns = clock_now_ns(); /* a long receive does not end the loop */
	return true;
}

void app_poll_ends(struct engine_session *session)
{
	loop.calls = 0;
	if (!loop.keeps)
		return;
	loop.keeps = false;
	(void)prios_each(session, NULL, prio_give_back, INT64_MAX);
}

void app_poll_found(struct engine_session *session)
{
	loop.found_ns = clock_now_ns();
	if (loop.received_ns < loop.found_ns)
		loop.received_ns = loop.found_ns;
	if (!loop.resumes || worker_cores_suffice())
		app_poll_ends(session);
	else if (loop.keeps)
		(void)prios_each(session, NULL, prio_give_back, loop.found_ns - POLLED_NS);
}
