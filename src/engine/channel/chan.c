/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which thread owns a direction of a channel and what the worker's epoll watches. Trims
 * idle channels and records failures. */
#include "engine/channel/comms_gpu.h"
#include "engine/channel/chan_calls.h"
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
	/* The lock keeps owners from changing the watched events before the descriptor is in the
	 * epoll set. */
	pthread_mutex_lock(&chan->poll.lock);
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_ADD, chan->net->ops->fd(chan->net), &event))
		err = errno;
	atomic_store(&chan->poll.watched, !err);
	pthread_mutex_unlock(&chan->poll.lock);
	if (err)
		chan_fail(chan, TCPX_ERR_SYSTEM, err);
	else
		worker_again(chan); /* arms the descriptor, and receives what arrived before that */
}

/* Makes the worker's epoll watch what either direction waits for. The caller holds poll.lock. */
static void chan_poll_change(struct engine_chan *chan)
{
	uint32_t events = chan->poll.recv_events | chan->poll.send_events;
	struct epoll_event event = {.events = events, .data.ptr = chan};

	if (events == chan->poll.events || !atomic_load(&chan->poll.watched))
		return;
	chan->poll.events = events;
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_MOD, chan->net->ops->fd(chan->net), &event) &&
	    atomic_load(&chan->poll.watched)) /* unless the channel was stopped */
		chan_fail(chan, TCPX_ERR_SYSTEM, errno);
}

/* Called by the rx owner before it gives up the direction. Makes the worker's epoll report arriving
 * data. Returns 1 if data may have arrived already: epoll may not report it, so the caller must
 * make a thread receive. */
int chan_wait_recv(struct engine_chan *chan)
{
	uint32_t events;
	int ready;

	pthread_mutex_lock(&chan->poll.lock);
	ready = chan->net->ops->arm(chan->net, 1, 0, &events);
	if (!ready) {
		chan->poll.recv_events = events;
		chan_poll_change(chan);
	}
	atomic_store_explicit(&chan->app.kept, false, memory_order_relaxed);
	pthread_mutex_unlock(&chan->poll.lock);
	return ready;
}

/* Called by the rx owner, which polls the channel itself from now on. Makes epoll stop reporting
 * arriving data to the worker. */
void chan_keep_recv(struct engine_chan *chan)
{
	pthread_mutex_lock(&chan->poll.lock);
	chan->poll.recv_events = 0;
	chan_poll_change(chan);
	pthread_mutex_unlock(&chan->poll.lock);
}

/* Called by the tx owner when the transport is full. Makes the worker's epoll report when the
 * transport takes more. Returns 1 if the transport may take more already: epoll may not report
 * that, so the caller must send again. */
int chan_wait_send(struct engine_chan *chan)
{
	uint32_t events;
	int ready;

	atomic_store(&chan->tx_blocked, 1);
	pthread_mutex_lock(&chan->poll.lock);
	ready = chan->net->ops->arm(chan->net, 0, 1, &events);
	if (!ready) {
		chan->poll.send_events = events;
		chan_poll_change(chan);
	}
	pthread_mutex_unlock(&chan->poll.lock);
	if (ready)
		atomic_store(&chan->tx_blocked, 0);
	return ready;
}

/* Called after sending. If the transport is not full (tx_blocked is 0), makes epoll stop reporting
 * that the transport takes more. */
void chan_wait_send_end(struct engine_chan *chan)
{
	uint32_t events;

	pthread_mutex_lock(&chan->poll.lock);
	if (chan->poll.send_events && !atomic_load(&chan->tx_blocked)) {
		chan->poll.send_events = 0;
		chan->net->ops->arm(chan->net, 0, -1, &events);
		chan_poll_change(chan);
	}
	pthread_mutex_unlock(&chan->poll.lock);
}

/* Called when a direction that was busy at chan_stop() has closed. When the last such direction has
 * closed, lets the control thread tear the channel down. */
static void chan_leaves(struct engine_chan *chan)
{
	if (atomic_fetch_sub(&chan->stop.inside, 1) == 1)
		sys_loop_post(&engine_runtime.loop, &chan->stop.left_post);
}

/* Makes the calling thread the owner of a free direction. Returns false if the direction is busy or
 * closed. */
static bool owner_take(_Atomic int *owner)
{
	int state = OWNER_FREE;

	return atomic_compare_exchange_strong(owner, &state, OWNER_BUSY);
}

/* Ends the calling thread's ownership of a direction, and closes the direction if the channel was
 * stopped. Returns true if another thread asked for the direction during the ownership. The caller
 * must then make a thread check for work. */
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
	/* What other threads posted during the ownership is sent by the worker, not by this thread.
	 * While the transport is full, worker_kick() may do nothing, so a requested sample needs
	 * worker_look(). */
	if (atomic_load(&chan->sample.asked))
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

/* Gives the memory of the whole pages in a buffer back to the kernel, which provides new pages when
 * they are touched. */
static void pages_give_back(void *buffer, size_t bytes)
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
			pages_give_back(chan->tx.buf, ENGINE_TX_BUFFER);
			chan->net->ops->trim(chan->net);
		}
		chan_tx_leave(chan);
	}
	if (chan_rx_try(chan)) {
		if (chan->rx.state == RX_HEADER && chan->rx.used == chan->rx.have) {
			pages_give_back(chan->rx.buf, ENGINE_RX_BUFFER);
			free(chan->rx.message);
			chan->rx.message = NULL;
		}
		chan_rx_leave(chan);
		worker_again(chan); /* an event may have come while the direction was busy */
	}
}

/* Records the first failure of a channel; the control thread then stops the channel. May run on any
 * thread, so it does not touch the socket. */
void chan_fail(struct engine_chan *chan, tcpx_status status, int err)
{
	int none = 0;

	/* stored before `failed` is set: the control thread then reads the reason */
	if (chan->comms)
		comms_why(chan->comms, status);
	if (!atomic_compare_exchange_strong(&chan->failed, &none, status))
		return;
	atomic_store(&chan->failed_errno, err);
	link_wake(&chan->peer->link);
}
