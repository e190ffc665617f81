/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaders: a waiting thread, the leader, polls priority channels itself, in place of their worker,
 * so that a short exchange costs one wake-up instead of two. Any other event that ends the wait is
 * signalled through the leader's eventfd.
 */
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/channel/lead.h"
#include "sys/fd.h"

/* most priority channels that one leader polls */
#define LEAD_PRIOS 8

/* A thread that waits and polls priority channels itself. */
struct engine_lead {
	int fd;
	_Atomic int rung;
	struct engine_lead *next;
};

/* the leader object of this thread; NULL if this thread is no leader */
static _Thread_local struct engine_lead *mine_now;

/* Returns an unused leader object of the session, or a new one. Returns NULL if memory or
 * descriptors are short. */
static struct engine_lead *lead_take(struct engine_session *session)
{
	struct engine_lead *lead;

	pthread_mutex_lock(&session->queue.lock);
	lead = session->queue.leads;
	if (lead)
		session->queue.leads = lead->next;
	pthread_mutex_unlock(&session->queue.lock);
	if (lead)
		return lead;
	lead = calloc(1, sizeof(*lead));
	if (!lead)
		return NULL;
	lead->fd = SYS_FD_OPEN(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (lead->fd >= 0)
		return lead;
	free(lead);
	return NULL;
}

static void lead_silence(struct engine_lead *lead)
{
	uint64_t count;

	(void)!read(lead->fd, &count, sizeof(count));
}

/* Puts the leader back into the session's list of unused ones. The caller has made sure that no
 * other thread signals the leader any more. */
static void lead_give(struct engine_session *session, struct engine_lead *lead)
{
	if (atomic_exchange(&lead->rung, 0))
		lead_silence(lead);
	pthread_mutex_lock(&session->queue.lock);
	lead->next = session->queue.leads;
	session->queue.leads = lead;
	pthread_mutex_unlock(&session->queue.lock);
}

void lead_wake(struct engine_lead *lead)
{
	uint64_t one = 1;

	if (lead == mine_now)
		return; /* this thread checks done() before it sleeps */
	atomic_store(&lead->rung, 1);
	(void)!write(lead->fd, &one, sizeof(one));
}

void leads_free(struct engine_session *session)
{
	while (session->queue.leads) {
		struct engine_lead *lead = session->queue.leads;

		session->queue.leads = lead->next;
		sys_fd_close(lead->fd);
		free(lead);
	}
}

/* Makes the calling thread the rx owner of a peer's priority channel. Returns false if the peer has
 * no such channel, or if the channel is stopped or has another rx owner. The caller must call
 * prio_give() at the end. */
static bool prio_take(struct engine_peer *peer, struct engine_chan **out_chan)
{
	struct engine_chan *chan;

	link_lock(&peer->link);
	chan = peer_chan_get(peer, CORE_PRIO);
	link_unlock_only(&peer->link);
	if (!chan)
		return false;
	if (!chan_rx_try(chan)) {
		chan_put(chan);
		return false;
	}
	chan_keep_recv(chan);
	*out_chan = chan;
	return true;
}

static void prio_give(struct engine_chan *chan)
{
	bool again = false;

	if (!atomic_load(&chan->failed)) {
		chan_rx_mark(chan);
		again = chan_wait_recv(chan);
	}
	chan_rx_leave(chan);
	if (again)
		worker_again(chan);
	chan_put(chan);
}

/* Makes the calling thread the rx owner of the priority channel of `peer`. If `peer` is NULL, takes
 * the priority channels of up to LEAD_PRIOS peers of the session. Returns how many channels it
 * took. */
static uint32_t prios_take(struct engine_session *session, struct engine_peer *peer,
			   struct engine_chan **prios)
{
	struct engine_peer *each = NULL;
	uint32_t n = 0;

	if (peer)
		return prio_take(peer, &prios[0]);
	while (n < LEAD_PRIOS && (each = session_next_peer(session, each)))
		n += prio_take(each, &prios[n]);
	if (each)
		peer_put(each);
	return n;
}

/* Receives on each of the priority channels, and runs the work that the arrived frames caused. */
static void prios_poll(struct engine_chan **prios, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		struct engine_chan *chan = prios[i];

		(void)chan_rx_run(chan, 256u << 10);
		if (chan->net->ops->caps & NET_CAP_DOORBELL) {
			atomic_store(&chan->tx_blocked, 0);
			chan_tx_kick(chan);
		}
		link_run_deferred(&chan->peer->link);
	}
}

/* Sleeps until one of the channels has an event, the leader is signalled, or the deadline
 * passes. */
static void lead_sleep(struct engine_lead *lead, struct engine_chan **prios, uint32_t n,
		       int64_t deadline_ns)
{
	struct pollfd fds[LEAD_PRIOS + 1];
	struct timespec ts, *timeout = NULL;
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct net_chan *net = prios[i]->net;
		uint32_t events;

		chan_rx_mark(prios[i]); /* replaces the mark of an earlier sleep */
		if (net->ops->arm(net, 1, 0, &events))
			return;
		fds[i] = (struct pollfd){.fd = net->ops->fd(net), .events = POLLIN};
	}
	fds[n] = (struct pollfd){.fd = lead->fd, .events = POLLIN};
	if (deadline_ns >= 0) {
		int64_t left = deadline_ns - clock_now_ns();

		left = left < 0 ? 0 : left;
		ts = (struct timespec){.tv_sec = left / CLOCK_S_NS, .tv_nsec = left % CLOCK_S_NS};
		timeout = &ts;
	}
	/* `rung` is not cleared here, because another thread may have set it and not yet written to
	 * the eventfd. lead_give() clears it. */
	if (ppoll(fds, n + 1, timeout, NULL) > 0 && fds[n].revents)
		lead_silence(lead);
}

/* Repeats three steps: checks done(); sleeps until an event, unless the session polls
 * (TCPX_SESSION_BUSY_POLL); receives on up to LEAD_PRIOS channels. At the end gives the channels
 * back to their worker. */
bool lead_wait(struct engine_session *session, struct engine_peer *peer, struct engine_lead **where,
	       pthread_mutex_t *where_lock, bool (*done)(void *arg), void *arg, int64_t deadline_ns)
{
	bool busy = session->flags & TCPX_SESSION_BUSY_POLL;
	struct engine_chan *prios[LEAD_PRIOS];
	struct engine_lead *lead;
	uint32_t n, i, spins = 0;
	bool mine = false, lost = false;

	n = prios_take(session, peer, prios);
	if (!n)
		return false;
	lead = lead_take(session);
	if (lead) {
		pthread_mutex_lock(where_lock);
		mine = !*where;
		if (mine)
			*where = mine_now = lead;
		pthread_mutex_unlock(where_lock);
	}
	while (mine && !lost) {
		if (done(arg))
			break;
		for (i = 0; i < n; i++)
			lost |= atomic_load(&prios[i]->failed) != 0;
		if (deadline_ns >= 0 && (!busy || ++spins % 16 == 0) &&
		    clock_now_ns() >= deadline_ns)
			break;
		if (!busy)
			lead_sleep(lead, prios, n,
				   deadline_ns); /* returns at once if a channel has data */
		prios_poll(prios, n);
	}
	if (mine) {
		mine_now = NULL;
		pthread_mutex_lock(where_lock);
		*where = NULL;
		pthread_mutex_unlock(where_lock);
	}
	for (i = 0; i < n; i++)
		prio_give(prios[i]);
	if (lead)
		lead_give(session, lead);
	return mine && !lost;
}
