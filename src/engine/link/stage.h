/* SPDX-License-Identifier: Apache-2.0 */
/* Staged memory in the data path: copies between slots and regions, slots that a channel fills for
 * itself before sending, slots that are committed after receiving. */
#ifndef ENGINE_LINK_STAGE_H
#define ENGINE_LINK_STAGE_H

#include "engine/link/block.h"
#include "engine/engine.h"

#define STAGE_PIECES_INSIDE 4

/* What of the copies goes to one kind and device. */
struct stage_part {
	struct mem_copy copy;
	const struct mem_kind *kind;
	struct stage_part *next;
};

/* The copies between one slot and the pieces of a transfer, whatever regions those are of. */
struct stage_copies {
	uint8_t *slot;
	uint64_t bytes, from_end;
	struct mem_piece *pieces, inside[STAGE_PIECES_INSIDE];
	uint32_t npieces, cap;
	struct stage_part first, *last;
	_Atomic uint32_t left;
	_Atomic int status;
	void (*done)(struct stage_copies *copies, tcpx_status status);
};

/* Room for npieces. ERR_NO_MEMORY, which copies_start may be given. */
tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status));
/* The next length bytes of the slot. ERR_NO_MEMORY. */
tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length);
/* The next length bytes come from memory of another session, at from of mapping; the copies have no
 * slot. ERR_NO_MEMORY. */
tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from);
/* The next bytes of the program's local side. ERR_NO_MEMORY. */
tcpx_status copies_add_local(struct stage_copies *copies, const struct core_prog *prog,
			     struct core_cursor at, uint64_t bytes);
/* The region that gives the slot: the first of the pieces that needs one. */
const struct mem_region *copies_staged_in(const struct core_prog *prog, struct core_cursor at,
					  uint32_t pieces);
/* done runs once, maybe before this returns: with status if that is an error, else how the copies
 * ended. No lock held. */
void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status);
void copies_free(struct stage_copies *copies);
/* From done, peer.lock being free: what the core asked for is done behind the last copy that ends
 * with this one. */
void copies_ended(struct engine_peer *peer);

struct comms_job;

struct engine_stage {
	struct stage_copies copies;
	struct stage_block *block;
	uint64_t bytes;
	struct engine_peer *peer;
	struct engine_chan *chan; /* fill: to be kicked */
	uint32_t channel, epoch;
	uint64_t seq, xfer_id;
	struct engine_request *recv; /* eager message: whose RECV */
	struct chan_held *held;	     /* regions, released when the commit ended */
	uint32_t nheld;
	struct comms_job *job;	  /* its bytes are a message in pieces */
	struct engine_map **maps; /* moves: what is read from */
	uint32_t nmaps;
	/* Or NULL: the copies ended; last: the stage ends. Lets go of these. No lock held. */
	void (*release)(struct engine_stage *stage, bool last);
	_Atomic uint32_t refs;
	struct list_node node; /* link.prefill.deliveries */
	struct core_io orphan; /* fill: its channel went away meanwhile; peer.lock */
};

/* Owns block, or NULL: moves have none. NULL: no memory. */
struct engine_stage *stage_open(struct engine_peer *peer, struct stage_block *block,
				uint64_t bytes);
void stage_close(struct engine_stage *stage); /* drops a reference; no lock held */

/* The slot is full: starts the commit, which ends in the core. TCPX_IN_PROGRESS, or an error. */
tcpx_status stage_commit(struct engine_chan *chan);
void stage_commit_done(struct stage_copies *copies, tcpx_status status); /* the copies' end */
/* An eager message for a RECV with staged memory. peer.lock. TCPX_IN_PROGRESS, or an error. */
tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes);
/* The same, no lock held: unless status is an error the bytes are copied. */
void stage_deliver_start(struct engine_stage *stage, tcpx_status status);
/* Control thread: staging memory that came back goes to the peers that wait for some. */
void stage_offer(struct engine_session *session);

#endif
