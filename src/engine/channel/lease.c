/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leases that outlive their channel. When a channel is stopped, the peer may still be reading
 * memory that the channel lent. That memory then stays in use (deregister returns ERR_BUSY) until
 * the peer has read it or its process is gone. This is rare.
 */
#include "base/error.h"
#include "engine/channel/chan_calls.h"
#include "engine/path/paths.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"

/* Called by the reaper (runtime/reaper.c) every few milliseconds. If the peer no longer reads the
 * memory, releases the memory and returns true. */
static bool lease_release(struct reap_item *item, int64_t now_ns)
{
	struct engine_chan *chan = LIST_ENTRY(item, struct engine_chan, lease.reap);
	struct engine_peer *peer = chan->peer;
	struct net_lent lent = {0};

	(void)now_ns;
	chan->net->ops->loan->lent(chan->net, 1, &lent);
	if (lent.pieces)
		return false;
	chan->tx.big = false;
	link_lock(&peer->link);
	core_io_drop(&peer->link.core, &chan->lease.io);
	link_unlock(&peer->link);
	path_unload(chan);
	chan_put(chan);
	return true;
}

void lease_start(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;

	LOG_INFO("peer '%s': channel %u ended while the peer was reading our memory",
		 peer->who.name, chan->index);
	link_lock(&peer->link);
	core_tx_take(&peer->link.core, chan->index, &chan->lease.io);
	link_unlock(&peer->link);
	chan_get(chan);
	reaper_add(&chan->lease.reap, lease_release);
}
