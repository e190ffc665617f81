/* SPDX-License-Identifier: Apache-2.0 */
/* Decides which memory is offered to a peer on this host, and which requests are sent by reference
 * or copied without frames (direct.c). */
#include "engine/path/share.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/error.h"
#include "engine/path/direct.h"

/* If the end that copies has no GPU kernel that copies lists of segments, requests of many small
 * segments are staged, because staging moves such segments in few large copies. Such an end copies
 * by reference only if a request has at most PIECES_FEW segments, or at least PIECE_MIN bytes per
 * segment on average. */
#define PIECE_MIN (64u << 10)
#define PIECES_FEW 8u

_Atomic uint32_t share_gate;

struct engine_shares *share_table(struct engine_peer *peer, bool make)
{
	struct engine_shares *table = peer->shared;

	if (table || !make)
		return table;
	table = peer->shared = calloc(1, sizeof(*table));
	if (!table)
		return NULL;
	for (uint32_t i = 0; i < ENGINE_SHARE_BUCKETS; i++) {
		list_init(&table->out[i]);
		list_init(&table->in[i]);
		list_init(&table->keys[i]);
	}
	list_init(&table->out_due);
	list_init(&table->in_due);
	list_init(&table->out_wait);
	return table;
}

struct engine_share *share_find(struct engine_peer *peer, uint64_t id)
{
	struct engine_shares *table = peer->shared;
	struct list_node *pos;

	if (!table)
		return NULL;
	LIST_FOREACH(pos, &table->out[id % ENGINE_SHARE_BUCKETS]) {
		struct engine_share *share = LIST_ENTRY(pos, struct engine_share, node);

		if (share->region->serial == id)
			return share;
	}
	return NULL;
}

struct engine_map *share_map_find(struct engine_peer *peer, uint64_t id)
{
	struct engine_shares *table = peer->shared;
	struct list_node *pos;

	if (!table)
		return NULL;
	if (table->last && table->last->id == id)
		return table->last;
	LIST_FOREACH(pos, &table->in[id % ENGINE_SHARE_BUCKETS]) {
		struct engine_map *map = LIST_ENTRY(pos, struct engine_map, node);

		if (map->id == id)
			return table->last = map;
	}
	return NULL;
}

/* Returns a channel over shared memory, without taking a reference. Returns NULL if the peer has no
 * such channel (a peer on another host has none), if TCPX_GPU_PEER=0 forbids offers of memory, or
 * if the link is not up. */
struct engine_chan *share_chan(struct engine_peer *peer)
{
	if (!peer->link.core_ready || peer->link.core_done || !config_bool(CONFIG_GPU_PEER))
		return NULL;
	for (uint32_t i = 0; i < CORE_CHANNELS_MAX; i++)
		if (peer->link.chan[i] && peer->link.chan[i]->net->ops->reading)
			return peer->link.chan[i];
	return NULL;
}

void share_due(struct engine_share *share)
{
	struct engine_peer *peer = share->peer;

	list_remove(&share->due);
	list_push_back(&peer->shared->out_due, &share->due);
	link_wake(&peer->link);
}

/* Whether the share holds an io reference of its region. A deregister waits for such references. */
static bool has_io(const struct engine_share *share)
{
	return share->state != SHARE_REFUSED;
}

void share_free(struct engine_share *share)
{
	struct engine_peer *peer = share->peer;
	int fd;

	link_lock(&peer->link);
	list_remove(&share->node);
	list_remove(&share->due);
	fd = share_fd_end(share);
	link_unlock(&peer->link);
	share_fd_close(fd);
	if (has_io(share))
		mem_region_io_put(share->region);
	mem_region_put(share->region);
	chan_put(share->chan);
	free(share);
	peer_put(peer);
}

/* Makes a share for the region, which share_run() offers to the peer. If this fails, there is no
 * share, and the region's bytes are sent as before. The caller holds link.lock. */
static void share_begin(struct engine_peer *peer, struct engine_chan *chan,
			struct mem_region *region, uint64_t key)
{
	struct engine_shares *table = share_table(peer, true);
	struct engine_share *share = table ? calloc(1, sizeof(*share)) : NULL;

	if (!share || !mem_region_io_get(region)) {
		free(share);
		return;
	}
	mem_region_hold(region);
	chan_get(chan);
	peer_get(peer);
	share->peer = peer;
	share->region = region;
	share->chan = chan;
	share->key = key;
	share->job.fd = -1;
	list_init(&share->due);
	list_push_back(&table->out[region->serial % ENGINE_SHARE_BUCKETS], &share->node);
	share_due(share);
}

/* Returns whether the peer has mapped the region, so that chunks of the region may go by reference.
 * Offers the region if this was not done before. Offers it again if an earlier offer was given up
 * and the time share->again_ns is past. `key` is the key by which the peer names the region, or 0;
 * the offer carries it. The caller holds link.lock. */
static bool region_ready(struct engine_peer *peer, struct mem_region *region, uint64_t key)
{
	struct engine_share *share = share_find(peer, region->serial);
	struct engine_chan *chan;

	if (!share) {
		chan = share_chan(peer);
		if (chan)
			share_begin(peer, chan, region, key);
		return false;
	}
	if (share->state == SHARE_REFUSED && share->again_ns && !share->retired &&
	    clock_now_ns() > share->again_ns && mem_region_io_get(region)) {
		share->again_ns = 0;
		share->state = SHARE_NEW;
		share_due(share);
	}
	if (key && !share->key) {
		share->key = key;
		if (share->state == SHARE_OFFERED || share->state == SHARE_OPEN)
			share_due(share);
	}
	return share->state == SHARE_OPEN;
}

static bool regions_ready(struct engine_request *request)
{
	bool ready = true;

	for (uint32_t i = 0; i < request->regions.count; i++)
		ready &= region_ready(request->peer, request->regions.at[i], 0);
	return ready;
}

struct engine_map *share_map_of_key(struct engine_peer *peer, uint64_t key)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &peer->shared->keys[key % ENGINE_SHARE_BUCKETS]) {
		struct engine_map *map = LIST_ENTRY(pos, struct engine_map, key_node);

		if (map->key == key)
			return map->state == MAP_OPEN && !map->revoked ? map : NULL;
	}
	return NULL;
}

static bool keys_mapped(struct engine_request *request)
{
	if (!request->peer->shared || !request->peer->shared->nin)
		return false;
	for (uint32_t i = 0; i < request->segs.nremote; i++)
		if (!share_map_of_key(request->peer, request->regions.keys[i]))
			return false;
	return true;
}

/* Whether copying the segments by reference is cheaper than staging them. `lists` says whether the
 * end that copies has a GPU kernel that copies lists of segments. */
static bool by_reference_pays(const struct core_segs *segs, bool lists)
{
	return segs->total &&
	       (lists || segs->nseg <= PIECES_FEW || segs->total / segs->nseg >= PIECE_MIN);
}

/* Whether this end copies all bytes of the request itself, without data frames. If true,
 * direct_begin() has prepared the request. The caller holds link.lock. */
static bool goes_direct(struct engine_request *request)
{
	uint32_t right = request->xfer.op == TCPX_OP_WRITE ? TCPX_RIGHT_WRITE : TCPX_RIGHT_READ;

	return request->peer->shared && request->remote.rights & right &&
	       by_reference_pays(&request->segs, share_moves_lists()) && direct_begin(request);
}

bool share_moves_lists(void)
{
	const struct mem_kind *kind = mem_kind_get(TCPX_MEM_CUDA);

	return kind && kind->moves_lists && kind->moves_lists();
}

/* Whether the end that would copy the request's bytes by reference has a GPU kernel that copies
 * lists of segments. That is the end to which the bytes go. */
static bool copier_takes_lists(const struct engine_request *request)
{
	const struct engine_shares *table = request->peer->shared;

	switch (request->xfer.op) {
	case TCPX_OP_WRITE:
	case TCPX_OP_SEND:
		return table && table->peer_lists;
	case TCPX_OP_RECV:
		return true; /* the sender decides; it knows from this end's answers to offers */
	default:
		return share_moves_lists();
	}
}

bool share_carries(struct engine_request *request)
{
	bool pays;

	if (!request->regions.count || !request->local.shares || !share_chan(request->peer))
		return false;
	pays = by_reference_pays(&request->segs, copier_takes_lists(request));
	switch (request->xfer.op) {
	case TCPX_OP_WRITE:
		if (!request->remote.shares)
			return false;
		return goes_direct(request) || (pays && regions_ready(request));
	case TCPX_OP_READ:
		if (!request->remote.shares || !keys_mapped(request))
			return false;
		return goes_direct(request) || pays;
	case TCPX_OP_SEND:
		return pays && regions_ready(request); /* finally the peer's CTS frame decides */
	case TCPX_OP_RECV:
		return pays;
	case TCPX_OP_NOTIFY:
		break;
	}
	return false;
}

void share_written(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	const struct chan_rx *rx = &chan->rx;

	if (!rx->nheld || !rx->held[0].region->kind->share || !chan->net->ops->reading)
		return;
	link_lock(&peer->link);
	for (uint32_t i = 0; i < rx->nheld; i++)
		if (rx->held[i].region->kind->share)
			(void)region_ready(peer, rx->held[i].region, rx->held[i].key);
	link_unlock_only(&peer->link);
}

void share_ahead(struct engine_request *request)
{
	enum tcpx_op op = request->xfer.op;
	struct engine_peer *peer = request->peer;

	if (!request->regions.count || !request->local.shares)
		return;
	if (op == TCPX_OP_WRITE || op == TCPX_OP_SEND) {
		link_lock(&peer->link);
		if (share_chan(peer) && request->remote.shares)
			(void)regions_ready(request); /* offers those that were not offered yet */
		link_unlock(&peer->link);
	}
	if (op == TCPX_OP_WRITE || op == TCPX_OP_READ)
		direct_prepared(request);
}

tcpx_status share_serve(struct engine_peer *peer, struct core_resp *resp, const uint64_t *keys,
			bool asked)
{
	const struct core_segs *segs = &resp->segs;
	bool ready = true;

	if (!asked && !resp->job.fills)
		return TCPX_OK;
	link_lock(&peer->link);
	for (uint32_t i = 0; i < segs->nlocal; i++) {
		struct mem_region *region = segs->local[i];
		struct engine_share *share = share_find(peer, region->serial);

		if (region->kind->share && !region_ready(peer, region, keys[i]) && share && asked &&
		    share->state == SHARE_OFFERED)
			/* The peer requests this path, so it has mapped the region. Only its answer
			 * to the offer has not arrived yet. */
			share->state = SHARE_OPEN;
		ready &= share && share->state == SHARE_OPEN;
	}
	link_unlock_only(&peer->link);
	if (!asked)
		return TCPX_OK;
	resp->job.path = ready ? CORE_PATH_REFERENCE : CORE_PATH_STREAM;
	resp->job.fills = false;
	return ready ? TCPX_OK : TCPX_ERR_REMOTE;
}

void share_forget(struct engine_peer *peer, struct mem_region *region)
{
	struct engine_share *share = share_find(peer, region->serial);

	if (!share || peer->link.core_done) /* share_peer_dead() ends the shares of a dead peer */
		return;
	switch (share->state) {
	case SHARE_EXPORTING:
		share->retired = true;
		break;
	case SHARE_NEW:
	case SHARE_TELL:
	case SHARE_REFUSED:
		share->retired = true;
		share_due(share);
		break;
	case SHARE_OFFERED:
	case SHARE_OPEN:
		share->state = SHARE_REVOKE;
		share_due(share);
		break;
	case SHARE_REVOKE:
	case SHARE_REVOKED:
		break;
	}
}

bool share_map_idle(struct engine_map *map)
{
	if (!map->revoked || map->uses || map->state != MAP_OPEN)
		return false;
	map->state = MAP_CLOSING;
	return true;
}

void share_map_put(struct engine_map *map)
{
	struct engine_peer *peer = map->peer;
	bool idle;

	link_lock(&peer->link);
	map->uses--;
	idle = share_map_idle(map);
	link_unlock_only(&peer->link);
	if (idle)
		share_map_close(map);
}
