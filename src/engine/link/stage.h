/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory in the data path: copies between slots and regions; slots that a channel fills
 * before it sends; slots that are copied to regions after a receive. A slot is a stretch of
 * pinned host memory for one chunk. */
#ifndef ENGINE_LINK_STAGE_H
#define ENGINE_LINK_STAGE_H

#include "engine/link/block.h"
#include "engine/link/engine.h"

#define STAGE_PIECES_INSIDE 4

/* Copies that one memory kind and device make. */
struct stage_part {
	struct mem_copy copy;
	const struct mem_kind *kind;
	struct stage_part *next;
};

/* The copies between one slot and pieces of any regions; or moves, which have no slot. */
struct stage_copies {
	uint8_t *slot;
	uint64_t bytes, part_bytes; /* bytes of all parts; bytes of the last part of a move */
	struct mem_piece *pieces, inside[STAGE_PIECES_INSIDE];
	/* of moves: where each piece is copied from, as an address or an offset of the mapping */
	uint64_t *sources, sources_inside[STAGE_PIECES_INSIDE];
	uint32_t npieces, cap;
	struct stage_part first, *last;
	struct stage_part *waiting; /* the first part that is not started */
	bool eager;		    /* of moves: a part is started when the next one begins */
	_Atomic uint32_t left; /* parts under way, and 1 until copies_start() has started all */
	_Atomic int status;    /* the first error */
	void (*done)(struct stage_copies *copies, tcpx_status status);
};

/* Prepares copies between `slot` and up to npieces pieces. ERR_NO_MEMORY; the caller may pass it to
 * copies_start() as the status. */
tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status));
/* Prepares moves: copies between regions and memory of another session, without a slot. eager: they
 * begin while pieces are still added, so no lock may be held. ERR_NO_MEMORY. */
tcpx_status copies_init_moves(struct stage_copies *copies, uint32_t npieces, bool eager,
			      void (*done)(struct stage_copies *copies, tcpx_status status));
/* Adds a piece for the next `length` bytes of the slot. ERR_NO_MEMORY. */
tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length);
/* Adds a piece that is copied out of memory of another session, from offset `from` of the
 * mapping. ERR_NO_MEMORY. */
tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from);
/* The opposite direction of copies_move(): copies `length` bytes at `offset` of the region to
 * offset `to` of the mapping, for which copies_mapped() is true. ERR_NO_MEMORY. */
tcpx_status copies_move_out(struct stage_copies *copies, const struct mem_region *region,
			    uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			    uint64_t to);
/* Whether the region's device can access the mapping already. Any thread. */
bool copies_mapped(const struct mem_region *region, const struct mem_mapping *mapping);
/* Adds the next bytes of the local side of an sg list. ERR_NO_MEMORY. */
tcpx_status copies_add_local(struct stage_copies *copies, const struct core_segs *segs,
			     struct core_cursor at, uint64_t bytes);
/* The first staged region among the pieces, or the first one if none is staged. It decides in which
 * kind of memory the slot lies. */
const struct mem_region *copies_staged_in(const struct core_segs *segs, struct core_cursor at,
					  uint32_t pieces);
/* Starts what is not started. to_slot: the pieces are copied to the slot, else the slot to the
 * pieces. done() runs once, maybe before this returns, with `status` if that is an error, else with
 * the result of the copies. No lock held. */
void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status);
void copies_free(struct stage_copies *copies);
/* For a done() function that is called with link.lock free: runs the link's deferred work, which
 * wakes other threads, after the last copy of the batch. */
void copies_wake_later(struct engine_peer *peer);

struct comms_job;

struct engine_stage {
	struct stage_copies copies;
	struct stage_block *block;
	uint64_t bytes;
	struct engine_peer *peer;
	/* of a slot that a channel fills: the channel to kick when the copy has ended */
	struct engine_chan *chan;
	uint32_t channel, epoch;
	uint64_t seq, xfer_id;
	/* the RECV of an eager message, or the request that the engine copies itself */
	struct engine_request *whole;
	/* Adds the copies before they are started; may be NULL. No lock held. */
	tcpx_status (*build)(struct engine_stage *stage);
	/* regions with an io reference each, released when the copies to them have ended */
	struct chan_held *held;
	uint32_t nheld;
	struct comms_job *job;	  /* the payload is a message that arrives in pieces */
	struct engine_map **maps; /* of moves: the mappings that they read */
	uint32_t nmaps;
	/* Releases `job` and `maps`; may be NULL. Called when the copies have ended, and again
	 * with `last` true when the stage ends. No lock held. */
	void (*release)(struct engine_stage *stage, bool last);
	_Atomic uint32_t refs;
	struct list_node node; /* link.prefill.deliveries */
	/* under link.lock: takes over the frame of a fill whose channel ended meanwhile */
	struct core_io orphan;
};

/* Makes a stage, which takes over `block` (NULL for moves). NULL: no memory. */
struct engine_stage *stage_open(struct engine_peer *peer, struct stage_block *block,
				uint64_t bytes);
void stage_close(struct engine_stage *stage); /* drops a reference; no lock may be held */
/* Frees a stage that has no memory and was never started. The caller holds a reference to the
 * peer. */
void stage_forget(struct engine_stage *stage);

/* The slot has received its payload: prepares the copy to the destination, which begins after
 * core_rx_end() and whose end the core is told. Returns TCPX_IN_PROGRESS, for core_rx_end(). */
tcpx_status stage_commit(struct engine_chan *chan);
/* the done() of copies to a destination: tells the core that they ended */
void stage_commit_done(struct stage_copies *copies, tcpx_status status);
/* Delivers an eager SEND to a RECV with staged memory, first part: the bytes are put into a slot.
 * Under link.lock. TCPX_IN_PROGRESS, or an error. */
tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes);
/* The second part, with no lock held: copies the slot to the RECV's memory unless status is an
 * error. */
void stage_deliver_start(struct engine_stage *stage, tcpx_status status);
/* Control thread: offers staging memory that came back to the peers that wait for it. */
void stage_offer(struct engine_session *session);

#endif
