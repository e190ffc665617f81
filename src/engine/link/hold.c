/* SPDX-License-Identifier: Apache-2.0 */
/* Slices of frames that were sent without a copy, kept until nobody reads them any more. */
#include "engine/engine.h"
#include "engine/link/hold.h"

#include <stdlib.h>

#include "base/clock.h"
#include "engine/link/prefill.h"

#define HOLD_DEAD_NS (500 * CLOCK_MS_NS)
#define HOLD_LOOK_NS (5 * CLOCK_MS_NS)

struct hold {
	struct list_node node; /* chan.holds, by sequence; link.pins.unheld */
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
	list_init(&chan->holds);
	list_init(&chan->lost);
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
	list_push_back(&chan->holds, &hold->node);
	return true;
}

static void over(struct engine_peer *peer, struct list_node *node)
{
	list_remove(node);
	list_push_back(&peer->link.pins.unheld, node);
	prefill_hook_due(peer);
}

void hold_got(struct engine_chan *chan)
{
	uint64_t got = core_tx_taken(&chan->peer->link.core, chan->index);
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

	link_lock(&peer->link);
	if (!list_empty(&chan->holds) && !peer->link.core_done) {
		list_push_back(&peer->link.pins.lost, &chan->lost);
		chan_get(chan);
	}
	link_unlock(&peer->link);
}

void hold_fenced(struct engine_peer *peer, uint32_t channel)
{
	struct list_node *pos, *tmp, *hold, *next;

	LIST_FOREACH_SAFE(pos, tmp, &peer->link.pins.lost) {
		struct engine_chan *chan = LIST_ENTRY(pos, struct engine_chan, lost);

		if (chan->index != channel)
			continue;
		LIST_FOREACH_SAFE(hold, next, &chan->holds)
			over(peer, hold);
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

/* Nobody takes what is queued there any more; what lies in memory that others get is not sent. */
static void purge(struct engine_chan *chan)
{
	if (chan->net->ops->zerocopy)
		chan->net->ops->zerocopy->purge(chan->net);
}

/* Control thread. A peer that lives but is told of its death only now may still read its queue: its
 * FIN says that it does not. The reset makes one that comes back later see that its queue is not to
 * be believed (net_zerocopy_ops.intact). */
static void dead_look(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_runtime *runtime = LIST_ENTRY(timer, struct engine_runtime, hold_timer);
	struct list_node *pos, *tmp, *node;

	LIST_FOREACH_SAFE(pos, tmp, &runtime->holding) {
		struct engine_chan *chan = LIST_ENTRY(pos, struct engine_chan, lost);

		if (now_ns < chan->held_until_ns && chan->net->ops->zerocopy &&
		    !chan->net->ops->zerocopy->ended(chan->net))
			continue;
		list_remove(pos);
		purge(chan);
		while ((node = list_pop_front(&chan->holds)))
			hold_put(LIST_ENTRY(node, struct hold, node));
		chan_put(chan);
	}
	if (!list_empty(&runtime->holding))
		sys_timer_set(&runtime->loop, timer, now_ns + HOLD_LOOK_NS);
}

void hold_dead(struct engine_peer *peer, struct engine_chan *const *chans)
{
	struct engine_runtime *runtime = &engine_runtime;
	int64_t now = clock_now_ns();
	struct list_node lost, *pos;

	list_init(&lost);
	link_lock(&peer->link);
	list_splice(&lost, &peer->link.pins.lost);
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++) {
		if (!chans[i] || list_empty(&chans[i]->holds))
			continue;
		chan_get(chans[i]);
		list_push_back(&lost, &chans[i]->lost);
	}
	link_unlock(&peer->link);
	LIST_FOREACH(pos, &lost)
		LIST_ENTRY(pos, struct engine_chan, lost)->held_until_ns = now + HOLD_DEAD_NS;
	list_splice(&runtime->holding, &lost);
	hold_flush(peer);
	dead_look(&runtime->hold_timer, now);
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
		purge(LIST_ENTRY(node, struct engine_chan, lost));
	while ((node = list_pop_front(&holds)))
		hold_put(LIST_ENTRY(node, struct hold, node));
	while ((node = list_pop_front(&chans)))
		chan_put(LIST_ENTRY(node, struct engine_chan, lost));
}

void hold_init(struct engine_runtime *runtime)
{
	list_init(&runtime->holding);
	list_init(&runtime->hold_timer.node);
	runtime->hold_timer.fn = dead_look;
}

/* No session is left, so nothing is held. */
void hold_stop(struct engine_runtime *runtime)
{
	sys_timer_del(&runtime->loop, &runtime->hold_timer);
}
