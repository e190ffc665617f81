/* SPDX-License-Identifier: Apache-2.0 */
/* Stages: slots of staging memory that are filled before a send, or copied to their destination
 * after a receive. */
#include "engine/link/stage.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "engine/link/prefill.h"

struct engine_stage *stage_open(struct engine_peer *peer, struct stage_block *block, uint64_t bytes)
{
	struct engine_stage *stage = calloc(1, sizeof(*stage));

	if (!stage)
		return NULL;
	list_init(&stage->node);
	stage->block = block;
	stage->bytes = bytes;
	stage->peer = peer;
	peer_get(peer);
	atomic_store(&stage->refs, 1);
	return stage;
}

/* Frees the stage, but not its block. */
static void stage_free(struct engine_stage *stage)
{
	struct engine_peer *peer = stage->peer;

	for (uint32_t i = 0; i < stage->nheld; i++)
		mem_region_access_end(stage->held[i].region);
	if (stage->release)
		stage->release(stage, true);
	if (stage->chan)
		chan_put(stage->chan);
	copies_free(&stage->copies);
	free(stage->held);
	free(stage);
	peer_put(peer);
}

void stage_forget(struct engine_stage *stage)
{
	struct engine_peer *peer = stage->peer;

	free(stage);
	peer_put(peer);
}

void stage_close(struct engine_stage *stage)
{
	if (atomic_fetch_sub(&stage->refs, 1) != 1)
		return;
	if (stage->block)
		block_put(stage->block);
	stage_free(stage);
}

void stage_commit_done(struct stage_copies *copies, tcpx_status status)
{
	struct engine_stage *stage = LIST_ENTRY(copies, struct engine_stage, copies);
	struct engine_peer *peer = stage->peer;

	while (stage->nheld)
		mem_region_access_end(stage->held[--stage->nheld].region);
	if (stage->release)
		/* before the core reports the end: after the report the peer may free the mapped
		 * memory */
		stage->release(stage, false);
	if (status == TCPX_ERR_INVALID && !stage->whole && !stage->xfer_id)
		/* memory of this side has vanished, which is a remote error for the peer's
		 * request */
		status = TCPX_ERR_REMOTE;
	link_lock(&peer->link);
	if (stage->whole && stage->whole->xfer.op != TCPX_OP_RECV)
		core_xfer_moved(&peer->link.core, &stage->whole->xfer, status);
	else if (stage->whole)
		core_recv_applied(&peer->link.core, &stage->whole->xfer, status);
	else
		core_rx_committed(&peer->link.core, stage->channel, stage->epoch, stage->seq,
				  stage->xfer_id, stage->bytes, stage->block ? stage->bytes : 0,
				  status);
	link_unlock_only(&peer->link);
	copies_wake_later(peer);
	stage_close(stage);
}

tcpx_status stage_commit(struct engine_chan *chan)
{
	struct chan_rx *rx = &chan->rx;
	struct engine_stage *stage = rx->stage;

	stage->channel = chan->index;
	stage->epoch = chan->epoch;
	stage->seq = rx->frame.seq;
	stage->xfer_id = rx->core.kind == CORE_RX_SEGS ? rx->frame.xfer : 0;
	stage->held = rx->held;
	stage->nheld = rx->nheld;
	rx->held = NULL;
	rx->nheld = rx->cap_held = 0;
	/* The core must know of the copy before the copy can end, so the copy begins after
	 * core_rx_end(). */
	rx->commit = stage;
	return TCPX_IN_PROGRESS;
}

void stage_deliver_start(struct engine_stage *stage, tcpx_status status)
{
	if (status == TCPX_OK && stage->build)
		status = stage->build(stage);
	copies_start(&stage->copies, false, status);
}

tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes)
{
	const struct core_segs *segs = &recv->segs;
	struct core_cursor begin = {0}, end = begin;
	struct stage_block *block;
	struct engine_stage *stage;
	const struct mem_region *region;
	uint32_t pieces;
	tcpx_status status = TCPX_ERR_NO_MEMORY;

	core_cursor_advance(segs, &end, bytes, UINT32_MAX, &pieces);
	region = copies_staged_in(segs, begin, pieces);
	block = block_open(peer, region->kind, region->device, MEM_IN, 0, bytes, NULL, BLOCK_ANYHOW,
			   NULL);
	stage = block ? stage_open(peer, block, bytes) : NULL;
	if (stage)
		status = copies_init(&stage->copies, block->addr, pieces, stage_commit_done);
	if (status == TCPX_OK)
		status = copies_add_local(&stage->copies, segs, begin, bytes);
	if (status != TCPX_OK) {
		if (block)
			prefill_spend(peer, block);
		if (stage)
			stage_free(stage);
		return status;
	}
	memcpy(block->addr, data, bytes);
	stage->whole = recv;
	prefill_defer(peer, stage);
	return TCPX_IN_PROGRESS;
}

void stage_offer(struct engine_session *session)
{
	struct engine_peer *peer;
	bool returned;

	pthread_mutex_lock(&session->queue.lock);
	returned = session->staging.returned;
	session->staging.returned = false;
	pthread_mutex_unlock(&session->queue.lock);
	if (!returned)
		return;
	for (peer = session_next_peer(session, NULL); peer;
	     peer = session_next_peer(session, peer)) {
		link_lock(&peer->link);
		if (peer->link.core_ready && !peer->link.core.dead &&
		    core_stage_waits(&peer->link.core))
			core_stage_more(&peer->link.core);
		link_unlock(&peer->link);
	}
}
