/* SPDX-License-Identifier: Apache-2.0 */
/* Creates and frees a channel, and runs it on its worker. */
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "engine/channel/chan_traced.h"
#include "engine/channel/comms_gpu.h"
#include "engine/channel/app_poll.h"
#include "engine/channel/chan_calls.h"
#include "engine/link/hold.h"
#include "engine/link/rouse.h"
#include "net/net_wrapper.h"
#include "topo/graph.h"

/* A channel's turn to send ends after about so many bytes: those of a solo WRITE, and of the small
 * frames that follow it. */
#define TX_BUDGET ((1u << 20) + ENGINE_TX_BUFFER)
#define RX_BUDGET (512u << 10) /* a channel's turn to receive ends after about so many bytes */

/* Sends about `bytes` bytes of what the channel has to send. See chan_tx_kick. */
static void chan_tx_some(struct engine_chan *chan, uint64_t bytes)
{
	bool mine = worker_is_current(chan->worker);
	int state;

	if (chan->comms && !mine) {
		worker_kick(chan); /* only the worker calls a comm */
		return;
	}
	if (atomic_load(&chan->tx_blocked)) {
		if (!atomic_load(&chan->tx.lent))
			return;
		/* The sender waits until the peer has read lent memory. The kick may ask the sender
		 * to take the memory back. */
		atomic_store(&chan->tx_blocked, 0);
	}
	if (!chan_tx_try(chan))
		return;
	do {
		chan_tx_run(chan, bytes);
		state = OWNER_AGAIN;
	} while (mine && atomic_load(&chan->tx_owner) == OWNER_AGAIN &&
		 atomic_compare_exchange_strong(&chan->tx_owner, &state, OWNER_BUSY));
	chan_tx_leave(chan);
}

/* Sends what the channel has to send, on this thread. If another thread is the tx owner, makes that
 * thread or the worker check for work again. For a plugin channel, a thread other than the worker
 * only kicks the worker. Does nothing while the transport is full, unless memory is lent to the
 * peer. */
void chan_tx_kick(struct engine_chan *chan)
{
	/* On the priority channel, a thread sends only about one buffer, unless it is the worker or
	 * receives for its application (app_poll.c). */
	bool all =
		worker_is_current(chan->worker) || chan->index != CORE_PRIO || app_poll_receives();

	chan_tx_some(chan, all ? TX_BUDGET : ENGINE_TX_BUFFER);
}

void chan_tx_kick_solo(struct engine_chan *chan)
{
	chan_tx_some(chan, TX_BUDGET);
}

/* Called by the channel's worker: receives and sends, according to the events that epoll reported
 * or another thread asked for. */
static void chan_event(struct engine_chan *chan, uint32_t events)
{
	bool doorbell = chan->net->ops->caps & NET_CAP_DOORBELL;
	bool again = false;

	if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP)) && chan_rx_try(chan)) {
		(void)chan_rx_run(chan, RX_BUDGET);
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
		chan_wait_send_end(chan);
		link_run_deferred(&chan->peer->link);
	}
	if (again && chan->comms)
		worker_poll(chan);
	else if (again)
		worker_again(chan);
}

/* Does what the worker was asked for: to shut the channel down, take a sample, receive, or send. */
static void chan_kicked(struct engine_chan *chan)
{
	if (atomic_load(&chan->stop.shutdown)) {
		chan->net->ops->shutdown(chan->net);
		return;
	}
	chan_sample_take(chan);
	rouse_receivers(chan->peer);
	if (atomic_exchange(&chan->kick.again, 0))
		chan_event(chan, EPOLLIN);
	link_run_deferred(&chan->peer->link); /* what link_run_posted() left to the worker */
	chan_tx_kick(chan);
	link_run_deferred(&chan->peer->link);
}

static void chan_release(struct engine_chan *chan)
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

static const struct chan_calls chan_calls = {
	.event = chan_event,
	.kicked = chan_kicked,
	.buried = chan_put,
	.free = chan_release,
};

/* Chooses the channel's worker. Priority channels have the last worker to themselves, so that a
 * small frame does not wait for large ones. A bulk channel goes to the worker with the fewest
 * channels, counted over all peers and sessions; otherwise the channels of two GPUs might share
 * some workers while other workers sleep. If `node`, the NUMA node of the channel's NIC, is known,
 * only workers pinned to that node are considered, or all workers if none is pinned to it. */
static struct engine_worker *worker_for(const struct engine_peer *peer, uint32_t index, int node)
{
	struct engine_runtime *runtime = &engine_runtime;
	uint32_t n = runtime->nworkers;
	struct engine_worker *best = NULL;

	if (index == CORE_PRIO)
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

/* Makes a channel over the connected `net`, with one reference, and chooses its worker;
 * chan_start() begins to serve it. On an error `net` still belongs to the caller. */
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
		chan_release(chan);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "channel %u", index);
	}
	chan->net = net;
	status = peer->link.session->filters
			 ? net_wrapper->wrap(peer->link.session->filters, net, &chan->net)
			 : TCPX_OK;
	if (status != TCPX_OK) {
		chan->net = NULL; /* net still belongs to the caller */
		chan_release(chan);
		return status;
	}
	chan->net = chan_traced(chan->net);
	chan->calls = &chan_calls;
	atomic_store(&chan->refs, 1);
	chan->peer = peer; /* with a reference, since the owners of the directions use the peer */
	peer_get(peer);
	chan->index = index;
	chan->epoch = epoch;
	list_init(&chan->kick.node);
	list_init(&chan->app.node);
	pthread_mutex_init(&chan->poll.lock, NULL);
	pthread_mutex_init(&chan->sample.lock, NULL);
	chan->worker = worker_for(peer, index, node);
	*out_chan = chan;
	return TCPX_OK;
}
