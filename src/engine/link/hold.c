/* SPDX-License-Identifier: Apache-2.0 */
/* Pins the slices of frames that were sent without a copy, until neither the kernel nor the peer
 * reads the slices any more. */
#include "engine/link/engine.h"
#include "engine/link/hold.h"

#include <stdlib.h>

#include "base/clock.h"
#include "engine/link/prefill.h"

#define HOLD_DEAD_NS (500 * CLOCK_MS_NS)

/* A pin: a reference to each slice that holds the payload of one frame. */
struct hold {
	struct list_node node; /* entry in chan->pins.frames, by sequence, or in link.pins.unheld */
	uint64_t seq;
	uint32_t n;
	struct prefill_slice *slices[];
};

void hold_peer_init(struct engine_peer *peer)
{
	list_init(&peer->link.pins.lost);
	list_init(&peer->link.pins.fenced);
	list_init(&peer->link.pins.unheld);
}

void hold_chan_init(struct engine_chan *chan)
{
	list_init(&chan->pins.frames);
	list_init(&chan->pins.node);
}

bool hold_frame(struct engine_chan *chan)
{
	const struct chan_tx *tx = &chan->tx;
	struct hold *hold;

	if (!chan->net->ops->zerocopy || !tx->nslices ||
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
	list_push_back(&chan->pins.frames, &hold->node);
	return true;
}

/* Called under link.lock. Ends a pin; hold_flush() releases its slices later. */
static void hold_over(struct engine_peer *peer, struct list_node *node)
{
	list_remove(node);
	list_push_back(&peer->link.pins.unheld, node);
	prefill_hook_due(peer);
}

void hold_got(struct engine_chan *chan)
{
	uint64_t got = core_tx_taken(&chan->peer->link.core, chan->index);
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &chan->pins.frames) {
		if (LIST_ENTRY(pos, struct hold, node)->seq > got)
			return;
		hold_over(chan->peer, pos);
	}
}

void hold_lost(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;

	link_lock(&peer->link);
	if (!list_empty(&chan->pins.frames) && !peer->link.core_done) {
		list_push_back(&peer->link.pins.lost, &chan->pins.node);
		chan_get(chan);
	}
	link_unlock(&peer->link);
}

void hold_fenced(struct engine_peer *peer, uint32_t channel)
{
	struct list_node *pos, *tmp, *hold, *next;

	LIST_FOREACH_SAFE(pos, tmp, &peer->link.pins.lost) {
		struct engine_chan *chan = LIST_ENTRY(pos, struct engine_chan, pins.node);

		if (chan->index != channel)
			continue;
		LIST_FOREACH_SAFE(hold, next, &chan->pins.frames)
			hold_over(peer, hold);
		list_remove(pos);
		list_push_back(&peer->link.pins.fenced, pos);
	}
}

static void hold_put(struct hold *hold)
{
	while (hold->n)
		prefill_put(hold->slices[--hold->n]);
	free(hold);
}

/* Discards what the socket of an ended connection still queues, because the queued memory will be
 * reused. */
static void chan_purge(struct engine_chan *chan)
{
	if (chan->net->ops->zerocopy)
		chan->net->ops->zerocopy->purge(chan->net);
}

/* Called by the control thread. Releases the pins of a dead peer's channel once the peer's end of
 * the connection is closed, or at pins.until_ns. Returns false if it is too early: a peer that
 * still runs and does not know yet that this side gave it up may read what this side's socket
 * queued, until the FIN of this side arrives. The release resets the connection. If the peer's end
 * was still open, the peer then sees that the queued bytes are not valid
 * (net_zerocopy_ops.intact). */
static bool pins_of_dead_release(struct reap_item *item, int64_t now_ns)
{
	struct engine_chan *chan = LIST_ENTRY(item, struct engine_chan, pins.reap);
	struct list_node *node;

	if (now_ns < chan->pins.until_ns && chan->net->ops->zerocopy &&
	    !chan->net->ops->zerocopy->ended(chan->net))
		return false;
	chan_purge(chan);
	while ((node = list_pop_front(&chan->pins.frames)))
		hold_put(LIST_ENTRY(node, struct hold, node));
	chan_put(chan);
	return true;
}

void hold_dead(struct engine_peer *peer, struct engine_chan *const *chans)
{
	int64_t now = clock_now_ns();
	struct list_node lost, *node;

	list_init(&lost);
	link_lock(&peer->link);
	list_splice(&lost, &peer->link.pins.lost);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (!chans[i] || list_empty(&chans[i]->pins.frames))
			continue;
		chan_get(chans[i]);
		list_push_back(&lost, &chans[i]->pins.node);
	}
	link_unlock(&peer->link);
	hold_flush(peer);
	while ((node = list_pop_front(&lost))) {
		struct engine_chan *chan = LIST_ENTRY(node, struct engine_chan, pins.node);

		chan->pins.until_ns = now + HOLD_DEAD_NS;
		if (!pins_of_dead_release(&chan->pins.reap, now))
			reaper_add(&chan->pins.reap, pins_of_dead_release);
	}
}

void hold_flush(struct engine_peer *peer)
{
	struct list_node holds, chans, *node;

	list_init(&holds);
	list_init(&chans);
	link_lock(&peer->link);
	list_splice(&holds, &peer->link.pins.unheld);
	list_splice(&chans, &peer->link.pins.fenced);
	link_unlock_only(&peer->link);
	LIST_FOREACH(node, &chans)
		chan_purge(LIST_ENTRY(node, struct engine_chan, pins.node));
	while ((node = list_pop_front(&holds)))
		hold_put(LIST_ENTRY(node, struct hold, node));
	while ((node = list_pop_front(&chans)))
		chan_put(LIST_ENTRY(node, struct engine_chan, pins.node));
}
