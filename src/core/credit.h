/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kind of credit of a link, in both directions. All counters are cumulative, so a lost CREDIT
 * frame costs nothing: the next one repeats its value or raises it. The type knows no link and
 * sends no frame; `due` says that a CREDIT frame is to be sent.
 *
 * Invariants
 *   used       <= limit       sender: uses no more than the peer allowed
 *   taken      <= in + given  receiver: keeps no more than it allowed; a frame beyond is refused
 *   advertised <= given       receiver: advertises no more than it returned
 */
#ifndef CORE_CREDIT_H
#define CORE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

struct core_credit {
	uint64_t out, in;     /* first windows: of the peer's hello for us, of ours for the peer */
	uint64_t used, limit; /* sender */
	uint64_t taken;	      /* receiver: what the peer used */
	uint64_t given;	      /* of that, free again */
	uint64_t advertised;  /* of that, in a CREDIT frame */
	bool due;	      /* a CREDIT frame is to be sent */
	bool prompt;	      /* small budget: also due as soon as nothing is unread */
};

void core_credit_init(struct core_credit *credit, uint64_t out, uint64_t in, bool prompt);

/* --- the sender --- */

/* False if too little is left; then nothing was acquired. */
bool core_credit_acquire(struct core_credit *credit, uint64_t amount);

static inline uint64_t core_credit_left(const struct core_credit *credit)
{
	return credit->limit - credit->used;
}

/* The frame that used the credit did not reach the peer, which therefore cannot return it. */
void core_credit_refund(struct core_credit *credit, uint64_t amount);

/* A CREDIT frame: the peer has returned `total` since the link began. False if that is not more
 * than before, or more than was used. */
bool core_credit_returned(struct core_credit *credit, uint64_t total);

/* --- the receiver --- */

/* A frame arrives that is to be kept. False if the peer has no credit for it. *out_due: a CREDIT
 * frame became due, since the peer runs short. */
bool core_credit_charge(struct core_credit *credit, uint64_t amount, bool *out_due);

/* The frame was not kept after all: the peer sends it again and is charged again. */
void core_credit_uncharge(struct core_credit *credit, uint64_t amount);

/* `amount` is free again; empty: nothing is unread. True if a CREDIT frame is due. */
bool core_credit_return(struct core_credit *credit, uint64_t amount, bool empty);

/* What is kept for the peer: charged and not returned. */
static inline uint64_t core_credit_held(const struct core_credit *credit)
{
	return credit->taken - credit->given;
}

/* The value for a CREDIT frame, which is no longer due. */
uint64_t core_credit_advertise(struct core_credit *credit);

/* A CREDIT frame may have been lost: due again, if one was ever sent. */
void core_credit_readvertise(struct core_credit *credit);

#endif
