/* SPDX-License-Identifier: Apache-2.0 */
/* One kind of credit of a link: cumulative counters in both directions. */
#include "core/credit.h"

void core_credit_init(struct core_credit *credit, uint64_t out, uint64_t in, bool prompt)
{
	*credit = (struct core_credit){.out = out, .in = in, .limit = out, .prompt = prompt};
}

bool core_credit_acquire(struct core_credit *credit, uint64_t amount)
{
	if (credit->limit - credit->used < amount)
		return false;
	credit->used += amount;
	return true;
}

void core_credit_refund(struct core_credit *credit, uint64_t amount)
{
	credit->used -= amount;
}

bool core_credit_returned(struct core_credit *credit, uint64_t total)
{
	uint64_t limit = credit->out + total;

	/* ignores an old frame, and an impossible one that returns more than was used */
	if (limit < credit->limit || total > credit->used)
		return false;
	credit->limit = limit;
	return true;
}

/* Whether a CREDIT frame should be sent for the credit that was returned and not announced yet. An
 * eighth of the budget is enough. Any amount is enough if the peer has less than an eighth left,
 * since the application may release nothing more for a long time. */
static bool credit_worth_a_frame(const struct core_credit *credit)
{
	uint64_t untold = credit->given - credit->advertised;
	uint64_t left = credit->in + credit->advertised - credit->taken;

	return untold && (left < credit->in / 8 || untold >= credit->in / 8);
}

bool core_credit_charge(struct core_credit *credit, uint64_t amount, bool *out_due)
{
	if (credit->in + credit->given - credit->taken < amount)
		return false;
	credit->taken += amount;
	/* If the peer has little credit left now, a CREDIT frame is due for any credit that was not
	 * announced yet. */
	*out_due = credit_worth_a_frame(credit);
	credit->due |= *out_due;
	return true;
}

void core_credit_uncharge(struct core_credit *credit, uint64_t amount)
{
	credit->taken -= amount;
}

bool core_credit_return(struct core_credit *credit, uint64_t amount, bool empty)
{
	bool due;

	credit->given += amount;
	due = credit_worth_a_frame(credit) || (empty && credit->prompt);
	credit->due |= due;
	return due;
}

uint64_t core_credit_advertise(struct core_credit *credit)
{
	credit->due = false;
	credit->advertised = credit->given;
	return credit->advertised;
}

void core_credit_readvertise(struct core_credit *credit)
{
	credit->due |= credit->advertised > 0;
}
