/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kind of credit of a link, in both directions. All counters are cumulative, so a lost CREDIT
 * frame costs nothing: the next one repeats its value or raises it. The type knows no link and
 * sends no frame; `due` says that a CREDIT frame must be sent.
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
	/* first windows: out: the one that the peer's hello gave us; in: the one that our hello
	 * gave the peer */
	uint64_t out, in;
	uint64_t used, limit; /* sender: sum used, sum that may be used */
	uint64_t taken;	      /* receiver: sum that the peer has used */
	uint64_t given;	      /* receiver: how much of `taken` is free again */
	uint64_t advertised;  /* receiver: how much of `given` the peer was told in CREDIT frames */
	bool due;	      /* a CREDIT frame must be sent */
	/* for small budgets: a CREDIT frame is also due as soon as the application has read
	 * everything */
	bool prompt;
};

void core_credit_init(struct core_credit *credit, uint64_t out, uint64_t in, bool prompt);

/* --- the sender --- */

/* Uses `amount` of the credit. False, with nothing used, if less is left. */
bool core_credit_acquire(struct core_credit *credit, uint64_t amount);

static inline uint64_t core_credit_left(const struct core_credit *credit)
{
	return credit->limit - credit->used;
}

/* Takes back the credit of a frame that did not reach the peer, since the peer cannot return it. */
void core_credit_refund(struct core_credit *credit, uint64_t amount);

/* A CREDIT frame arrived: the peer has returned `total` since the link began. False, with nothing
 * changed, if that is less than before (an old frame) or more than was used. */
bool core_credit_returned(struct core_credit *credit, uint64_t total);

/* --- the receiver --- */

/* A frame begins to arrive that occupies memory until it is consumed. False if the peer has no
 * credit for it. *out_due: whether a CREDIT frame is worth sending now, for example because the
 * peer has little left. */
bool core_credit_charge(struct core_credit *credit, uint64_t amount, bool *out_due);

/* Undoes core_credit_charge(): the frame was lost half-way, and is charged when it is sent
 * again. */
void core_credit_uncharge(struct core_credit *credit, uint64_t amount);

/* Returns `amount` to the peer. empty: the application has read everything that arrived. True: a
 * CREDIT frame is worth sending. */
bool core_credit_return(struct core_credit *credit, uint64_t amount, bool empty);

/* The amount charged and not returned: what the peer's frames occupy. */
static inline uint64_t core_credit_held(const struct core_credit *credit)
{
	return credit->taken - credit->given;
}

/* The sum to put into a CREDIT frame, which is then no longer due. */
uint64_t core_credit_advertise(struct core_credit *credit);

/* A CREDIT frame may have been lost with its channel: makes one due again, if one was ever sent. */
void core_credit_readvertise(struct core_credit *credit);

#endif
