/* SPDX-License-Identifier: Apache-2.0 */
/* A channel: who runs it, when it is polled, how it starts and stops. */
#include "engine/comms_gpu.h"
#include "engine/engine.h"
#include "engine/hold.h"
#include "engine/link/hooks.h"
#include "topo/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define TX_BUDGET (1u << 20)   /* of one channel before the worker's next one */
#define RX_BUDGET (512u << 10) /* of one channel before the worker's next one */

static void chan_free(struct engine_chan *chan)
{
	if (!chan)
		return;
	if (chan->net)
		chan->net->ops->close(chan->net);
	if (chan->peer)
		peer_put(chan->peer);
	free(chan->tx.buf);
	free(chan->rx.buf);
	free(chan->rx.message);
	free(chan->tx.iov);
	free(chan->rx.iov);
	free(chan->rx.held);
	free(chan);
}

void chan_get(struct engine_chan *chan)
{
	atomic_fetch_add(&chan->refs, 1);
}

void chan_put(struct engine_chan *chan)
{
	if (atomic_fetch_sub(&chan->refs, 1) == 1)
		chan_free(chan);
}

/* Lanes have the last one to themselves, so that a small frame does not wait for big ones. A bulk
 * channel goes where the fewest are, whatever their peers and sessions: those of a GPU beside
 * another do not meet on the same threads while others sleep. Where workers are placed,
 * it is one of its NIC's node. */
static struct engine_worker *worker_for(const struct engine_peer *peer, uint32_t index, int node)
{
	struct engine_runtime *runtime = &engine_runtime;
	uint32_t n = runtime->nworkers;
	struct engine_worker *best = NULL;

	if (index == CORE_LANE)
		return &runtime->workers[n];
	for (uint32_t i = 0; i < n; i++) {
		struct engine_worker *it =
			&runtime->workers[(peer->link.slot.index + index + i) % n];

		if (node != TOPO_NUMA_UNKNOWN && it->node != node)
			continue;
		if (!best || atomic_load(&it->channels) < atomic_load(&best->channels))
			best = it;
	}
	return best ? best : worker_for(peer, index, TOPO_NUMA_UNKNOWN);
}

tcpx_status chan_create(struct engine_peer *peer, uint32_t index, uint32_t epoch,
			struct net_chan *net, int node, struct engine_chan **out_chan)
{
	struct engine_chan *chan = calloc(1, sizeof(*chan));
	tcpx_status status;

	if (chan) {
		hold_chan_init(chan);
		chan->tx.buf = malloc(ENGINE_TX_BUFFER);
		chan->rx.buf = malloc(ENGINE_RX_BUFFER);
		chan->tx.iov = calloc(CORE_PIECES_MAX + 2, sizeof(struct iovec));
		chan->rx.iov = calloc(CORE_PIECES_MAX + 2, sizeof(struct iovec));
	}
	if (!chan || !chan->tx.buf || !chan->rx.buf || !chan->tx.iov || !chan->rx.iov) {
		chan_free(chan);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "channel %u", index);
	}
	chan->net = net;
	status = peer->link.session->filters
			 ? net_wrapper->wrap(peer->link.session->filters, net, &chan->net)
			 : TCPX_OK;
	if (status != TCPX_OK) {
		chan->net = NULL; /* still the caller's */
		chan_free(chan);
		return status;
	}
	atomic_store(&chan->refs, 1);
	chan->peer = peer; /* whoever is still inside a channel needs its peer */
	peer_get(peer);
	chan->index = index;
	chan->epoch = epoch;
	list_init(&chan->kick_node);
	list_init(&chan->leased);
	pthread_mutex_init(&chan->poll_lock, NULL);
	pthread_mutex_init(&chan->sample_lock, NULL);
	chan->worker = worker_for(peer, index, node);
	*out_chan = chan;
	return TCPX_OK;
}

void chan_start(struct engine_chan *chan)
{
	struct epoll_event event = {.data.ptr = chan};
	int err = 0;

	atomic_fetch_add(&chan->worker->channels, 1);
	pthread_mutex_lock(&chan->poll_lock); /* nobody is inside yet */
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_ADD, chan->net->ops->fd(chan->net), &event))
		err = errno;
	atomic_store(&chan->polled, !err);
	pthread_mutex_unlock(&chan->poll_lock);
	if (err)
		chan_fail(chan, TCPX_ERR_SYSTEM, err);
	else
		worker_again(chan); /* arms, and takes what came before */
}

/* poll_lock held. */
static void poll_change(struct engine_chan *chan)
{
	uint32_t events = chan->recv_events | chan->send_events;
	struct epoll_event event = {.events = events, .data.ptr = chan};

	if (events == chan->poll_events || !atomic_load(&chan->polled))
		return;
	chan->poll_events = events;
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_MOD, chan->net->ops->fd(chan->net), &event) &&
	    atomic_load(&chan->polled)) /* not stopped meanwhile: nobody would be told any more */
		chan_fail(chan, TCPX_ERR_SYSTEM, errno);
}

/* rx owner: from now on the worker is told of what arrives. 1: something did already, receive. */
int chan_wait_recv(struct engine_chan *chan)
{
	uint32_t events;
	int ready;

	pthread_mutex_lock(&chan->poll_lock);
	ready = chan->net->ops->arm(chan->net, 1, 0, &events);
	if (!ready) {
		chan->recv_events = events;
		poll_change(chan);
	}
	pthread_mutex_unlock(&chan->poll_lock);
	return ready;
}

/* rx owner: the worker is not to be told; this thread looks itself. */
void chan_keep_recv(struct engine_chan *chan)
{
	pthread_mutex_lock(&chan->poll_lock);
	chan->recv_events = 0;
	poll_change(chan);
	pthread_mutex_unlock(&chan->poll_lock);
}

/* tx owner: the worker is told when there is room. 1: there is already, send. */
int chan_wait_send(struct engine_chan *chan)
{
	uint32_t events;
	int ready;

	atomic_store(&chan->tx_blocked, 1);
	pthread_mutex_lock(&chan->poll_lock);
	ready = chan->net->ops->arm(chan->net, 0, 1, &events);
	if (!ready) {
		chan->send_events = events;
		poll_change(chan);
	}
	pthread_mutex_unlock(&chan->poll_lock);
	if (ready)
		atomic_store(&chan->tx_blocked, 0);
	return ready;
}

/* The sender has all it wanted: no more events for room. */
static void poll_sent(struct engine_chan *chan)
{
	uint32_t events;

	pthread_mutex_lock(&chan->poll_lock);
	if (chan->send_events && !atomic_load(&chan->tx_blocked)) {
		chan->send_events = 0;
		chan->net->ops->arm(chan->net, 0, -1, &events);
		poll_change(chan);
	}
	pthread_mutex_unlock(&chan->poll_lock);
}

static bool owner_take(_Atomic int *owner)
{
	int state = OWNER_FREE;

	return atomic_compare_exchange_strong(owner, &state, OWNER_BUSY);
}

/* True: somebody came by meanwhile. */
static bool owner_leave(struct engine_chan *chan, _Atomic int *owner)
{
	int state = OWNER_BUSY;

	while (state != OWNER_LAST)
		if (atomic_compare_exchange_weak(owner, &state, OWNER_FREE))
			return state == OWNER_AGAIN;
	atomic_store(owner, OWNER_CLOSED);
	chan_leaves(chan);
	return false;
}

bool chan_tx_try(struct engine_chan *chan)
{
	int state = OWNER_FREE;

	while (!atomic_compare_exchange_weak(&chan->tx_owner, &state, OWNER_BUSY)) {
		if (state == OWNER_BUSY &&
		    atomic_compare_exchange_weak(&chan->tx_owner, &state, OWNER_AGAIN))
			return false;
		if (state != OWNER_FREE && state != OWNER_BUSY)
			return false;
		state = OWNER_FREE;
	}
	return true;
}

void chan_tx_leave(struct engine_chan *chan)
{
	if (!owner_leave(chan, &chan->tx_owner))
		return;
	/* What others post meanwhile is not this caller's to send. */
	if (atomic_load(&chan->sample_asked))
		worker_look(chan);
	else
		worker_kick(chan);
}

/* Runs the sender here, or makes whoever runs it look again. */
void chan_tx_kick(struct engine_chan *chan)
{
	bool mine = worker_is_current(chan->worker);
	int state;

	if (chan->comms && !mine) {
		worker_kick(chan); /* one thread drives a comm */
		return;
	}
	if (atomic_load(&chan->tx_blocked)) {
		if (!atomic_load(&chan->tx.lent))
			return;
		/* It waits for the peer to give lent memory back; somebody wants it now. */
		atomic_store(&chan->tx_blocked, 0);
	}
	if (!chan_tx_try(chan))
		return;
	do {
		/* Of a bulk channel somebody else sends what he has just posted. */
		chan_tx_run(chan, mine || chan->index != CORE_LANE ? TX_BUDGET : ENGINE_TX_BUFFER);
		state = OWNER_AGAIN;
	} while (mine && atomic_load(&chan->tx_owner) == OWNER_AGAIN &&
		 atomic_compare_exchange_strong(&chan->tx_owner, &state, OWNER_BUSY));
	chan_tx_leave(chan);
}

bool chan_rx_try(struct engine_chan *chan)
{
	return owner_take(&chan->rx_owner);
}

void chan_rx_leave(struct engine_chan *chan)
{
	(void)owner_leave(chan, &chan->rx_owner);
}

/* The worker's epoll reported the channel, or somebody says that there is something. */
void chan_event(struct engine_chan *chan, uint32_t events)
{
	bool doorbell = chan->net->ops->caps & NET_CAP_DOORBELL;
	bool again = false;

	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) && chan_rx_try(chan)) {
		chan_rx_run(chan, RX_BUDGET);
		if (chan->comms && chan->comms->gpu)
			again = comms_unpack_run(chan->comms, chan);
		if (!atomic_load(&chan->failed)) {
			chan_rx_mark(chan);
			again |= chan_wait_recv(chan);
		}
		chan_rx_leave(chan);
		link_run_deferred(&chan->peer->link);
	}
	if ((events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) || doorbell) {
		atomic_store(&chan->tx_blocked, 0);
		chan_tx_kick(chan);
		poll_sent(chan);
		link_run_deferred(&chan->peer->link);
	}
	if (again && chan->comms)
		worker_poll(chan);
	else if (again)
		worker_again(chan);
}

/* Whole pages of a buffer go back to the system; they come again when they are touched. */
static void give_pages(void *buffer, size_t bytes)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = ((uintptr_t)buffer + page - 1) & ~(page - 1);
	uintptr_t to = ((uintptr_t)buffer + bytes) & ~(page - 1);

	if (from < to)
		madvise((void *)from, to - from, MADV_DONTNEED);
}

void chan_trim(struct engine_chan *chan, int64_t now_ns)
{
	int64_t heard = atomic_load_explicit(&chan->heard_ns, memory_order_relaxed);

	if (heard == chan->trimmed_ns || now_ns - heard < CLOCK_S_NS)
		return;
	chan->trimmed_ns = heard;
	if (owner_take(&chan->tx_owner)) {
		if (chan->tx.start == chan->tx.end && !chan->tx.big) {
			give_pages(chan->tx.buf, ENGINE_TX_BUFFER);
			local_idle(chan->net);
		}
		chan_tx_leave(chan);
	}
	if (chan_rx_try(chan)) {
		if (chan->rx.state == RX_HEADER && chan->rx.used == chan->rx.have) {
			give_pages(chan->rx.buf, ENGINE_RX_BUFFER);
			free(chan->rx.message);
			chan->rx.message = NULL;
		}
		chan_rx_leave(chan);
		worker_again(chan); /* an event may have met a busy channel */
	}
}

/* First failure of a channel: the control thread takes it down. Any thread, so the socket is left
 * alone. */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err)
{
	int none = 0;

	if (chan->comms) /* before the control thread sees the failure, and asks */
		comms_why(chan->comms, status);
	if (!atomic_compare_exchange_strong(&chan->failed, &none, status))
		return;
	atomic_store(&chan->failed_errno, err);
	peer_wake_control(chan->peer);
}
