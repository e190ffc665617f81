/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of frames that were sent without a copy, kept until nobody reads them any more. */
#include "engine/hold.h"

#include <stdlib.h>

#include "engine/prefill.h"

struct hold {
	struct list_node node; /* chan.holds, by sequence; peer.unheld */
	uint64_t seq;
	uint32_t n;
	struct prefill_slice *slices[];
};

void hold_peer_init(struct engine_peer *peer)
{
	list_init(&peer->lost);
	list_init(&peer->fenced);
	list_init(&peer->unheld);
}

void hold_chan_init(struct engine_chan *chan)
{
	list_init(&chan->holds);
	list_init(&chan->lost);
}

bool hold_frame(struct engine_chan *chan)
{
	const struct chan_tx *tx = &chan->tx;
	struct hold *hold;

	if (!chan->net->ops->send_held || !tx->nslices ||
	    tx->frame.frame.payload_bytes <= ENGINE_COPY_BYTES)
		return false;
	hold = malloc(sizeof(*hold) + tx->nslices * sizeof(hold->slices[0]));
	if (!hold)
		return false;
	hold->seq = tx->frame.frame.seq;
	hold->n = tx->nslices;
	for (uint32_t i = 0; i < hold->n; i++) {
		prefill_get(tx->slices[i]);
		hold->slices[i] = tx->slices[i];
	}
	list_push_back(&chan->holds, &hold->node);
	return true;
}

static void over(struct engine_peer *peer, struct list_node *node)
{
	list_remove(node);
	list_push_back(&peer->unheld, node);
	prefill_hook_due(peer);
}

void hold_got(struct engine_chan *chan)
{
	uint64_t got = chan->peer->core.chan[chan->index].got_seq;
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &chan->holds) {
		if (LIST_ENTRY(pos, struct hold, node)->seq > got)
			return;
		over(chan->peer, pos);
	}
}

void hold_lost(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;

	pthread_mutex_lock(&peer->lock);
	if (!list_empty(&chan->holds) && !peer->core_done) {
		list_push_back(&peer->lost, &chan->lost);
		chan_get(chan);
	}
	pthread_mutex_unlock(&peer->lock);
}

void hold_fenced(struct engine_peer *peer, uint32_t channel)
{
	struct list_node *pos, *tmp, *hold, *next;

	LIST_FOREACH_SAFE(pos, tmp, &peer->lost) {
		struct engine_chan *chan = LIST_ENTRY(pos, struct engine_chan, lost);

		if (chan->index != channel)
			continue;
		LIST_FOREACH_SAFE(hold, next, &chan->holds)
			over(peer, hold);
		list_remove(pos);
		list_push_back(&peer->fenced, pos);
	}
}

static void hold_put(struct hold *hold)
{
	while (hold->n)
		prefill_put(hold->slices[--hold->n]);
	free(hold);
}

static void chans_put(struct list_node *chans)
{
	struct list_node *node;

	while ((node = list_pop_front(chans)))
		chan_put(LIST_ENTRY(node, struct engine_chan, lost));
}

void hold_dead(struct engine_peer *peer)
{
	struct list_node chans;

	list_init(&chans);
	pthread_mutex_lock(&peer->lock);
	list_splice(&chans, &peer->lost);
	pthread_mutex_unlock(&peer->lock);
	chans_put(&chans);
	hold_flush(peer);
}

void hold_flush(struct engine_peer *peer)
{
	struct list_node holds, chans, *node;

	list_init(&holds);
	list_init(&chans);
	pthread_mutex_lock(&peer->lock);
	list_splice(&holds, &peer->unheld);
	list_splice(&chans, &peer->fenced);
	pthread_mutex_unlock(&peer->lock);
	while ((node = list_pop_front(&holds)))
		hold_put(LIST_ENTRY(node, struct hold, node));
	chans_put(&chans);
}

bool hold_any(const struct engine_chan *chan)
{
	return !list_empty(&chan->holds);
}

void hold_closed(struct engine_chan *chan)
{
	struct list_node *node;

	while ((node = list_pop_front(&chan->holds)))
		hold_put(LIST_ENTRY(node, struct hold, node));
}
