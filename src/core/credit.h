/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kind of credit of a link, in both directions. All counters are cumulative, so a lost CREDIT
 * frame costs nothing: the next one repeats its value or raises it. This code sends no frame: `due`
 * tells the caller that a CREDIT frame must be sent.
 *
 * Invariants
 *   used       <= limit       sender: uses no more than the peer allowed
 *   taken      <= in + given  receiver: accepts no more than it allowed, and refuses other frames
 *   advertised <= given       receiver: announces no more than it has returned
 */
#ifndef CORE_CREDIT_H
#define CORE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

struct core_credit {
	/* Initial credit: `out` is what the peer's hello grants to this side, `in` what this side's
	 * hello grants to the peer. */
	uint64_t out, in;
	uint64_t used, limit; /* sender: sum used; sum that may be used */
	uint64_t taken;	      /* receiver: sum that the peer has used */
	uint64_t given;	      /* receiver: how much of `taken` was returned to the peer */
	uint64_t advertised;  /* receiver: how much of `given` was announced in CREDIT frames */
	bool due;	      /* a CREDIT frame must be sent */
	/* Set for small budgets: a CREDIT frame is also due as soon as nothing that the credit was
	 * used for waits on this side. */
	bool prompt;
};

void core_credit_init(struct core_credit *credit, uint64_t out, uint64_t in, bool prompt);

/* --- the sender --- */

/* Uses `amount` of the credit. If less is left, uses nothing and returns false. */
bool core_credit_acquire(struct core_credit *credit, uint64_t amount);

static inline uint64_t core_credit_left(const struct core_credit *credit)
{
	return credit->limit - credit->used;
}

/* Takes back credit whose frame did not reach the peer or was never sent, since the peer cannot
 * return it. */
void core_credit_refund(struct core_credit *credit, uint64_t amount);

/* Called when a CREDIT frame arrives: the peer has returned `total` since the link began. Returns
 * false and changes nothing if `total` is less than before (an old frame) or more than was used. */
bool core_credit_returned(struct core_credit *credit, uint64_t total);

/* --- the receiver --- */

/* Charges the peer for a frame that occupies memory on this side until it is consumed. Returns
 * false if the peer has no credit for the frame. *out_due says whether a CREDIT frame should be
 * sent now, for example because the peer has little credit left. */
bool core_credit_charge(struct core_credit *credit, uint64_t amount, bool *out_due);

/* Undoes core_credit_charge() for a frame that was lost half-way, or for which there was no memory.
 * The frame is charged again when it is sent again. */
void core_credit_uncharge(struct core_credit *credit, uint64_t amount);

/* Gives `amount` of credit back to the peer. `empty`: nothing else that the credit was used for
 * waits on this side. Returns true if a CREDIT frame should be sent. */
bool core_credit_return(struct core_credit *credit, uint64_t amount, bool empty);

/* Returns the amount that was charged and not returned: what the peer's frames occupy. */
static inline uint64_t core_credit_held(const struct core_credit *credit)
{
	return credit->taken - credit->given;
}

/* Returns the sum to put into a CREDIT frame. A CREDIT frame is then no longer due. */
uint64_t core_credit_advertise(struct core_credit *credit);

/* Called when a CREDIT frame may have been lost with its channel. Makes one due again, if one ever
 * announced credit. */
void core_credit_readvertise(struct core_credit *credit);

#endif
