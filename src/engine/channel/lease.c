/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases that outlive their channel: the peer was reading lent memory when the channel was stopped,
 * and has not answered since. The frame's memory stays in use, which deregister says by BUSY, until
 * the peer answers or its process is gone. Rare: looked at by a timer.
 */
#include "base/clock.h"
#include "base/error.h"
#include "engine/engine.h"
#include "engine/path/paths.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"

#define LEASE_LOOK_NS (5 * CLOCK_MS_NS)

static void lease_end(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;

	chan->tx.big = false;
	link_lock(&peer->link);
	core_io_drop(&peer->link.core, &chan->lease);
	link_unlock(&peer->link);
	path_unload(chan);
	chan_put(chan);
}

static void leases_look(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_runtime *runtime = LIST_ENTRY(timer, struct engine_runtime, lease_timer);
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &runtime->leases) {
		struct engine_chan *chan = LIST_ENTRY(pos, struct engine_chan, leased);
		struct net_lent lent = {0};

		chan->net->ops->loan->lent(chan->net, 1, &lent);
		if (lent.pieces)
			continue;
		list_remove(&chan->leased);
		lease_end(chan);
	}
	if (!list_empty(&runtime->leases))
		sys_timer_set(&runtime->loop, timer, now_ns + LEASE_LOOK_NS);
}

void lease_start(struct engine_chan *chan)
{
	struct engine_runtime *runtime = &engine_runtime;
	struct engine_peer *peer = chan->peer;

	LOG_INFO("peer '%s': channel %u ended while the peer reads our memory", peer->who.name,
		 chan->index);
	link_lock(&peer->link);
	core_tx_take(&peer->link.core, chan->index, &chan->lease);
	link_unlock(&peer->link);
	chan_get(chan);
	list_push_back(&runtime->leases, &chan->leased);
	sys_timer_set(&runtime->loop, &runtime->lease_timer, clock_now_ns() + LEASE_LOOK_NS);
}

void leases_init(struct engine_runtime *runtime)
{
	list_init(&runtime->leases);
	share_leases_init(runtime);
	list_init(&runtime->lease_timer.node);
	runtime->lease_timer.fn = leases_look;
}

void leases_forget(struct engine_runtime *runtime)
{
	while (list_pop_front(&runtime->leases))
		; /* their sessions said that this memory stays */
	while (list_pop_front(&runtime->shares))
		;
	sys_timer_del(&runtime->loop, &runtime->lease_timer);
	sys_timer_del(&runtime->loop, &runtime->share_timer);
}
