/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Channels are taken down by the control thread, which waits for nobody: whoever is in a call may
 * stay there until a page of the caller's memory comes, and closes the direction when he leaves.
 */
#include <errno.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/link/hold.h"

/* No round of the worker that begins now is told of the channel. Taking a descriptor out asks the
 * kernel for nothing, so it fails only for one that is not in: adding it had failed. */
static void poll_end(struct engine_chan *chan)
{
	int fd = chan->net->ops->fd(chan->net);

	atomic_store(&chan->poll.watched, false);
	if (epoll_ctl(chan->worker->epfd, EPOLL_CTL_DEL, fd, NULL) && errno != ENOENT)
		LOG_ERROR("channel %u: descriptor %d stays watched: errno %d", chan->index, fd,
			  errno);
}

/* True: nobody is inside. */
static bool owner_close(_Atomic int *owner)
{
	int state = OWNER_FREE;

	while (!atomic_compare_exchange_weak(owner, &state,
					     state == OWNER_FREE ? OWNER_CLOSED : OWNER_LAST))
		;
	return state == OWNER_FREE;
}

/* Nobody is inside, and nobody gets in. */
static void take_down(struct engine_chan *chan)
{
	struct engine_worker *worker = chan->worker;

	chan->net->ops->shutdown(chan->net);
	pthread_mutex_lock(&worker->lock);
	list_remove(&chan->kick.node);
	chan->kick.closed = true;
	atomic_store(&chan->kick.queued, 1); /* and no new kick enters */
	pthread_mutex_unlock(&worker->lock);
	chan_sample_drop(chan);
	chan_tx_drop(chan);
	chan_rx_drop(chan);
	hold_lost(chan);
	chan_get(chan);
	worker_bury(chan);
}

static void left_run(struct sys_post *post)
{
	struct engine_chan *chan = LIST_ENTRY(post, struct engine_chan, stop.left_post);
	struct engine_peer *peer = chan->peer;

	take_down(chan);
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
	poll_end(chan);
	chan->stop.left = left;
	chan->stop.left_post.fn = left_run;
	atomic_store(&chan->stop.inside, 2);
	tx = !owner_close(&chan->tx_owner);
	rx = !owner_close(&chan->rx_owner);
	closed = (uint32_t)!tx + !rx;
	if (closed && atomic_fetch_sub(&chan->stop.inside, closed) == closed) {
		take_down(chan);
		return true;
	}
	chan_get(chan);
	link_lock(&peer->link);
	core_chan_stays(&peer->link.core, chan->index, tx, rx);
	link_unlock(&peer->link);
	/* A waiting thread sleeps on the lane: the worker wakes it, if it is not inside itself. */
	atomic_store(&chan->stop.shutdown, 1);
	worker_look(chan);
	return false;
}
