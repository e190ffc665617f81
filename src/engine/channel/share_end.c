/* SPDX-License-Identifier: Apache-2.0 */
/* Shared memory of a peer that is dead: leases that outlive it, mappings that are closed. In this
 * folder, since leases of comms end with them; declared in path/share.h. */
#include <stdlib.h>

#include "base/clock.h"
#include "engine/channel/comms.h"
#include "engine/path/share.h"

#define LEASE_LOOK_NS (5 * CLOCK_MS_NS)

static bool share_told(const struct engine_share *share)
{
	return share->state >= SHARE_OFFERED && share->state != SHARE_REFUSED;
}

static bool share_read(const struct engine_share *share)
{
	return share_told(share) && share->chan->net->ops->reading->peer(share->chan->net);
}

/* The channels whose peers say that they read, with references; the same one once. peer.lock. */
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
	link_unlock(&peer->link);
	while (n) {
		struct engine_chan *chan = chans[--n];

		reads |= chan->net->ops->reading->peer(chan->net) != 0;
		chan_put(chan);
	}
	return reads;
}

/* With the last lease the requests end that waited for it. */
void share_lease_over(struct engine_peer *peer)
{
	if ((peer->shared && peer->shared->norphans) || comms_lend(peer))
		return;
	link_lock(&peer->link);
	if (peer->link.core_ready)
		core_link_unlease(&peer->link.core);
	link_unlock(&peer->link);
}

static void leases_look(struct sys_timer *timer, int64_t now_ns)
{
	struct engine_runtime *runtime = LIST_ENTRY(timer, struct engine_runtime, share_timer);
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &runtime->shares) {
		struct engine_share *share = LIST_ENTRY(pos, struct engine_share, due);

		if (share->chan->net->ops->reading->peer(share->chan->net))
			continue;
		share->peer->shared->norphans--;
		share_lease_over(share->peer);
		share_free(share);
	}
	if (!list_empty(&runtime->shares))
		sys_timer_set(&runtime->loop, timer, now_ns + LEASE_LOOK_NS);
}

void share_leases_init(struct engine_runtime *runtime)
{
	list_init(&runtime->shares);
	list_init(&runtime->share_timer.node);
	runtime->share_timer.fn = leases_look;
}

/* The peer is dead here, and maybe only here: what it had mapped it may read until it says that it
 * does not, or its process is gone. */
static void share_orphan(struct engine_share *share)
{
	struct engine_runtime *runtime = &engine_runtime;
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
	list_push_back(&runtime->shares, &share->due);
	sys_timer_set(&runtime->loop, &runtime->share_timer, clock_now_ns() + LEASE_LOOK_NS);
}

/* The next of those that were there when the peer died; false: none is left. One that is in use is
 * closed behind its last use, by whoever ends that. */
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

/* core_done is set: who ends something of it from now on frees it. Collected first: what ends now
 * is freed by its own end, on its own thread. */
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
