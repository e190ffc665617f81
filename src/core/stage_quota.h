/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging at the destination: the sender's wishes and the receiver's grants, one struct for each
 * side. A sender says how much it wants, no longer wants and gives back unused, in three sums that
 * only grow (STAGE_REQ); the receiver answers with the sum of its grants (CREDIT). So a lost frame
 * costs nothing. Neither struct knows a link or a pool: the caller takes from the pool, gives back
 * to it, and sends a frame when one is due.
 *
 * Invariants
 *   used <= granted             both sides; grants that were given back count as used
 *   unwanted <= wanted          a wish is withdrawn at most once
 *   used <= wanted - unwanted + ahead, at the sender after each trim: of the grants no more is
 *                               kept than the wishes need, and what the peer lets us keep
 */
#ifndef CORE_STAGE_QUOTA_H
#define CORE_STAGE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

/* The sender of staged bytes. */
struct core_stage_out {
	uint64_t wanted, unwanted, dropped; /* asked for; taken back; grants given back */
	uint64_t granted, used;
	uint64_t ahead; /* of what is granted, kept without a wish */
	bool due;	/* the peer is to be told */
};

static inline uint64_t core_stage_out_left(const struct core_stage_out *out)
{
	return out->granted - out->used;
}

/* So many bytes are going to be sent. True: the peer is to be told now. */
bool core_stage_out_want(struct core_stage_out *out, uint64_t bytes);

/* So many that were wanted are not going to be sent. */
void core_stage_out_unwant(struct core_stage_out *out, uint64_t bytes);

/* The peer has granted so much in all, and lets us keep `ahead` of it without a wish. Returns how
 * much more that is; 0: an old word. What is granted beyond all wishes is given back: `due`. */
uint64_t core_stage_out_grant(struct core_stage_out *out, uint64_t granted, uint64_t ahead);

/* A frame of so many bytes is cut: at most core_stage_out_left. */
void core_stage_out_use(struct core_stage_out *out, uint64_t bytes);

/* A frame never arrived: its grant goes back. again: its bytes are wanted again. */
void core_stage_out_lost(struct core_stage_out *out, uint64_t bytes, bool again);

/* The STAGE_REQ frame, if one is due. */
bool core_stage_out_next(struct core_stage_out *out, struct frame *frame);

/* A STAGE_REQ frame may have been lost. */
void core_stage_out_retell(struct core_stage_out *out);

/* The receiver of staged bytes. */
struct core_stage_in {
	uint64_t wanted, unwanted, dropped;
	uint64_t granted, used;
	uint64_t ahead; /* what the peer may keep without a wish */
	uint64_t told;	/* of what is granted */
	bool asked;	/* whether there is room for `ahead` */
	bool due;	/* the peer is to be told of grants */
	bool waiting;	/* the pool had less than was wanted, for grants or for READs */
};

/* The peer's three sums. False: older than what is known. *out_back: grants that it gives back,
 * for the pool. */
bool core_stage_in_request(struct core_stage_in *in, const struct frame *frame, uint64_t *out_back);

/* How much is wanted and not granted. */
uint64_t core_stage_in_missing(const struct core_stage_in *in);

/* So much was taken from the pool for the peer: due. */
void core_stage_in_grant(struct core_stage_in *in, uint64_t bytes);

/* A staged frame begins. False: the peer has no grant for it. */
bool core_stage_in_arrive(struct core_stage_in *in, uint64_t bytes);

/* It is lost half-way and takes its grant again when it comes again. */
void core_stage_in_undo(struct core_stage_in *in, uint64_t bytes);

/* Of the grants, what the peer can still use. */
static inline uint64_t core_stage_in_left(const struct core_stage_in *in)
{
	return in->granted - in->used;
}

/* The link has ended: returns what is to go back to the pool. */
uint64_t core_stage_in_close(struct core_stage_in *in);

/* The CREDIT frame's values; no longer due. */
uint64_t core_stage_in_tell(struct core_stage_in *in, uint64_t *out_ahead);

/* A CREDIT frame may have been lost: due again, if one was sent. */
void core_stage_in_retell(struct core_stage_in *in);

#endif
