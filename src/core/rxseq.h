/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequences that arrive on a channel in one epoch: begun, applied, acknowledged, refused.
 * Staged chunks are applied out of order, so one bit per ring place remembers those after a gap.
 * The type knows no link and no channel: it says which acknowledgement or refusal (NACK) is next,
 * and the caller sends it.
 *
 * Invariants
 *   acked <= applied <= begun <= applied + CORE_RING
 *   an acknowledgement does not go past the first refusal that was not sent, so when it arrives
 *   the peer knows which of the acknowledged chunks were refused
 *   refusals are sent in the order of their sequences, each when all before it are applied
 */
#ifndef CORE_RXSEQ_H
#define CORE_RXSEQ_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_RING 512	    /* unacknowledged frames of a channel, in each direction */
#define CORE_NACKS_MAX 4096 /* refused chunks that a channel remembers */

/* A refused chunk, remembered until the peer has acknowledged its NACK. */
struct core_nack {
	uint64_t seq, xfer;
	int32_t status;
	bool sent;
};

struct core_rxseq {
	uint64_t begun;	  /* the last sequence that began to arrive */
	uint64_t applied; /* all sequences up to this one are applied, refused or aborted */
	/* one bit for each finished sequence after `applied`, by sequence % CORE_RING */
	uint64_t done[CORE_RING / 64];
	/* sequences of frames that asked for an ACK: the oldest one not acknowledged; the latest
	 * one */
	uint64_t ask_first, ask_last;
	uint64_t acked;		 /* the last ACK acknowledged the sequences up to this one */
	bool ack_due;		 /* an ACK must be sent */
	struct core_nack *nacks; /* unordered; the memory is the caller's */
	uint32_t nnacks, cap_nacks, unsent; /* unsent: refusals whose NACK was not sent */
};

/* Begins a new epoch of the channel. The memory of the refusals stays. */
void core_rxseq_open(struct core_rxseq *rx);

/* Whether a frame with this sequence may come now: it is the next one, and a correct peer has a
 * place for it in its ring. */
static inline bool core_rxseq_fits(const struct core_rxseq *rx, uint64_t seq)
{
	return seq == rx->begun + 1 && seq <= rx->applied + CORE_RING;
}

static inline void core_rxseq_begin(struct core_rxseq *rx, uint64_t seq)
{
	rx->begun = seq;
}

/* The frame with this sequence asks to be acknowledged as soon as it is applied. */
void core_rxseq_asked(struct core_rxseq *rx, uint64_t seq);

/* Whether the sequence is finished: applied, refused or aborted. A staged chunk is finished only
 * when its copy to the destination has ended. */
static inline bool core_rxseq_through(const struct core_rxseq *rx, uint64_t seq)
{
	return seq <= rx->applied || rx->done[seq % CORE_RING / 64] & 1ull << (seq % 64);
}

/* The sequence is finished; sequences may finish in any order. True if the channel has an
 * acknowledgement or refusal to send. */
bool core_rxseq_apply(struct core_rxseq *rx, uint64_t seq);

/* How many entries the memory of the refusals must have before core_rxseq_refuse(); 0: it has room
 * for one more. */
uint32_t core_rxseq_nacks_wanted(const struct core_rxseq *rx);

/* Moves the refusals to memory of `cap` entries. Returns the old memory, which the caller frees,
 * or NULL. */
struct core_nack *core_rxseq_nacks_move(struct core_rxseq *rx, struct core_nack *more,
					uint32_t cap);

/* The chunk is refused; core_rxseq_apply() follows. core_rxseq_nacks_wanted() must be 0. */
void core_rxseq_refuse(struct core_rxseq *rx, uint64_t seq, uint64_t xfer, int32_t status);

/* The refusal to send now, which then counts as sent; NULL: none. */
const struct core_nack *core_rxseq_nack_next(struct core_rxseq *rx);

/* The peer has acknowledged the NACK for `seq`, so a fence need not repeat the refusal. */
void core_rxseq_nack_forget(struct core_rxseq *rx, uint64_t seq);

/* The acknowledgement to send. False: none is due, or a refusal must be sent before it. busy: the
 * transport still receives the last frame. *out_applied: sequences up to it are applied or
 * refused. *out_taken: frames up to it were taken out of the transport. */
bool core_rxseq_ack_next(struct core_rxseq *rx, bool busy, uint64_t *out_applied,
			 uint64_t *out_taken);

#endif
