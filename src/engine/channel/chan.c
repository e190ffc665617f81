/* SPDX-License-Identifier: Apache-2.0 */
/* A channel: who runs it, when it is polled, how it starts and stops. */
#include "engine/channel/comms_gpu.h"
#include "engine/engine.h"
#include "engine/link/hold.h"
#include "topo/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

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
void chan_sent_all(struct engine_chan *chan)
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

static void chan_leaves(struct engine_chan *chan)
{
	if (atomic_fetch_sub(&chan->inside, 1) == 1)
		sys_loop_post(&engine_runtime.loop, &chan->left_post);
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

bool chan_rx_try(struct engine_chan *chan)
{
	return owner_take(&chan->rx_owner);
}

void chan_rx_leave(struct engine_chan *chan)
{
	(void)owner_leave(chan, &chan->rx_owner);
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
			chan->net->ops->trim(chan->net);
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
	link_wake(&chan->peer->link);
}
