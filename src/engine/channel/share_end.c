/* SPDX-License-Identifier: Apache-2.0 */
/* Ends the sharing of memory with a dead peer: waits until the peer no longer reads memory of
 * this end, and closes mappings of the peer's memory. path/share.h declares the functions. The
 * file is in channel/ because it calls functions of comms.h, which path/ may not include. */
#include <stdlib.h>

#include "engine/channel/comms.h"
#include "engine/path/share.h"

/* Whether the peer was offered the share's memory and has not refused it, so that the peer may have
 * mapped the memory. */
static bool share_told(const struct engine_share *share)
{
	return share->state >= SHARE_OFFERED && share->state != SHARE_REFUSED;
}

/* Whether the peer may be reading the share's memory now. */
static bool share_read(const struct engine_share *share)
{
	return share_told(share) && share->chan->net->ops->reading->peer(share->chan->net);
}

/* Collects the channels on which the peer says whether it reads offered memory, each once and
 * with a reference. Returns their number. The caller holds link.lock. */
static uint32_t chans_told(struct engine_peer *peer, struct engine_chan **chans)
{
	uint32_t n = 0;

	for (uint32_t i = 0; peer->shared && i < ENGINE_SHARE_BUCKETS; i++) {
		struct list_node *pos;

		LIST_FOREACH(pos, &peer->shared->out[i]) {
			struct engine_share *share = LIST_ENTRY(pos, struct engine_share, node);
			uint32_t k = 0;

			while (k < n && chans[k] != share->chan)
				k++;
			if (!share_told(share) || k < n || n == CORE_CHANNELS_MAX)
				continue;
			chan_get(share->chan);
			chans[n++] = share->chan;
		}
	}
	return n;
}

bool share_leased(struct engine_peer *peer)
{
	struct engine_chan *chans[CORE_CHANNELS_MAX];
	bool reads = comms_lend(peer);
	uint32_t n;

	link_lock(&peer->link);
	n = chans_told(peer, chans);
	link_unlock_only(&peer->link);
	while (n) {
		struct engine_chan *chan = chans[--n];

		reads |= chan->net->ops->reading->peer(chan->net) != 0;
		chan_put(chan);
	}
	return reads;
}

/* If the dead peer no longer reads memory of this end, ends the requests that have waited for
 * that. */
void share_lease_over(struct engine_peer *peer)
{
	if ((peer->shared && peer->shared->norphans) || comms_lend(peer))
		return;
	link_lock(&peer->link);
	if (peer->link.core_ready)
		core_link_unlease(&peer->link.core);
	link_unlock(&peer->link);
}

/* Called by the reaper (runtime/reaper.c) every few milliseconds. If the peer no longer reads the
 * share's memory, frees the share and returns true. */
static bool share_lease_release(struct reap_item *item, int64_t now_ns)
{
	struct engine_share *share = LIST_ENTRY(item, struct engine_share, reap);

	(void)now_ns;
	if (share->chan->net->ops->reading->peer(share->chan->net))
		return false;
	share->peer->shared->norphans--;
	share_lease_over(share->peer);
	share_free(share);
	return true;
}

/* Called when the peer was declared dead: frees the share, or leaves it to the reaper if the peer's
 * process may still read the memory. That process may read until it reports that it no longer does,
 * or until it ends. */
static void share_orphan(struct engine_share *share)
{
	int fd;

	if (!share_read(share)) {
		share_free(share);
		return;
	}
	share->peer->shared->norphans++;
	link_lock(&share->peer->link);
	fd = share_fd_end(share);
	link_unlock(&share->peer->link);
	share_fd_close(fd);
	list_remove(&share->due);
	reaper_add(&share->reap, share_lease_release);
}

/* Takes the next mapping from `maps` and revokes it. Closes or frees a mapping that is not in use;
 * one in use is closed by the thread that ends the last use. Returns false if `maps` is empty. */
static bool map_orphan(struct engine_peer *peer, struct list_node *maps)
{
	struct engine_map *map = NULL;
	bool idle = false, over = false;
	struct list_node *node;

	link_lock(&peer->link);
	node = list_pop_front(maps);
	if (node) {
		map = LIST_ENTRY(node, struct engine_map, due);
		map->revoked = true;
		idle = share_map_idle(map);
		over = map->state == MAP_FAILED || map->state == MAP_CLOSED;
	}
	link_unlock(&peer->link);
	if (idle)
		share_map_close(map);
	else if (over)
		share_map_free(map);
	return node != NULL;
}

/* Ends the shares and mappings of a dead peer, except those on which an operation (export, open or
 * close) is under way. Since core_done is set, such an operation frees its share or mapping itself
 * when it ends, on another thread. These threads change the tables meanwhile, so the shares and
 * mappings without an operation are first collected in lists, under the lock. */
void share_peer_dead(struct engine_peer *peer)
{
	struct list_node shares, maps, *node;

	list_init(&shares);
	list_init(&maps);
	link_lock(&peer->link);
	for (uint32_t i = 0; peer->shared && i < ENGINE_SHARE_BUCKETS; i++) {
		struct list_node *pos;

		LIST_FOREACH(pos, &peer->shared->out[i]) {
			struct engine_share *share = LIST_ENTRY(pos, struct engine_share, node);

			list_remove(&share->due);
			if (share->state != SHARE_EXPORTING)
				list_push_back(&shares, &share->due);
		}
		LIST_FOREACH(pos, &peer->shared->in[i]) {
			struct engine_map *map = LIST_ENTRY(pos, struct engine_map, node);

			list_remove(&map->due);
			(void)share_fetch_stop(map);
			if (map->state != MAP_OPENING && map->state != MAP_CLOSING)
				list_push_back(&maps, &map->due);
		}
	}
	link_unlock(&peer->link);
	LIST_FOREACH(node, &maps)
		share_fetch_cancel(LIST_ENTRY(node, struct engine_map, due));
	while ((node = list_pop_front(&shares)))
		share_orphan(LIST_ENTRY(node, struct engine_share, due));
	while (map_orphan(peer, &maps))
		;
	share_lease_over(peer);
}

void share_peer_free(struct engine_peer *peer)
{
	free(peer->shared);
	peer->shared = NULL;
}
