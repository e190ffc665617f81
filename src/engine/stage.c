/* SPDX-License-Identifier: Apache-2.0 */
/* Slots of staged memory: filled before sending, committed after receiving. */
#include "engine/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/rx_into.h"

struct engine_stage *stage_open(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device, uint64_t bytes, uint32_t npieces)
{
	struct engine_stage *stage = calloc(1, sizeof(*stage) + npieces * sizeof(stage->pieces[0]));

	if (!stage)
		return NULL;
	stage->slot = kind->slot_alloc(bytes, device);
	if (!stage->slot) {
		free(stage);
		return NULL;
	}
	stage->kind = kind;
	stage->bytes = bytes;
	stage->peer = peer;
	atomic_fetch_add(&peer->slot.refs, 1);
	atomic_store(&stage->refs, 1);
	stage->copy.slot = stage->slot;
	stage->copy.pieces = stage->pieces;
	stage->copy.npieces = npieces;
	stage->copy.device = device;
	stage->copy.owner = stage;
	return stage;
}

void stage_close(struct engine_stage *stage)
{
	struct engine_peer *peer = stage->peer;

	if (atomic_fetch_sub(&stage->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < stage->nheld; i++)
		mem_region_access_end(stage->held[i]);
	if (stage->chan)
		chan_put(stage->chan);
	stage->kind->slot_free(stage->slot, stage->bytes, stage->copy.device);
	free(stage->held);
	free(stage);
	peer_put(peer);
}

static void fill_done(struct mem_copy *copy, tcpx_status status)
{
	struct engine_stage *stage = copy->owner;
	struct engine_chan *chan = stage->chan;
	struct engine_peer *peer = stage->peer;

	pthread_mutex_lock(&peer->lock);
	if (status != TCPX_OK && chan->tx.stage == stage) /* the slot must not be taken for data */
		core_tx_spoiled(&peer->core, chan->index, status);
	core_io_drop(&peer->core, &stage->orphan);
	atomic_store(&chan->tx.filling, 0);
	pthread_mutex_unlock(&peer->lock);
	peer_flush_kicks(peer);
	worker_kick(chan);
	stage_close(stage);
}

static const struct mem_region *staged_region(const struct core_tx *frame)
{
	return frame->prog->local[frame->prog->seg[frame->at.seg].local];
}

void stage_fill(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;
	struct core_tx *frame = &tx->frame;
	const struct mem_region *region = staged_region(frame);
	struct core_cursor at = frame->at;
	uint64_t bytes = frame->frame.payload_bytes;
	struct engine_stage *stage;
	uint32_t n = 0;

	stage = stage_open(chan->peer, region->kind, region->device, bytes, frame->pieces);
	if (!stage) {
		tx->aborted = true; /* ends as ABORTED; the transfer is failed below */
		goto fail;
	}
	while (bytes) {
		const struct core_seg *seg = &frame->prog->seg[at.seg];
		uint64_t left = core_seg_length(frame->prog, at.seg) - at.off;
		uint64_t take = left < bytes ? left : bytes;

		region = frame->prog->local[seg->local];
		stage->pieces[n++] =
			(struct mem_piece){region->base + seg->local_off + at.off, take};
		bytes -= take;
		at.seg++;
		at.off = 0;
	}
	stage->copy.npieces = n;
	stage->copy.done = fill_done;
	stage->chan = chan;
	chan_get(chan);
	tx->stage = stage;
	tx->iov[0] = (struct iovec){stage->slot, frame->frame.payload_bytes};
	tx->niov = 1;
	atomic_fetch_add(&stage->refs, 1);
	atomic_store(&tx->filling, 1);
	if (stage->kind->fill(&stage->copy) == TCPX_OK)
		return;
	atomic_store(&tx->filling, 0);
	stage_close(stage);
	tx->aborted = true;
fail:
	pthread_mutex_lock(&chan->peer->lock);
	core_tx_spoiled(&chan->peer->core, chan->index, TCPX_ERR_NO_MEMORY);
	pthread_mutex_unlock(&chan->peer->lock);
}

tcpx_status stage_receive(struct engine_chan *chan, const struct mem_kind *kind, uint32_t device,
			  const struct mem_piece *pieces, uint32_t npieces, uint64_t bytes)
{
	struct chan_rx *rx = &chan->rx;
	struct engine_stage *stage = stage_open(chan->peer, kind, device, bytes, npieces);

	if (!stage)
		return TCPX_ERR_NO_MEMORY;
	if (pieces)
		memcpy(stage->pieces, pieces, npieces * sizeof(*pieces));
	rx->stage = stage;
	rx->iov[0] = (struct iovec){stage->slot, bytes};
	rx->niov = 1;
	return TCPX_OK;
}

static void commit_done(struct mem_copy *copy, tcpx_status status)
{
	struct engine_stage *stage = copy->owner;
	struct engine_peer *peer = stage->peer;

	while (stage->nheld)
		mem_region_access_end(stage->held[--stage->nheld]);
	pthread_mutex_lock(&peer->lock);
	if (stage->recv)
		core_recv_applied(&peer->core, &stage->recv->xfer, status);
	else
		core_rx_committed(&peer->core, stage->channel, stage->epoch, stage->seq,
				  stage->xfer_id, stage->bytes, status);
	pthread_mutex_unlock(&peer->lock);
	peer_flush_kicks(peer);
	stage_close(stage);
}

tcpx_status stage_commit(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	struct engine_stage *stage = rx->stage;

	stage->channel = chan->index;
	stage->epoch = chan->epoch;
	stage->seq = rx->frame.seq;
	stage->xfer_id = rx->core.kind == CORE_RX_PROG ? rx->frame.xfer : 0;
	stage->held = rx->held;
	stage->nheld = rx->nheld;
	rx->held = NULL;
	rx->nheld = rx->cap_held = 0;
	stage->copy.done = commit_done;
	/* The commit may end before core_rx_end said that it is under way: peer.lock is taken by
	 * both, so the engine starts it only behind core_rx_end. */
	rx->commit = stage;
	return TCPX_IN_PROGRESS;
}

/* After core_rx_end(IN_PROGRESS). */
void stage_commit_start(struct engine_stage *stage)
{
	tcpx_status status = stage->kind->commit(&stage->copy);

	if (status != TCPX_OK)
		commit_done(&stage->copy, status);
}

tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes)
{
	const struct core_prog *prog = &recv->prog;
	const struct mem_region *region = prog->local[prog->seg[0].local];
	struct engine_stage *stage;
	uint32_t i, n = 0;
	uint64_t left = bytes;
	tcpx_status status;

	stage = stage_open(peer, region->kind, region->device, bytes, prog->nseg);
	if (!stage)
		return TCPX_ERR_NO_MEMORY;
	memcpy(stage->slot, data, bytes);
	for (i = 0; i < prog->nseg && left; i++) {
		uint64_t take = core_seg_length(prog, i);

		region = prog->local[prog->seg[i].local];
		if (take > left)
			take = left;
		stage->pieces[n++] =
			(struct mem_piece){region->base + prog->seg[i].local_off, take};
		left -= take;
	}
	stage->copy.npieces = n;
	stage->recv = recv;
	stage->copy.done = commit_done;
	status = stage->kind->commit(&stage->copy);
	if (status != TCPX_OK) {
		stage_close(stage);
		return status;
	}
	return TCPX_IN_PROGRESS;
}
