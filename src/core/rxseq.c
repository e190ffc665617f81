/* SPDX-License-Identifier: Apache-2.0 */
/* The sequences that arrive on a channel: which are begun, applied, acknowledged, refused. */
#include "core/rxseq.h"

#include <string.h>

void core_rxseq_open(struct core_rxseq *rx)
{
	*rx = (struct core_rxseq){.nacks = rx->nacks, .cap_nacks = rx->cap_nacks};
}

void core_rxseq_asked(struct core_rxseq *rx, uint64_t seq)
{
	rx->ask_last = seq;
	if (rx->ask_first <= rx->acked)
		rx->ask_first = seq;
}

bool core_rxseq_apply(struct core_rxseq *rx, uint64_t seq)
{
	rx->done[seq % CORE_RING / 64] |= 1ull << (seq % 64);
	while (rx->applied < rx->begun) {
		uint64_t next = rx->applied + 1;
		uint64_t bit = 1ull << (next % 64);

		if (!(rx->done[next % CORE_RING / 64] & bit))
			break;
		rx->done[next % CORE_RING / 64] &= ~bit;
		rx->applied = next;
	}
	/* An acknowledgement is due as soon as the oldest frame that asked for one is applied. To
	 * wait for the latest such frame could take forever: frames may arrive faster than they are
	 * applied. */
	if (rx->ask_first > rx->acked && rx->applied >= rx->ask_first) {
		rx->ack_due = true;
		return true;
	}
	/* a refusal may have waited until all sequences before it were applied */
	return rx->unsent > 0;
}

uint32_t core_rxseq_nacks_wanted(const struct core_rxseq *rx)
{
	if (rx->nnacks < rx->cap_nacks)
		return 0;
	return rx->cap_nacks ? rx->cap_nacks * 2 : 16;
}

struct core_nack *core_rxseq_nacks_move(struct core_rxseq *rx, struct core_nack *more, uint32_t cap)
{
	struct core_nack *old = rx->nacks;

	if (old)
		memcpy(more, old, rx->nnacks * sizeof(*more));
	rx->nacks = more;
	rx->cap_nacks = cap;
	return old;
}

void core_rxseq_refuse(struct core_rxseq *rx, uint64_t seq, uint64_t xfer, int32_t status)
{
	rx->nacks[rx->nnacks++] = (struct core_nack){.seq = seq, .xfer = xfer, .status = status};
	rx->unsent++;
	rx->ack_due = true;
}

/* Returns the oldest refusal that was not sent, if all sequences before it are applied; otherwise
 * NULL. A later refusal must wait: its NACK could take the last free place in this channel's ring
 * of unacknowledged frames, and no ACK may pass the oldest refusal anyway. */
static struct core_nack *rxseq_oldest_nack(struct core_rxseq *rx)
{
	struct core_nack *oldest = NULL;

	for (uint32_t i = 0; i < rx->nnacks; i++) {
		struct core_nack *nack = &rx->nacks[i];

		if (!nack->sent && nack->seq <= rx->applied && (!oldest || nack->seq < oldest->seq))
			oldest = nack;
	}
	return oldest;
}

const struct core_nack *core_rxseq_nack_next(struct core_rxseq *rx)
{
	struct core_nack *nack = rx->unsent ? rxseq_oldest_nack(rx) : NULL;

	if (!nack)
		return NULL;
	nack->sent = true;
	rx->unsent--;
	return nack;
}

void core_rxseq_nack_forget(struct core_rxseq *rx, uint64_t seq)
{
	for (uint32_t i = 0; i < rx->nnacks; i++) {
		if (rx->nacks[i].seq != seq)
			continue;
		rx->nacks[i] = rx->nacks[--rx->nnacks];
		return;
	}
}

/* Returns the sequence up to which frames may be acknowledged: the last applied one, but not past
 * the first refusal that was not sent. If ACKs waited until all refusals are sent, two sides with
 * full rings would wait for each other. */
static uint64_t rxseq_ack_upto(const struct core_rxseq *rx)
{
	uint64_t upto = rx->applied;

	for (uint32_t i = 0; rx->unsent && i < rx->nnacks; i++)
		if (!rx->nacks[i].sent && rx->nacks[i].seq <= upto)
			upto = rx->nacks[i].seq - 1;
	return upto;
}

bool core_rxseq_ack_next(struct core_rxseq *rx, bool busy, uint64_t *out_applied,
			 uint64_t *out_taken)
{
	/* `taken` is too low by one while a frame without a sequence arrives, which is harmless */
	uint64_t upto, taken = rx->begun - busy;

	if (!rx->ack_due)
		return false;
	upto = rxseq_ack_upto(rx);
	if (rx->unsent && upto <= rx->acked)
		return false;
	rx->acked = upto;
	if (rx->ask_first <= upto && rx->ask_last > upto)
		rx->ask_first = upto + 1; /* lower bound: the sequence itself is not stored */
	rx->ack_due = rx->unsent > 0;
	*out_applied = upto;
	*out_taken = taken > upto ? taken : upto;
	return true;
}
