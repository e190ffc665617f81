/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application that polls in a loop receives on the lanes itself, so that neither a message nor
 * its answer waits for a thread to wake. Such a loop keeps the lanes between two calls: epoll
 * reports nothing to their worker. A call that finds something gives them back. If the loop ends
 * without that, the worker, which looks each millisecond, takes them back (worker.c).
 */
#include "engine/channel/look.h"

#include "base/clock.h"
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/worker.h"

#define LOOP_GAP_NS (20 * 1000ll) /* calls that follow each other within this time are a loop ... */
#define LOOP_CALLS 4		  /* ... if they are as many */
#define LOOK_EVERY_NS 1000	  /* a look is a system call for each lane */
#define LOOK_EVERY_CALLS 64	  /* of the application, if its clock does not move */
#define SENDS_NS 20000		  /* no look for so long while bulk bytes wait to be sent */
#define LOOK_LANES 4		  /* of so many peers; their worker receives for the others */
#define LOOK_BYTES (256u << 10)	  /* received by one look */

/* The loop of this thread. */
static _Thread_local struct {
	int64_t called_ns, looked_ns;
	uint32_t calls;
	bool keeps;   /* lanes */
	bool looking; /* now */
} loop;

bool look_is_now(void)
{
	return loop.looking;
}

/* The lane of a peer as its rx owner, with a reference; NULL: there is none, or it is busy.
 * *out_sends: bulk bytes wait to be sent, and those who send them need the processor more. */
static struct engine_chan *lane_enter(struct engine_peer *peer, bool *out_sends)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer->link.chan[CORE_LANE];
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

/* gives_back: epoll reports to the worker what comes from now on. */
static void lane_leave(struct engine_chan *chan, bool gives_back)
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

static bool lane_kept(const struct engine_chan *chan)
{
	return atomic_load_explicit(&chan->look.kept, memory_order_relaxed);
}

static void lane_receive(struct engine_peer *peer, int64_t now_ns)
{
	bool sends;
	struct engine_chan *chan = lane_enter(peer, &sends);

	if (!chan)
		return;
	if (sends) {
		loop.looked_ns = now_ns + SENDS_NS;
		lane_leave(chan, lane_kept(chan));
		chan_put(chan);
		return;
	}
	atomic_store_explicit(&chan->look.looked_ns, now_ns, memory_order_relaxed);
	if (!lane_kept(chan)) {
		chan_keep_recv(chan);
		atomic_store(&chan->look.kept, true);
		worker_look_at(chan);
	}
	loop.looking = true;
	chan_rx_run(chan, LOOK_BYTES);
	lane_leave(chan, false);
	/* Such a transport says that there is room where it says that something came. */
	if (chan->net->ops->caps & NET_CAP_DOORBELL && atomic_exchange(&chan->tx_blocked, 0))
		chan_tx_kick(chan);
	link_run_deferred(&peer->link);
	loop.looking = false;
	chan_put(chan);
}

static void lane_give_back(struct engine_peer *peer, int64_t now_ns)
{
	bool sends;
	struct engine_chan *chan = lane_enter(peer, &sends);

	(void)now_ns;
	if (!chan)
		return;
	lane_leave(chan, lane_kept(chan));
	chan_put(chan);
}

/* Calls fn for the peer, or for the first ones of the session. The last error of the application's
 * thread stays as it is. */
static void lanes_each(struct engine_session *session, struct engine_peer *peer,
		       void (*fn)(struct engine_peer *peer, int64_t now_ns), int64_t now_ns)
{
	struct engine_peer *each = NULL;
	tcpx_error last = *error_last();
	uint32_t n = 0;

	if (peer)
		fn(peer, now_ns);
	while (!peer && n++ < LOOK_LANES && (each = session_next_peer(session, each)))
		fn(each, now_ns);
	if (each)
		peer_put(each);
	if (last.status || error_last()->status)
		(void)error_raise(&last);
}

void look_missed(struct engine_session *session, struct engine_peer *peer)
{
	int64_t now_ns = clock_now_ns();
	bool goes_on = now_ns - loop.called_ns < LOOP_GAP_NS;

	loop.called_ns = now_ns;
	loop.calls = goes_on ? loop.calls + 1 : 0;
	if (loop.calls < LOOP_CALLS || session->flags & TCPX_SESSION_NO_INLINE ||
	    (now_ns - loop.looked_ns < LOOK_EVERY_NS && loop.calls % LOOK_EVERY_CALLS))
		return;
	loop.looked_ns = now_ns;
	loop.keeps = true;
	lanes_each(session, peer, lane_receive, now_ns);
	loop.called_ns = clock_now_ns(); /* the look may have taken long */
}

void look_found(struct engine_session *session, struct engine_peer *peer)
{
	loop.calls = 0;
	if (!loop.keeps)
		return;
	loop.keeps = false;
	lanes_each(session, peer, lane_give_back, 0);
}
