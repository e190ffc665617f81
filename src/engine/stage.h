/* SPDX-License-Identifier: Apache-2.0 */
/* Staged memory kinds in the data path: slots that are filled before sending, committed after
 * receiving. */
#ifndef ENGINE_STAGE_H
#define ENGINE_STAGE_H

#include "engine/engine.h"

struct engine_stage {
	struct mem_copy copy;
	const struct mem_kind *kind;
	void *slot;
	uint64_t bytes;
	struct engine_peer *peer;
	struct engine_chan *chan; /* fill: to be kicked */
	uint32_t channel, epoch;
	uint64_t seq, xfer_id;
	struct engine_request *recv; /* eager message: whose RECV */
	struct mem_region **held;    /* released when the commit ended */
	uint32_t nheld;
	_Atomic uint32_t refs;
	struct core_io orphan; /* fill: its channel went away meanwhile; peer.lock */
	struct mem_piece pieces[];
};

/* A slot of bytes and room for npieces pieces; NULL without memory. One reference. */
struct engine_stage *stage_open(struct engine_peer *peer, const struct mem_kind *kind,
				uint32_t device, uint64_t bytes, uint32_t npieces);
void stage_close(struct engine_stage *stage); /* drops a reference */

/* tx owner: the frame's payload into a slot; chan->tx.filling until it is there. */
void stage_fill(struct engine_chan *chan);

/* rx owner: the frame's destination pieces are known; makes the slot the destination. pieces NULL:
 * the caller fills rx->stage->pieces. */
tcpx_status stage_receive(struct engine_chan *chan, const struct mem_kind *kind, uint32_t device,
			  const struct mem_piece *pieces, uint32_t npieces, uint64_t bytes);
/* The slot is full: starts the commit, which ends in the core. TCPX_IN_PROGRESS, or an error. */
tcpx_status stage_commit(struct engine_chan *chan);
void stage_commit_start(struct engine_stage *stage);
/* An eager message for a staged RECV. peer.lock. TCPX_IN_PROGRESS, or an error. */
tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes);

#endif
