/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory at the destination: requests of the sender and grants of the receiver, one struct
 * for each side. The sender tells what it requested, what of it it withdrew, and which grants it
 * gives back unused, as three sums that only grow (STAGE_REQ); the receiver answers with the sum of
 * its grants (CREDIT). So a lost frame costs nothing. Neither struct knows a link or a pool: the
 * caller takes from the pool, gives back to it, and sends a frame when one is due.
 *
 * Invariants
 *   used <= granted         both sides; grants that were given back count as used
 *   withdrawn <= requested  a request is withdrawn at most once
 *   granted <= requested - withdrawn + ahead
 *                           sender, after each trim: it keeps no more grants than its requests
 *                           need, and what the peer lets it keep ahead of them
 */
#ifndef CORE_STAGE_QUOTA_H
#define CORE_STAGE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

/* The sender of staged bytes. */
struct core_stage_out {
	/* sums that a STAGE_REQ frame tells; dropped: grants that were given back unused */
	uint64_t requested, withdrawn, dropped;
	uint64_t granted, used;
	uint64_t ahead; /* how many bytes of grants the peer lets us keep without a request */
	bool due;	/* a STAGE_REQ frame must be sent */
};

static inline uint64_t core_stage_out_left(const struct core_stage_out *out)
{
	return out->granted - out->used;
}

/* `bytes` more will be sent. True if a STAGE_REQ frame is due for them. */
bool core_stage_out_request(struct core_stage_out *out, uint64_t bytes);

/* `bytes` that were requested will not be sent. */
void core_stage_out_withdraw(struct core_stage_out *out, uint64_t bytes);

/* A CREDIT frame arrived: the peer has granted `granted` bytes since the link began, and lets us
 * keep `ahead` of them without a request. Returns how many more are granted than before; 0: the
 * frame is an old one. Grants beyond all requests are given back, which makes a STAGE_REQ frame
 * due. */
uint64_t core_stage_out_grant(struct core_stage_out *out, uint64_t granted, uint64_t ahead);

/* A frame with `bytes` of payload is cut; core_stage_out_left() must allow it. */
void core_stage_out_use(struct core_stage_out *out, uint64_t bytes);

/* A frame with `bytes` of payload never arrived: its grant is given back. again: the bytes will be
 * sent again, so staging for them is requested again. */
void core_stage_out_lost(struct core_stage_out *out, uint64_t bytes, bool again);

/* Fills in a STAGE_REQ frame. False: none is due. */
bool core_stage_out_next(struct core_stage_out *out, struct frame *frame);

/* A STAGE_REQ frame may have been lost: makes one due again, if one was ever sent. */
void core_stage_out_repeat(struct core_stage_out *out);

/* The receiver of staged bytes. */
struct core_stage_in {
	/* the sums that the peer's last STAGE_REQ frame told */
	uint64_t requested, withdrawn, dropped;
	uint64_t granted, used;
	uint64_t ahead;	     /* how many bytes of grants the peer may keep without a request */
	uint64_t advertised; /* how much of the grants a CREDIT frame has told the peer */
	bool asked;	     /* ops->stage_ahead() was called */
	bool due;	     /* a CREDIT frame must be sent */
	/* the pool had less than was wanted for grants, or for READs of this side */
	bool waiting;
};

/* A STAGE_REQ frame arrived. False, with nothing changed: it is older than one before it, or its
 * sums are impossible. *out_back: how much of its grants the peer gives back, for the pool. */
bool core_stage_in_requested(struct core_stage_in *in, const struct frame *frame,
			     uint64_t *out_back);

/* How much is requested, or may be kept ahead, and is not granted yet. */
uint64_t core_stage_in_missing(const struct core_stage_in *in);

/* `bytes` of the pool are granted to the peer: a CREDIT frame is due. */
void core_stage_in_grant(struct core_stage_in *in, uint64_t bytes);

/* A staged frame begins to arrive. False if the peer has no grant for it. */
bool core_stage_in_arrive(struct core_stage_in *in, uint64_t bytes);

/* The frame was lost half-way: undoes core_stage_in_arrive(), which is called again when the frame
 * is sent again. */
void core_stage_in_undo(struct core_stage_in *in, uint64_t bytes);

/* The grants that the peer has and has not used. */
static inline uint64_t core_stage_in_left(const struct core_stage_in *in)
{
	return in->granted - in->used;
}

/* The link has ended: returns the grants that the peer did not use, for the pool. */
uint64_t core_stage_in_close(struct core_stage_in *in);

/* Returns the sum of all grants for a CREDIT frame, which is no longer due. *out_ahead: the value
 * of `ahead` for the frame. */
uint64_t core_stage_in_advertise(struct core_stage_in *in, uint64_t *out_ahead);

/* A CREDIT frame may have been lost: makes one due again, if one was ever sent. */
void core_stage_in_readvertise(struct core_stage_in *in);

#endif
