/* SPDX-License-Identifier: Apache-2.0 */
/* A channel from its making to its last reference, and what its worker runs in between. */
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/error.h"
#include "engine/channel/chan_traced.h"
#include "engine/channel/comms_gpu.h"
#include "engine/engine.h"
#include "engine/link/hold.h"
#include "net/net_wrapper.h"
#include "topo/graph.h"

#define TX_BUDGET (1u << 20)   /* of one channel before the worker's next one */
#define RX_BUDGET (512u << 10) /* of one channel before the worker's next one */

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

/* The worker's epoll reported the channel, or somebody says that there is something. */
static void chan_event(struct engine_chan *chan, uint32_t events)
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
		chan_sent_all(chan);
		link_run_deferred(&chan->peer->link);
	}
	if (again && chan->comms)
		worker_poll(chan);
	else if (again)
		worker_again(chan);
}

/* Somebody asked the worker for a sample, to receive, or to send. */
static void chan_kicked(struct engine_chan *chan)
{
	if (atomic_load(&chan->stopping)) {
		chan->net->ops->shutdown(chan->net);
		return;
	}
	chan_sample_take(chan);
	if (atomic_exchange(&chan->again, 0))
		chan_event(chan, EPOLLIN);
	link_run_deferred(&chan->peer->link); /* what link_run_posted left to us */
	chan_tx_kick(chan);
	link_run_deferred(&chan->peer->link);
}

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

static const struct chan_calls chan_calls = {
	.event = chan_event,
	.kicked = chan_kicked,
	.buried = chan_put,
	.free = chan_free,
};

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
	chan->net = chan_traced(chan->net);
	chan->calls = &chan_calls;
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
