/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One kind of credit of a link, in both directions. All counters are cumulative, so a lost CREDIT
 * frame costs nothing: the next one says the same and more. It knows no link and sends no frame;
 * `due` says that the peer is to be told how much was given.
 *
 * Invariants
 *   used  <= limit       as the sender: what we use is within what the peer gave
 *   taken <= in + given  as the receiver: the peer is refused what it has no credit for
 *   told  <= given       no more is told than was given
 */
#ifndef CORE_CREDIT_H
#define CORE_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

struct core_credit {
	uint64_t out, in;     /* first windows: the peer's hello gave us, ours gave the peer */
	uint64_t used, limit; /* as the sender */
	uint64_t taken;	      /* as the receiver: the peer used */
	uint64_t given;	      /* of it, free again */
	uint64_t told;	      /* of it, told the peer */
	bool due;	      /* the peer is to be told */
	bool prompt; /* a small budget: told at once when nothing is unread of what it paid for */
};

void core_credit_init(struct core_credit *credit, uint64_t out, uint64_t in, bool prompt);

/* The sender. */

/* False: there is not enough, nothing was taken. */
bool core_credit_take(struct core_credit *credit, uint64_t amount);

static inline uint64_t core_credit_left(const struct core_credit *credit)
{
	return credit->limit - credit->used;
}

/* What was taken did not reach the peer, which cannot return it. */
void core_credit_refund(struct core_credit *credit, uint64_t amount);

/* The peer has returned so much in all. False: it says nothing new, or more than was used. */
bool core_credit_returned(struct core_credit *credit, uint64_t total);

/* The receiver. */

/* The peer makes us keep something. False: it has no credit for it. May become due, since the peer
 * runs short: *out_tell says so. */
bool core_credit_pay(struct core_credit *credit, uint64_t amount, bool *out_tell);

/* There was no memory to keep it: the peer sends it again, and pays again. */
void core_credit_unpay(struct core_credit *credit, uint64_t amount);

/* So much is free again; empty: nothing is unread. True: it is due now. */
bool core_credit_give(struct core_credit *credit, uint64_t amount, bool empty);

/* How much the peer has at the receiver: paid for and not given back. */
static inline uint64_t core_credit_held(const struct core_credit *credit)
{
	return credit->taken - credit->given;
}

/* The CREDIT frame's value; no longer due. */
uint64_t core_credit_tell(struct core_credit *credit);

/* A CREDIT frame may have been lost: due again, if one was sent. */
void core_credit_retell(struct core_credit *credit);

#endif
