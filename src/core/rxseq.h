/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequences of frames that arrive on a channel in one epoch: which are begun, applied,
 * acknowledged, refused. Staged chunks may be applied out of order, so one bit per ring place
 * records those after a gap. This code decides which acknowledgement or refusal (NACK) is next; the
 * caller sends it.
 *
 * Invariants
 *   acked <= applied <= begun <= applied + CORE_RING
 *   an acknowledgement does not go past the first refusal that was not sent; so when it arrives,
 *   the peer knows which of the acknowledged chunks were refused
 *   refusals are sent in the order of their sequences, each when all frames before it are applied
 */
#ifndef CORE_RXSEQ_H
#define CORE_RXSEQ_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_RING 512	    /* most unacknowledged frames of a channel, in each direction */
#define CORE_NACKS_MAX 4096 /* most refused chunks that a channel remembers */

/* A refused chunk, remembered until the peer has acknowledged its NACK. */
struct core_nack {
	uint64_t seq, xfer;
	int32_t status;
	bool sent;
};

struct core_rxseq {
	uint64_t begun;	  /* the last sequence that began to arrive */
	uint64_t applied; /* all sequences up to this one are applied, refused or aborted */
	/* one bit for each finished sequence after `applied`; the bit's number is the sequence %
	 * CORE_RING */
	uint64_t done[CORE_RING / 64];
	/* of the frames that asked for an ACK: sequence of the oldest one that is not acknowledged
	 * (or a lower bound of it), and of the latest one */
	uint64_t ask_first, ask_last;
	uint64_t acked;		 /* the last ACK acknowledged all sequences up to this one */
	bool ack_due;		 /* an ACK must be sent */
	struct core_nack *nacks; /* unordered; the caller allocates the array */
	uint32_t nnacks, cap_nacks, unsent; /* unsent: number of refusals without a sent NACK */
};

/* Begins a new epoch of the channel. Keeps the memory for refusals. */
void core_rxseq_open(struct core_rxseq *rx);

/* Whether a frame with this sequence may come now: it must be the next one, and a correct peer must
 * have a place for it in its ring. */
static inline bool core_rxseq_fits(const struct core_rxseq *rx, uint64_t seq)
{
	return seq == rx->begun + 1 && seq <= rx->applied + CORE_RING;
}

static inline void core_rxseq_begin(struct core_rxseq *rx, uint64_t seq)
{
	rx->begun = seq;
}

/* Records that the frame with this sequence asks to be acknowledged as soon as it is applied. */
void core_rxseq_asked(struct core_rxseq *rx, uint64_t seq);

/* Whether the sequence is finished: applied, refused or aborted. A staged chunk is finished only
 * when its copy to the destination has ended. */
static inline bool core_rxseq_through(const struct core_rxseq *rx, uint64_t seq)
{
	return seq <= rx->applied || rx->done[seq % CORE_RING / 64] & 1ull << (seq % 64);
}

/* Records that the sequence is finished. Sequences may finish in any order. Returns true if the
 * channel may have an acknowledgement or a refusal to send. */
bool core_rxseq_apply(struct core_rxseq *rx, uint64_t seq);

/* Returns how many entries the array of refusals must have before core_rxseq_refuse() is called, or
 * 0 if the array has room for one more. */
uint32_t core_rxseq_nacks_wanted(const struct core_rxseq *rx);

/* Moves the refusals to the array `more` of `cap` entries. Returns the old array, which the caller
 * frees, or NULL. */
struct core_nack *core_rxseq_nacks_move(struct core_rxseq *rx, struct core_nack *more,
					uint32_t cap);

/* Records that the chunk is refused. core_rxseq_nacks_wanted() must be 0, and core_rxseq_apply()
 * must follow. */
void core_rxseq_refuse(struct core_rxseq *rx, uint64_t seq, uint64_t xfer, int32_t status);

/* Returns the refusal to send now, which then counts as sent, or NULL if none may be sent now. */
const struct core_nack *core_rxseq_nack_next(struct core_rxseq *rx);

/* Called when the peer has acknowledged the NACK for `seq`, so that a fence need not repeat it. */
void core_rxseq_nack_forget(struct core_rxseq *rx, uint64_t seq);

/* Finds the acknowledgement to send. Returns false if none is due, or if a refusal must be sent
 * first. `busy`: the transport is still receiving the last frame. Sequences up to *out_applied are
 * applied or refused; frames up to *out_taken were taken out of the transport. */
bool core_rxseq_ack_next(struct core_rxseq *rx, bool busy, uint64_t *out_applied,
			 uint64_t *out_taken);

#endif
