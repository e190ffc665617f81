/* SPDX-License-Identifier: Apache-2.0 */
/* Staged memory in the data path: copies between slots and regions, slots that a channel fills
 * before it sends, slots that are committed after a receive. */
#ifndef ENGINE_LINK_STAGE_H
#define ENGINE_LINK_STAGE_H

#include "engine/link/block.h"
#include "engine/link/engine.h"

#define STAGE_PIECES_INSIDE 4

/* The copies for one kind and device. */
struct stage_part {
	struct mem_copy copy;
	const struct mem_kind *kind;
	struct stage_part *next;
};

/* The copies between one slot and pieces of any regions. */
struct stage_copies {
	uint8_t *slot;
	uint64_t bytes, part_bytes; /* of all parts, of the last move */
	struct mem_piece *pieces, inside[STAGE_PIECES_INSIDE];
	uint64_t *sources, sources_inside[STAGE_PIECES_INSIDE]; /* of moves */
	uint32_t npieces, cap;
	struct stage_part first, *last;
	struct stage_part *waiting; /* the first one that is not started */
	bool eager;		    /* moves: a part is started when the next one begins */
	_Atomic uint32_t left;
	_Atomic int status;
	void (*done)(struct stage_copies *copies, tcpx_status status);
};

/* Makes room for npieces. ERR_NO_MEMORY, which may be passed to copies_start(). */
tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status));
/* The same for moves, which have no slot. eager: they begin while pieces are still added, so no
 * lock may be held. */
tcpx_status copies_init_moves(struct stage_copies *copies, uint32_t npieces, bool eager,
			      void (*done)(struct stage_copies *copies, tcpx_status status));
/* Adds a piece: the next length bytes of the slot. ERR_NO_MEMORY. */
tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length);
/* Adds a piece that is copied from memory of another session, at from of mapping. ERR_NO_MEMORY. */
tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from);
/* The same the other way round: length bytes at offset of the region are copied to offset to of
 * mapping, which copies_mapped() has found open. ERR_NO_MEMORY. */
tcpx_status copies_move_out(struct stage_copies *copies, const struct mem_region *region,
			    uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			    uint64_t to);
/* Whether the device of the region accesses the mapping already. Any thread. */
bool copies_mapped(const struct mem_region *region, const struct mem_mapping *mapping);
/* Adds the next bytes of the local side of an sg list. ERR_NO_MEMORY. */
tcpx_status copies_add_local(struct stage_copies *copies, const struct core_prog *prog,
			     struct core_cursor at, uint64_t bytes);
/* The region that decides the kind of the slot: the first one among the pieces that is staged. */
const struct mem_region *copies_staged_in(const struct core_prog *prog, struct core_cursor at,
					  uint32_t pieces);
/* Starts what is not started. done runs once, maybe before this returns: with status if that is an
 * error, else with how the copies ended. No lock held. */
void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status);
void copies_free(struct stage_copies *copies);
/* For a done function, with link.lock free: the link's deferred work, which wakes other threads, is
 * run after the last copy of the batch. */
void copies_wake_later(struct engine_peer *peer);

struct comms_job;

struct engine_stage {
	struct stage_copies copies;
	struct stage_block *block;
	uint64_t bytes;
	struct engine_peer *peer;
	struct engine_chan *chan; /* fill: the channel to kick */
	uint32_t channel, epoch;
	uint64_t seq, xfer_id;
	struct engine_request *whole; /* RECV of an eager message, or one that goes direct */
	/* Or NULL: adds the copies, before they are started. No lock held. */
	tcpx_status (*build)(struct engine_stage *stage);
	struct chan_held *held; /* regions, released when the commit has ended */
	uint32_t nheld;
	struct comms_job *job;	  /* the payload is a message in pieces */
	struct engine_map **maps; /* moves: the mappings that they read */
	uint32_t nmaps;
	/* Or NULL. Releases job and maps: when the copies have ended, and with last when the stage
	 * ends. No lock held. */
	void (*release)(struct engine_stage *stage, bool last);
	_Atomic uint32_t refs;
	struct list_node node; /* link.prefill.deliveries */
	struct core_io orphan; /* fill: the frame, if its channel ended meanwhile; link.lock */
};

/* Takes over block, which is NULL for moves. NULL: no memory. */
struct engine_stage *stage_open(struct engine_peer *peer, struct stage_block *block,
				uint64_t bytes);
void stage_close(struct engine_stage *stage); /* drops a reference; no lock held */
/* Frees one that has nothing and was never started. The caller has a reference of the peer. */
void stage_forget(struct engine_stage *stage);

/* The slot is full: prepares its commit, whose end the core learns. TCPX_IN_PROGRESS. */
tcpx_status stage_commit(struct engine_chan *chan);
void stage_commit_done(struct stage_copies *copies, tcpx_status status); /* done of the copies */
/* Delivers an eager message to a RECV with staged memory. link.lock. TCPX_IN_PROGRESS, or an
 * error. */
tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes);
/* Its second part, no lock held: copies the bytes unless status is an error. */
void stage_deliver_start(struct engine_stage *stage, tcpx_status status);
/* Control thread: offers staging memory that was returned to the peers that wait for some. */
void stage_offer(struct engine_session *session);

#endif
