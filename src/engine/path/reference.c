/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads by reference, between peers on one host. The frame says where the bytes are in memory
 * that the receiver has mapped, and the receiver copies them from there.
 */
#include <stdlib.h>

#include "base/error.h"
#include "engine/path/paths.h"
#include "engine/path/share.h"
#include "engine/link/stage.h"
#include "engine/link/tx_table.h"
#include "wire/table.h"

static enum path_loaded reference_load(struct engine_chan *chan, bool *out_valid)
{
	(void)out_valid;
	path_header(&chan->tx, tx_table_sources);
	atomic_fetch_add_explicit(&share_gate, 1, memory_order_release);
	return PATH_APART;
}

/* Steps through the destination of a payload piece by piece. The destination is the segment list
 * `segs`, or, if `segs` is NULL, the regions in `rx` that the peer named. */
struct target {
	const struct chan_rx *rx;
	const struct core_segs *segs;
	struct core_cursor at;
	uint32_t held, in_held, iov;
	/* the rest of the current piece: `left` bytes at `offset` of `region` */
	const struct mem_region *region;
	uint64_t offset, left;
};

/* Advances to the next piece, which must exist. */
static void target_next(struct target *to)
{
	if (to->segs) {
		uint64_t all = UINT64_MAX;
		struct core_piece piece;

		(void)core_piece_next(to->segs, &to->at, &all, &piece);
		to->region = to->segs->local[piece.seg->local];
		to->offset = piece.seg->local_off + piece.off;
		to->left = piece.length;
		return;
	}
	if (to->in_held == to->rx->held[to->held].pieces) {
		to->held++;
		to->in_held = 0;
	}
	to->region = to->rx->held[to->held].region;
	to->offset = (uint64_t)((uint8_t *)to->rx->iov[to->iov].iov_base - to->region->base);
	to->left = to->rx->iov[to->iov].iov_len;
	to->in_held++;
	to->iov++;
}

/* Returns the number of pieces in the table `sources`. Returns 0 if the table is malformed or has
 * too many pieces, or if their lengths do not add up to `total`. */
static uint32_t count_sources(const uint8_t *sources, uint32_t bytes, uint64_t total)
{
	struct wire_table_reader reader;
	uint64_t id, offset, length, sum = 0;
	uint32_t n = 0;
	int more;

	wire_table_open(&reader, sources, bytes);
	while ((more = wire_table_next(&reader, &id, &offset, &length)) > 0) {
		if (++n > CORE_PIECES_MAX || length > total - sum)
			return 0;
		sum += length;
	}
	return more < 0 || sum != total ? 0 : n;
}

static uint32_t count_targets(const struct chan_rx *rx, const struct core_segs *segs)
{
	uint64_t bytes = rx->frame.payload_bytes;
	struct core_cursor at;
	uint32_t n;

	if (!segs)
		return rx->niov;
	at = core_cursor_at(segs, rx->core.linear);
	(void)core_cursor_advance(segs, &at, bytes, UINT32_MAX, &n);
	return n;
}

#define RECENT 64u

/* Mappings that a chunk has used, indexed by id % RECENT. A chunk may alternate between
 * many mappings, and this table saves a look-up under link.lock for each piece. */
struct recent_maps {
	struct engine_map *at[RECENT];
};

/* Returns the mapping `id` for a source piece. Returns NULL if the mapping is not open or is
 * revoked, or if the piece exceeds it. If the mapping is not in `recent`, adds it to `recent` and
 * to stage->maps, and counts one use. Another mapping may displace it from `recent`; its next use
 * then adds and counts it once more. */
static struct engine_map *map_use(struct engine_peer *peer, struct engine_stage *stage,
				  struct recent_maps *recent, uint64_t id, uint64_t offset,
				  uint64_t length)
{
	struct engine_map *map = recent->at[id % RECENT];

	if (!map || map->id != id) {
		link_lock(&peer->link);
		map = share_map_find(peer, id);
		if (map && (map->revoked || map->state != MAP_OPEN))
			map = NULL;
		if (map)
			map->uses++;
		link_unlock_only(&peer->link);
		if (map)
			recent->at[id % RECENT] = stage->maps[stage->nmaps++] = map;
	}
	if (!map || offset > map->length || length > map->length - offset)
		return NULL;
	return map;
}

static tcpx_status reference_add_source(struct engine_stage *stage, struct target *to,
					struct engine_map *map, uint64_t offset, uint64_t length)
{
	tcpx_status status = TCPX_OK;

	while (length && status == TCPX_OK) {
		uint64_t take;

		if (!to->left)
			target_next(to);
		if (!to->region->kind->move)
			return TCPX_ERR_REMOTE;
		take = to->left < length ? to->left : length;
		status = copies_move(&stage->copies, to->region, to->offset, take, map->mapping,
				     offset);
		to->offset += take;
		to->left -= take;
		offset += take;
		length -= take;
	}
	return status;
}

static tcpx_status reference_add_sources(struct engine_chan *chan, struct engine_stage *stage,
					 const struct core_segs *segs, const uint8_t *sources,
					 uint32_t bytes)
{
	struct target to = {.rx = &chan->rx, .segs = segs};
	struct recent_maps recent = {{NULL}};
	struct wire_table_reader reader;
	uint64_t id, offset, length;
	tcpx_status status = TCPX_OK;

	if (segs)
		to.at = core_cursor_at(segs, chan->rx.core.linear);
	wire_table_open(&reader, sources, bytes);
	while (status == TCPX_OK && wire_table_next(&reader, &id, &offset, &length) > 0) {
		struct engine_map *map = map_use(chan->peer, stage, &recent, id, offset, length);

		status = map ? reference_add_source(stage, &to, map, offset, length)
			     : TCPX_ERR_REMOTE;
	}
	return status;
}

static void reference_release(struct engine_stage *stage, bool last)
{
	(void)last;
	while (stage->nmaps)
		share_map_put(stage->maps[--stage->nmaps]);
	free(stage->maps);
	stage->maps = NULL;
}

static tcpx_status reference_receive(struct engine_chan *chan, const struct core_segs *segs,
				     const uint8_t *sources, uint32_t bytes)
{
	struct chan_rx *rx = &chan->rx;
	uint64_t total = rx->frame.payload_bytes;
	uint32_t pieces = count_sources(sources, bytes, total);
	struct engine_stage *stage;
	tcpx_status status = TCPX_ERR_NO_MEMORY;

	if (!pieces)
		return TCPX_ERR_PROTOCOL;
	(void)atomic_load_explicit(&share_gate, memory_order_acquire);
	stage = stage_open(chan->peer, NULL, total);
	if (!stage)
		return TCPX_ERR_NO_MEMORY;
	stage->release = reference_release;
	stage->maps = malloc(pieces * sizeof(*stage->maps));
	if (stage->maps)
		status = copies_init_moves(&stage->copies, pieces + count_targets(rx, segs), false,
					   stage_commit_done);
	if (status == TCPX_OK)
		status = reference_add_sources(chan, stage, segs, sources, bytes);
	if (status != TCPX_OK) {
		stage_close(stage);
		return status;
	}
	rx->stage = stage;
	return TCPX_OK;
}

static void reference_commit(struct engine_chan *chan, struct engine_stage *stage)
{
	(void)chan;
	copies_start(&stage->copies, false, TCPX_OK);
}

static const struct path_extra reference_extra = {
	.prepared = share_ahead,
};

const struct path_ops path_reference = {
	.extra = &reference_extra,
	.core = CORE_PATH_REFERENCE,
	.apart = true,
	.carries = share_carries,
	.serve = share_serve,
	.forget = share_forget,
	.load = reference_load,
	.receive = reference_receive,
	.commit = reference_commit,
};
