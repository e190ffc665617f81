/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sequences that arrive on a channel in one epoch: begun, applied, acknowledged, refused.
 * Staged chunks are applied out of order, so a bit per ring place remembers those after a gap. It
 * knows no link and no channel: it says which acknowledgement or refusal is next, the caller sends
 * it.
 *
 * Invariants
 *   acked <= applied <= begun <= applied + CORE_RING
 *   an acknowledgement goes up to the first refusal that was not told, not beyond it: so
 *   "acknowledged and not refused" is known to the peer when the acknowledgement arrives
 *   refusals are told in the order of their sequences, each when all before it are applied
 */
#ifndef CORE_RXSEQ_H
#define CORE_RXSEQ_H

#include <stdbool.h>
#include <stdint.h>

#define CORE_RING 512	    /* unacknowledged frames of a channel, in each direction */
#define CORE_NACKS_MAX 4096 /* refused chunks a channel remembers */

/* A refused chunk. Kept until the peer has acknowledged that it knows. */
struct core_nack {
	uint64_t seq, xfer;
	int32_t status;
	bool sent;
};

struct core_rxseq {
	uint64_t begun;		       /* the last one */
	uint64_t applied;	       /* cumulative; applied, refused or aborted */
	uint64_t done[CORE_RING / 64]; /* out of order, by sequence % CORE_RING */
	uint64_t ask_first, ask_last;  /* that asked: the oldest open one, the latest */
	uint64_t acked;		       /* told the peer */
	bool ack_due;
	struct core_nack *nacks; /* in no order; the caller's memory */
	uint32_t nnacks, cap_nacks, untold;
};

/* A new epoch. The memory of the refusals stays. */
void core_rxseq_open(struct core_rxseq *rx);

/* Whether a frame with this sequence may come next: the sender's ring has a place for it. */
static inline bool core_rxseq_fits(const struct core_rxseq *rx, uint64_t seq)
{
	return seq == rx->begun + 1 && seq <= rx->applied + CORE_RING;
}

static inline void core_rxseq_begin(struct core_rxseq *rx, uint64_t seq)
{
	rx->begun = seq;
}

/* The frame asks to be acknowledged as soon as it is applied. */
void core_rxseq_asked(struct core_rxseq *rx, uint64_t seq);

/* Applied, refused or aborted; not one that is being committed. */
static inline bool core_rxseq_through(const struct core_rxseq *rx, uint64_t seq)
{
	return seq <= rx->applied || rx->done[seq % CORE_RING / 64] & 1ull << (seq % 64);
}

/* A sequence is through, in whatever order. True: the channel has something to send. */
bool core_rxseq_apply(struct core_rxseq *rx, uint64_t seq);

/* Entries that core_rxseq_refuse needs memory for; 0: there is room. */
uint32_t core_rxseq_nacks_wanted(const struct core_rxseq *rx);

/* Takes memory of so many entries; returns the old memory, to be freed, or NULL. */
struct core_nack *core_rxseq_nacks_move(struct core_rxseq *rx, struct core_nack *more,
					uint32_t cap);

/* The chunk is refused; core_rxseq_apply follows. There must be room. */
void core_rxseq_refuse(struct core_rxseq *rx, uint64_t seq, uint64_t xfer, int32_t status);

/* The refusal that may be told now, NULL if there is none. It counts as told. */
const struct core_nack *core_rxseq_nack_next(struct core_rxseq *rx);

/* The peer has acknowledged the refusal: a fence need not repeat it. */
void core_rxseq_nack_forget(struct core_rxseq *rx, uint64_t seq);

/* The acknowledgement, if one is due. busy: the last frame begun is still in the transport.
 * *out_applied: cumulative; *out_taken: up to there frames were taken out of the transport. */
bool core_rxseq_ack_next(struct core_rxseq *rx, bool busy, uint64_t *out_applied,
			 uint64_t *out_taken);

#endif
