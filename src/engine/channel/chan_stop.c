/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops channels, on the control thread. That thread never waits for the owner of a direction,
 * because the owner's call may last until a page of the application's memory is present. Instead,
 * the owner closes its direction when the call has returned.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/hold.h"

/* Removes the channel's descriptor from the worker's epoll set: a round of the worker that begins
 * after this gets no event of the channel. The removal allocates no memory, so it fails only if the
 * descriptor was never added. */
static void chan_poll_end(struct engine_chan *chan)
{
	int fd = chan->net->ops->fd(chan->net);

	atomic_store(&chan->poll.watched, false);
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_DEL, fd, NULL) && errno != ENOENT)
		LOG_ERROR("channel %u: epoll does not remove descriptor %d (errno %d)", chan->index,
			  fd, errno);
}

/* Closes a direction that has no owner. Otherwise makes the owner close the direction when it
 * leaves. Returns whether the direction had no owner and is closed. */
static bool direction_close(_Atomic int *owner)
{
	int state = OWNER_FREE;

	while (!atomic_compare_exchange_weak(owner, &state,
					     state == OWNER_FREE ? OWNER_CLOSED : OWNER_LAST))
		;
	return state == OWNER_FREE;
}

/* Tears down a channel whose directions are both closed, so that no thread can own one. */
static void chan_take_down(struct engine_chan *chan)
{
	struct engine_worker *worker = chan->worker;

	chan->net->ops->shutdown(chan->net);
	pthread_mutex_lock(&worker->lock);
	list_remove(&chan->kick.node);
	list_remove(&chan->app.node);
	chan->kick.closed = true;
	atomic_store(&chan->kick.queued, 1); /* keeps new kicks out of the worker's list */
	pthread_mutex_unlock(&worker->lock);
	chan_sample_drop(chan);
	chan_tx_drop(chan);
	chan_rx_drop(chan);
	hold_lost(chan);
	chan_get(chan);
	worker_bury(chan);
}

/* Runs on the control thread when the last owner of a stopped channel has left: tears the channel
 * down and calls stop.left(). */
static void chan_left_run(struct sys_post *post)
{
	struct engine_chan *chan = LIST_ENTRY(post, struct engine_chan, stop.left_post);
	struct engine_peer *peer = chan->peer;

	chan_take_down(chan);
	link_lock(&peer->link);
	core_chan_left(&peer->link.core, chan->index);
	link_unlock(&peer->link);
	chan->stop.left(chan);
	chan_put(chan);
}

bool chan_stop(struct engine_chan *chan, void (*left)(struct engine_chan *chan))
{
	struct engine_peer *peer = chan->peer;
	uint32_t closed;
	bool tx, rx;

	atomic_fetch_sub(&chan->worker->channels, 1);
	chan_poll_end(chan);
	chan->stop.left = left;
	chan->stop.left_post.fn = chan_left_run;
	atomic_store(&chan->stop.inside, 2);
	tx = !direction_close(&chan->tx_owner);
	rx = !direction_close(&chan->rx_owner);
	closed = (uint32_t)!tx + !rx;
	if (closed && atomic_fetch_sub(&chan->stop.inside, closed) == closed) {
		chan_take_down(chan);
		return true;
	}
	chan_get(chan);
	link_lock(&peer->link);
	core_chan_stays(&peer->link.core, chan->index, tx, rx);
	link_unlock(&peer->link);
	/* The worker shuts the channel down. This wakes a thread that sleeps on the priority
	 * channel (lead.c). */
	atomic_store(&chan->stop.shutdown, 1);
	worker_look(chan);
	return false;
}
