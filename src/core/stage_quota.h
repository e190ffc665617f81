/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staging memory at the destination: requests of the sender and grants of the receiver, one struct
 * for each side. A STAGE_REQ frame has three sums that only grow: bytes requested, requests
 * withdrawn, and grants given back unused. The receiver answers with the sum of its grants
 * (CREDIT). So a lost frame costs nothing. This code has no pool and sends no frame: the caller
 * takes from the pool, gives back to it, and sends a frame when one is due.
 *
 * Invariants
 *   used <= granted         both sides; grants that were given back count as used
 *   withdrawn <= requested  a request is withdrawn at most once
 *   granted <= requested - withdrawn + ahead
 *                           sender, after each trim: it keeps only grants that its requests need
 *                           or that the peer lets it keep ahead of requests
 */
#ifndef CORE_STAGE_QUOTA_H
#define CORE_STAGE_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "base/frame.h"

/* The sender of staged bytes. */
struct core_stage_out {
	/* sums for the STAGE_REQ frame; dropped: grants that were given back unused */
	uint64_t requested, withdrawn, dropped;
	uint64_t granted, used;
	uint64_t ahead; /* bytes of grants that the peer lets us keep without a request */
	bool due;	/* a STAGE_REQ frame must be sent */
};

static inline uint64_t core_stage_out_left(const struct core_stage_out *out)
{
	return out->granted - out->used;
}

/* Requests staging for `bytes` more. Returns true if this makes a STAGE_REQ frame due. */
bool core_stage_out_request(struct core_stage_out *out, uint64_t bytes);

/* Withdraws the request for staging for `bytes`, which will not be sent. */
void core_stage_out_withdraw(struct core_stage_out *out, uint64_t bytes);

/* Called when a CREDIT frame arrives: the peer has granted `granted` bytes since the link began,
 * and lets us keep `ahead` bytes of grants without a request. Returns how many bytes are granted in
 * addition. Returns 0 and changes nothing if there are none. Gives back grants beyond all requests
 * and `ahead`, which makes a STAGE_REQ frame due. */
uint64_t core_stage_out_grant(struct core_stage_out *out, uint64_t granted, uint64_t ahead);

/* Called when a frame with `bytes` of payload is cut. core_stage_out_left() must allow them. */
void core_stage_out_use(struct core_stage_out *out, uint64_t bytes);

/* Called when a frame with `bytes` of payload did not arrive. Gives its grant back. `again`: the
 * bytes will be sent again, so staging for them is requested again. */
void core_stage_out_lost(struct core_stage_out *out, uint64_t bytes, bool again);

/* Fills in a STAGE_REQ frame. Returns false if none is due. */
bool core_stage_out_next(struct core_stage_out *out, struct frame *frame);

/* Called when a STAGE_REQ frame may have been lost. Makes one due again, if one was ever sent. */
void core_stage_out_repeat(struct core_stage_out *out);

/* The receiver of staged bytes. */
struct core_stage_in {
	/* the sums in the peer's last STAGE_REQ frame */
	uint64_t requested, withdrawn, dropped;
	uint64_t granted, used;
	uint64_t ahead;	     /* bytes of grants that the peer may keep without a request */
	uint64_t advertised; /* sum of grants in the last CREDIT frame */
	bool asked;	     /* ops->stage_ahead() was called */
	bool due;	     /* a CREDIT frame must be sent */
	/* the pool had less than was wanted for grants, or for READs of this side */
	bool waiting;
};

/* Called when a STAGE_REQ frame arrives. Returns false and changes nothing if the frame is older
 * than one before it, or if its sums are impossible. *out_back is how many bytes of grants the peer
 * gives back; the caller returns them to the pool. */
bool core_stage_in_requested(struct core_stage_in *in, const struct frame *frame,
			     uint64_t *out_back);

/* Returns how many bytes are still to be granted: for requests, and for what the peer may keep
 * ahead of requests. */
uint64_t core_stage_in_missing(const struct core_stage_in *in);

/* Records that `bytes` of the pool are granted to the peer. A CREDIT frame is then due. */
void core_stage_in_grant(struct core_stage_in *in, uint64_t bytes);

/* Called when a staged frame begins to arrive. Returns false if the peer has no grant for it. */
bool core_stage_in_arrive(struct core_stage_in *in, uint64_t bytes);

/* Undoes core_stage_in_arrive() for a frame that was lost half-way. When the frame is sent again,
 * core_stage_in_arrive() is called again. */
void core_stage_in_undo(struct core_stage_in *in, uint64_t bytes);

/* Returns the bytes of grants that the peer has and has not used. */
static inline uint64_t core_stage_in_left(const struct core_stage_in *in)
{
	return in->granted - in->used;
}

/* Called when the link has ended. Returns the grants that the peer did not use, which the caller
 * gives back to the pool. */
uint64_t core_stage_in_close(struct core_stage_in *in);

/* Returns the sum of all grants to put into a CREDIT frame. *out_ahead is the value of `ahead` for
 * that frame. A CREDIT frame is then no longer due. */
uint64_t core_stage_in_advertise(struct core_stage_in *in, uint64_t *out_ahead);

/* Called when a CREDIT frame may have been lost. Makes one due again, if one was ever sent. */
void core_stage_in_readvertise(struct core_stage_in *in);

#endif
