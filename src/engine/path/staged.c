/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Payloads in memory that no socket call can access, such as a GPU's. The sender copies them into
 * staging first, and sends them from there. The receiver reads them into staging slots, and copies
 * them to their destination from there.
 */
#include "base/error.h"
#include "engine/link/hold.h"
#include "engine/path/paths.h"
#include "engine/link/prefill.h"
#include "engine/link/stage.h"

static bool staged_sources(const struct core_tx *frame)
{
	return frame->job->fills;
}

static void staged_claim(struct engine_chan *chan)
{
	struct chan_tx *tx = &chan->tx;

	tx->nslices = prefill_claim(&tx->frame, tx->slices, tx->iov);
	tx->held = hold_frame(chan);
}

/* Called when the copy that staged_fill() began has ended. Lets the channel send the frame, which
 * counts as aborted if the copy failed. */
static void staged_fill_done(struct stage_copies *copies, tcpx_status status)
{
	struct engine_stage *stage = LIST_ENTRY(copies, struct engine_stage, copies);
	struct engine_chan *chan = stage->chan;
	struct engine_peer *peer = stage->peer;

	link_lock(&peer->link);
	/* While the channel is sending this frame, chan->tx.orphan is this stage's. A failed
	 * copy left the slot without the payload, so the frame is aborted. */
	if (status != TCPX_OK && chan->tx.orphan == &stage->orphan) {
		chan->tx.aborted = true;
		core_tx_spoiled(&peer->link.core, chan->index, status);
	}
	core_io_drop(&peer->link.core, &stage->orphan);
	atomic_store(&chan->tx.filling, 0);
	link_unlock_only(&peer->link);
	copies_wake_later(peer);
	worker_kick(chan);
	stage_close(stage);
}

/*
 * Begins to copy a chunk's payload into a slot of its own. tx->filling is 1 until the copy has
 * ended. Needed for a chunk that is sent again, because it has no slice any more. The chunks next
 * to it are not copied with it, because they are not likely to be sent again.
 */
static void staged_fill(struct engine_chan *chan)
{
	struct engine_peer *peer = chan->peer;
	struct chan_tx *tx = &chan->tx;
	const struct core_tx *frame = &tx->frame;
	const struct mem_region *region = copies_staged_in(frame->segs, frame->at, frame->pieces);
	uint64_t bytes = frame->frame.payload_bytes;
	struct stage_block *block = block_open(peer, region->kind, region->device, MEM_OUT, 0,
					       bytes, NULL, BLOCK_ANYHOW, NULL);
	struct engine_stage *stage = block ? stage_open(peer, block, bytes) : NULL;
	tcpx_status status;

	if (!stage) {
		if (block)
			block_put(block);
		tx->aborted = true; /* core_tx_spoiled() makes the transfer fail */
		link_lock(&peer->link);
		core_tx_spoiled(&peer->link.core, chan->index, TCPX_ERR_NO_MEMORY);
		link_unlock_only(&peer->link);
		return;
	}
	stage->chan = chan;
	chan_get(chan);
	tx->stage = stage;
	tx->orphan = &stage->orphan;
	tx->iov[0] = (struct iovec){block->addr, bytes};
	tx->niov = 1;
	atomic_fetch_add(&stage->refs, 1);
	atomic_store(&tx->filling, 1);
	status = copies_init(&stage->copies, block->addr, frame->pieces, staged_fill_done);
	if (status == TCPX_OK)
		status = copies_add_local(&stage->copies, frame->segs, frame->at, bytes);
	copies_start(&stage->copies, true, status);
}

static enum path_loaded staged_load(struct engine_chan *chan, bool *out_valid)
{
	struct chan_tx *tx = &chan->tx;

	(void)out_valid;
	path_header(tx, NULL);
	tx->niov = tx->nslices;
	if (tx->nslices)
		return PATH_INLINE;
	staged_fill(chan);
	return PATH_FILLED;
}

static void staged_unload(struct engine_chan *chan)
{
	struct engine_stage *stage = chan->tx.stage;

	chan->tx.stage = NULL;
	chan->tx.orphan = NULL;
	if (stage)
		stage_close(stage);
	while (chan->tx.nslices)
		prefill_put(chan->tx.slices[--chan->tx.nslices]);
}

static bool staged_sinks(const struct engine_chan *chan, const struct core_segs *segs)
{
	const struct chan_rx *rx = &chan->rx;
	struct core_cursor at;
	uint64_t bytes = rx->frame.payload_bytes;
	struct core_piece piece;

	if (segs) {
		at = core_cursor_at(segs, rx->core.linear);
		while (core_piece_next(segs, &at, &bytes, &piece)) {
			const struct mem_region *region = segs->local[piece.seg->local];

			if (region->kind->staged)
				return true;
		}
		return false;
	}
	for (uint32_t i = 0; i < rx->nheld; i++)
		if (rx->held[i].region->kind->staged)
			return true;
	return false;
}

/* Opens a stage with the slot for an arriving payload. `total` is the size of the transfer, as far
 * as it is known. Returns NULL if there is no memory. The slot is released with the stage
 * (stage_close()). */
static struct engine_stage *staged_slot_for(struct engine_chan *chan,
					    const struct mem_region *region, uint64_t total)
{
	struct chan_rx *rx = &chan->rx;
	struct stage_block *block =
		block_land(chan->peer, region->kind, region->device, &rx->frame, total);
	struct engine_stage *stage =
		block ? stage_open(chan->peer, block, rx->frame.payload_bytes) : NULL;

	if (!stage && block)
		block_put(block);
	if (region->kind->rouse)
		/* wakes the device's thread, so that it is awake when the payload has arrived */
		region->kind->rouse(region->device, MEM_CALL_COMMIT);
	return stage;
}

static uint8_t *staged_slot_addr(const struct engine_stage *stage, const struct frame *frame)
{
	return stage->block->addr + (frame->linear - stage->block->linear);
}

/* Lets the payload be received into the stage's slot. If `status` is an error, closes the stage
 * instead. Returns `status`. */
static tcpx_status staged_into_slot(struct chan_rx *rx, struct engine_stage *stage,
				    tcpx_status status)
{
	if (status != TCPX_OK) {
		stage_close(stage);
		return status;
	}
	rx->stage = stage;
	rx->iov[0] = (struct iovec){stage->copies.slot, stage->bytes};
	rx->niov = 1;
	rx->vanishing = false;
	return TCPX_OK;
}

static tcpx_status staged_into_regions(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	const struct mem_region *region = NULL;
	struct engine_stage *stage;
	uint32_t i, k, n = 0;
	tcpx_status status;

	for (i = 0; i < rx->nheld && (!region || !region->kind->staged); i++)
		region = rx->held[i].region;
	stage = staged_slot_for(chan, region,
				rx->frame.linear + rx->frame.payload_bytes + rx->frame.follows);
	if (!stage)
		return TCPX_ERR_NO_MEMORY;
	status = copies_init(&stage->copies, staged_slot_addr(stage, &rx->frame), rx->niov,
			     stage_commit_done);
	for (i = 0; i < rx->nheld; i++) {
		region = rx->held[i].region;
		for (k = 0; k < rx->held[i].pieces && status == TCPX_OK; k++, n++)
			status = copies_add(
				&stage->copies, region,
				(uint64_t)((uint8_t *)rx->iov[n].iov_base - region->base),
				rx->iov[n].iov_len);
	}
	return staged_into_slot(rx, stage, status);
}

static tcpx_status staged_into_segs(struct engine_chan *chan, const struct core_segs *segs)
{
	struct chan_rx *rx = &chan->rx;
	struct core_cursor at = core_cursor_at(segs, rx->core.linear), end = at;
	struct engine_stage *stage;
	uint32_t pieces;
	tcpx_status status;

	(void)core_cursor_advance(segs, &end, rx->frame.payload_bytes, UINT32_MAX, &pieces);
	stage = staged_slot_for(chan, copies_staged_in(segs, at, pieces), segs->total);
	if (!stage)
		return TCPX_ERR_NO_MEMORY;
	status = copies_init(&stage->copies, staged_slot_addr(stage, &rx->frame), pieces,
			     stage_commit_done);
	if (status == TCPX_OK)
		status = copies_add_local(&stage->copies, segs, at, stage->bytes);
	return staged_into_slot(rx, stage, status);
}

static tcpx_status staged_receive(struct engine_chan *chan, const struct core_segs *segs,
				  const uint8_t *sources_at, uint32_t bytes)
{
	const struct frame *frame = &chan->rx.frame;
	bool granted = frame->flags & FRAME_F_STAGED;

	(void)sources_at;
	(void)bytes;
	if (segs)
		return frame->type == FRAME_SDATA && !granted ? TCPX_ERR_PROTOCOL
							      : staged_into_segs(chan, segs);
	/* The region's token says that the memory is staged. A sender without a grant did not know
	 * this, so it did not use that token. */
	return granted ? staged_into_regions(chan) : TCPX_ERR_REMOTE_KEY;
}

static void staged_commit(struct engine_chan *chan, struct engine_stage *stage)
{
	(void)chan;
	copies_start(&stage->copies, false, TCPX_OK);
}

static void staged_stop(struct engine_runtime *runtime)
{
	sys_timer_del(&runtime->loop, &runtime->prefill_timer);
}

static uint8_t staged_token(const struct engine_session *session, const struct mem_region *region)
{
	(void)session;
	return region->kind->staged ? WIRE_TOKEN_STAGED : 0;
}

static const struct path_extra staged_extra = {
	.start = prefill_init,
	.stop = staged_stop,
	.token = staged_token,
	.asked = prefill_asked,
	.fill = prefill_hook_due,
	.fill_drop = prefill_hook_drop,
	.deliver = stage_deliver,
	.flush = prefill_flush,
};

const struct path_ops path_staged = {
	.extra = &staged_extra,
	.core = CORE_PATH_STREAM,
	.sources = staged_sources,
	.claim = staged_claim,
	.load = staged_load,
	.unload = staged_unload,
	.sinks = staged_sinks,
	.receive = staged_receive,
	.commit = staged_commit,
};
