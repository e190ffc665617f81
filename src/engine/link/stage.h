/* SPDX-License-Identifier: Apache-2.0 */
/* Staging memory in the data path: copies between slots and regions. A channel fills a slot before
 * a send, or copies a slot to regions after a receive. A slot is the part of a block (block.h) that
 * holds one chunk. */
#ifndef ENGINE_LINK_STAGE_H
#define ENGINE_LINK_STAGE_H

#include "engine/link/block.h"
#include "engine/link/engine.h"

#define STAGE_PIECES_INSIDE 4

/* Consecutive pieces that one memory kind and device copy together. */
struct stage_part {
	struct mem_copy copy;
	const struct mem_kind *kind;
	struct stage_part *next;
};

/* The copies between one slot and pieces of any regions. Or moves: copies without a slot, between
 * regions and memory of another session. */
struct stage_copies {
	uint8_t *slot;
	uint64_t bytes, part_bytes; /* bytes of all parts; of moves: bytes of the last part */
	struct mem_piece *pieces, inside[STAGE_PIECES_INSIDE];
	/* of moves: where each piece is copied from, as an address or as an offset in a mapping */
	uint64_t *sources, sources_inside[STAGE_PIECES_INSIDE];
	uint32_t npieces, cap;
	struct stage_part first, *last;
	struct stage_part *waiting; /* the first part that is not started */
	/* of moves: a part is started as soon as the next part begins */
	bool eager;
	bool lent; /* `pieces` and `sources` belong to the caller */
	/* number of parts under way, plus 1 until copies_start() has started all */
	_Atomic uint32_t left;
	_Atomic int status; /* the first error */
	void (*done)(struct stage_copies *copies, tcpx_status status);
};

/* Prepares copies between `slot` and up to npieces pieces. If it returns TCPX_ERR_NO_MEMORY, the
 * caller may pass that status to copies_start(). */
tcpx_status copies_init(struct stage_copies *copies, uint8_t *slot, uint32_t npieces,
			void (*done)(struct stage_copies *copies, tcpx_status status));
/* Prepares moves: copies between regions and memory of another session, without a slot. If `eager`
 * is true, copies begin while pieces are still added, so the caller may hold no lock. May return
 * TCPX_ERR_NO_MEMORY. */
tcpx_status copies_init_moves(struct stage_copies *copies, uint32_t npieces, bool eager,
			      void (*done)(struct stage_copies *copies, tcpx_status status));
/* Adds a piece for the next `length` bytes of the slot. May return TCPX_ERR_NO_MEMORY. */
tcpx_status copies_add(struct stage_copies *copies, const struct mem_region *region,
		       uint64_t offset, uint64_t length);
/* Adds a move: copies `length` bytes at offset `from` of the mapping, which is another session's
 * memory, to `offset` of the region. May return TCPX_ERR_NO_MEMORY. */
tcpx_status copies_move(struct stage_copies *copies, const struct mem_region *region,
			uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			uint64_t from);
/* Adds a move in the opposite direction of copies_move(): copies `length` bytes at `offset` of the
 * region to offset `to` of the mapping. copies_mapped() must be true. May return
 * TCPX_ERR_NO_MEMORY. */
tcpx_status copies_move_out(struct stage_copies *copies, const struct mem_region *region,
			    uint64_t offset, uint64_t length, struct mem_mapping *mapping,
			    uint64_t to);
/* Adds all moves, by the device of the region: from sources[i], an address, to pieces[i]. `within`
 * is 1 if one may be within memory of the device. Starts all but the last part, so the caller holds
 * no lock. The arrays must stay until done() is called. May return TCPX_ERR_NO_MEMORY. */
tcpx_status copies_move_list(struct stage_copies *copies, const struct mem_region *region,
			     int within, struct mem_piece *pieces, uint64_t *sources,
			     uint32_t npieces);
/* Returns whether the region's device can access the mapping already. May be called by any
 * thread. */
bool copies_mapped(const struct mem_region *region, const struct mem_mapping *mapping);
/* Adds the `bytes` bytes that begin at `at` in the local side of a segment list. May return
 * TCPX_ERR_NO_MEMORY. */
tcpx_status copies_add_local(struct stage_copies *copies, const struct core_segs *segs,
			     struct core_cursor at, uint64_t bytes);
/* Returns the first staged region among the regions of `pieces` pieces, from `at` on; or the first
 * of these regions if none is staged. The memory kind of the returned region decides from which
 * pool the slot is taken. */
const struct mem_region *copies_staged_in(const struct core_segs *segs, struct core_cursor at,
					  uint32_t pieces);
/* Starts all parts that are not started. If `to_slot` is true, the pieces are copied to the slot,
 * otherwise the slot to the pieces; moves ignore `to_slot`. If `status` is an error, no further
 * part is started. done() runs once, when all started parts have ended, maybe before this function
 * returns. It gets the first error, of the copies or `status`, or TCPX_OK. The caller holds no
 * lock. */
void copies_start(struct stage_copies *copies, bool to_slot, tcpx_status status);
void copies_free(struct stage_copies *copies);
/* Called by a done() function, with no lock held. Runs the link's deferred work, which wakes other
 * threads, after the last copy of the batch. */
void copies_wake_later(struct engine_peer *peer);

struct comms_job;

struct engine_stage {
	struct stage_copies copies;
	struct stage_block *block;
	uint64_t bytes;
	struct engine_peer *peer;
	/* if a channel fills the slot: the channel to kick when the copy has ended */
	struct engine_chan *chan;
	uint32_t channel, epoch;
	uint64_t seq, xfer_id;
	/* the RECV of an eager SEND, or a request that this end copies itself (path/direct.h); or
	 * NULL */
	struct engine_request *whole;
	/* Adds the copies before they are started. May be NULL. Called with no lock held. */
	tcpx_status (*build)(struct engine_stage *stage);
	/* regions with an io reference each, which is released when the copies have ended */
	struct chan_held *held;
	uint32_t nheld;
	struct comms_job *job;	  /* set if the payload is a message that arrives in pieces */
	struct engine_map **maps; /* of moves: the mappings that are used */
	uint32_t nmaps;
	/* Releases `job` and `maps`. May be NULL. Called with no lock held when the copies have
	 * ended, and again with `last` true when the stage is freed. */
	void (*release)(struct engine_stage *stage, bool last);
	_Atomic uint32_t refs;
	struct list_node node; /* entry in link.prefill.deliveries */
	/* under link.lock: takes over the frame if its channel ends before the copy */
	struct core_io orphan;
};

/* Makes a stage with one reference, which takes over `block` (NULL for moves). Returns NULL if
 * there is no memory. */
struct engine_stage *stage_open(struct engine_peer *peer, struct stage_block *block,
				uint64_t bytes);
void stage_close(struct engine_stage *stage); /* drops a reference; no lock may be held */
/* Frees a stage that has no block and whose copies were not prepared. The caller holds a reference
 * to the peer. */
void stage_forget(struct engine_stage *stage);

/* Called when the slot has received its payload. Prepares the copy to the destination, which begins
 * after core_rx_end() and whose end is reported to the core. Returns TCPX_IN_PROGRESS, the verdict
 * that the caller passes to core_rx_end(). */
tcpx_status stage_commit(struct engine_chan *chan);
/* The done() function of copies to a destination: reports to the core that they have ended. */
void stage_commit_done(struct stage_copies *copies, tcpx_status status);
/* First step of the delivery of an eager SEND to a RECV with staged memory: copies the bytes into a
 * slot. Called under link.lock. Returns TCPX_IN_PROGRESS or an error. */
tcpx_status stage_deliver(struct engine_peer *peer, struct engine_request *recv, const void *data,
			  uint64_t bytes);
/* Called with no lock held. Starts the copies of a stage that prefill_defer() deferred; after
 * stage_deliver() these copy the slot to the RECV's memory. If `status` is an error, copies nothing
 * and only reports the error. */
void stage_deliver_start(struct engine_stage *stage, tcpx_status status);
/* Called by the control thread. If staging memory was returned, offers it to the peers that wait
 * for some. */
void stage_offer(struct engine_session *session);

#endif
