/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which notifications may leave: as many as the receiver's account covers
 * (docs/design/core.md, "Cover"). Positions are sums of costs since the link began: what the sender
 * has paid for (`sent`), what it has paid for or queued (`queued`), and how far it may go (first
 * window plus `granted_out`).
 */
#include "core/link_priv.h"

#define PAID_AT_ONCE 16

static uint64_t note_cost(const struct core_note *note)
{
	return note->bytes + CORE_NOTE_COST;
}

void core_cover_init(struct core_link *link)
{
	const struct core_config *cfg = &link->cfg;
	struct core_cover *cover = &link->cover;

	list_init(&cover->unpaid);
	cover->first_out = cfg->credit_out[FRAME_CREDIT_NOTIFY];
	if (cfg->cover_out && cfg->cover_out < cover->first_out)
		cover->first_out = cfg->cover_out;
	cover->first = cfg->credit_in[FRAME_CREDIT_NOTIFY];
	if (cfg->cover_in && cfg->cover_in < cover->first)
		cover->first = cfg->cover_in;
}

/* --- the sender --- */

/* Whether the cover that is left is enough for the notification. */
static bool note_affordable(const struct core_cover *cover, const struct core_note *note)
{
	return cover->first_out + cover->granted_out - cover->sent >= note_cost(note);
}

/* Pays for the notification if there is cover for it and no other notification waits for cover.
 * Returns true if the notification is paid for, by this or an earlier call, and may leave. Returns
 * false if it must wait. */
bool core_cover_acquire(struct core_link *link, struct core_note *note)
{
	struct core_cover *cover = &link->cover;

	if (note->paid)
		return true;
	if (!list_empty(&cover->unpaid) || !note_affordable(cover, note))
		return false;
	note->paid = true;
	cover->sent += note_cost(note);
	cover->queued += note_cost(note);
	return true;
}

/* Queues the notification until there is cover for it, in the order of the calls of
 * core_note_start(). A later, smaller notification may not overtake it: otherwise a large one might
 * never leave. */
void core_cover_wait(struct core_link *link, struct core_note *note)
{
	struct core_cover *cover = &link->cover;

	cover->queued += note_cost(note);
	list_push_back(&cover->unpaid, &note->unpaid);
	if (cover->request_open)
		/* A request is under way. If its answer is not enough, core_cover_more() makes the
		 * next request due, for all notifications that wait by then. */
		return;
	cover->request_due = true;
	core_kick_small(link);
}

/* Called when a notification is dropped. If it was paid for, takes back its cover. */
void core_cover_refund(struct core_link *link, struct core_note *note)
{
	if (!note->paid)
		return;
	note->paid = false;
	link->cover.sent -= note_cost(note);
	link->cover.queued -= note_cost(note);
}

/* Pays for at most PAID_AT_ONCE notifications that wait, and queues them to be sent. Called with
 * each grant and before each frame. To pay for thousands at once would hold the link's lock for too
 * long. */
void core_cover_more(struct core_link *link)
{
	struct core_cover *cover = &link->cover;

	for (uint32_t i = 0; i < PAID_AT_ONCE && !list_empty(&cover->unpaid); i++) {
		struct core_note *note = LIST_ENTRY(cover->unpaid.next, struct core_note, unpaid);

		if (!note_affordable(cover, note)) {
			if (cover->request_open)
				return;
			/* the next request names the need of this notification, which is the first
			 * one in the queue */
			cover->request_due = true;
			core_kick_small(link);
			return;
		}
		list_remove(&note->unpaid);
		note->paid = true;
		cover->sent += note_cost(note);
		core_job_queue(link, &note->job);
	}
}

/* Called when a CREDIT frame arrives. `granted` is the sum of cover that the peer has granted
 * beyond the first window since the link began. Pays for notifications that wait. Ignores a value
 * that is not above the last one, or that is impossibly large. */
void core_cover_granted(struct core_link *link, uint64_t granted)
{
	if (granted <= link->cover.granted_out || granted > UINT64_MAX / 4)
		return;
	link->cover.granted_out = granted;
	link->cover.request_open = false;
	core_cover_more(link);
}

/* Returns how much cover to request beyond what the queued notifications need. If the receiver's
 * account has enough, a later notification then need not wait for an answer. */
static uint64_t cover_request_ahead(const struct core_link *link)
{
	uint64_t most = CORE_COVER_AHEAD * link->cover.first_out;
	uint64_t room = link->credit[FRAME_CREDIT_NOTIFY].limit - link->cover.queued;

	return most < room ? most : room;
}

/* Fills in the frame that requests cover. Returns false if no request is due, or if no notification
 * waits for cover. */
bool core_cover_request_next(struct core_link *link, struct frame *frame)
{
	struct core_cover *cover = &link->cover;

	if (cover->request_due && !list_empty(&cover->unpaid)) {
		const struct core_note *first =
			LIST_ENTRY(cover->unpaid.next, struct core_note, unpaid);

		cover->request_due = false;
		cover->request_open = true;
		frame->type = FRAME_CREDIT;
		frame->key = FRAME_CREDIT_COVER;
		frame->linear = cover->queued + cover_request_ahead(link);
		frame->offset = cover->sent + note_cost(first);
		return true;
	}
	return false;
}

/* --- the receiver --- */

/* Returns what the account has set aside for the peer: for notifications that may still come, that
 * are arriving, or that the application holds. */
static uint64_t cover_reserved(const struct core_link *link)
{
	return link->cover.first + link->cover.granted - link->credit[FRAME_CREDIT_NOTIFY].given;
}

uint64_t core_note_pending(const struct core_link *link)
{
	uint64_t held = cover_reserved(link) - link->cover.out;

	return held > link->cover.first ? held - link->cover.first : 0;
}

static void cover_credit_due(struct core_link *link)
{
	link->credit[FRAME_CREDIT_NOTIFY].due = true;
	core_kick_small(link);
}

/* Makes a CREDIT frame due for grants that were not announced to the peer, if they are worth a
 * frame: if they are at least an eighth of the first window, if the peer has less announced cover
 * left than that eighth, or if the peer has requested more than was announced. */
static void cover_grants_due(struct core_link *link)
{
	const struct core_cover *cover = &link->cover;
	uint64_t untold = cover->granted - cover->advertised;
	uint64_t left = cover->first + cover->advertised - link->credit[FRAME_CREDIT_NOTIFY].taken;

	if (untold && (left < cover->first / 8 || untold >= cover->first / 8 ||
		       cover->requested > cover->first + cover->advertised))
		cover_credit_due(link);
}

/* Returns the sum of grants to put into a CREDIT frame, and records that the frame announces it. */
uint64_t core_cover_advertise(struct core_link *link)
{
	link->cover.advertised = link->cover.granted;
	return link->cover.advertised;
}

/* Called when a notification that costs `amount` begins to arrive. Charges the peer for it. Returns
 * false if the peer has no cover or no credit for it. */
bool core_cover_charge(struct core_link *link, uint64_t amount)
{
	const struct core_cover *cover = &link->cover;

	if (cover->first + cover->granted - link->credit[FRAME_CREDIT_NOTIFY].taken < amount ||
	    !core_link_charge(link, FRAME_CREDIT_NOTIFY, amount))
		return false;
	cover_grants_due(link);
	return true;
}

/* Gives the spare cover (`cover.spare`) back to the session's account. */
static void cover_spare_return(struct core_link *link)
{
	uint64_t spare = link->cover.spare;

	link->cover.spare = 0;
	if (spare)
		link->cfg.ops->note_give(link->cfg.arg, spare);
}

/* Grants the cover that the peer requested, from the spare cover if that is enough, otherwise from
 * the account. If the account does not give all of it, grants only what the peer needs to send its
 * next notification (at least 1 byte), or nothing. The peer uses that amount at once, so no peer
 * keeps cover unused that other peers wait for. */
void core_note_more(struct core_link *link)
{
	struct core_cover *cover = &link->cover;
	uint64_t upto = cover->first + cover->granted, got;

	if (link->dead || cover->requested <= upto)
		return;
	if (cover->spare >= cover->requested - upto) {
		cover->spare -= cover->requested - upto;
		cover->granted = cover->requested - cover->first;
		cover_credit_due(link);
		return;
	}
	cover_spare_return(link);
	got = link->cfg.ops->note_take(link->cfg.arg, cover->requested - upto,
				       cover->least > upto ? cover->least - upto : 1);
	cover->granted += got;
	if (got)
		cover_credit_due(link);
}

/* Called when the peer requests cover. The peer wants cover up to the position frame->linear, and
 * needs it up to frame->offset to send its next notification. */
void core_cover_requested(struct core_link *link, const struct frame *frame)
{
	struct core_cover *cover = &link->cover;
	uint64_t most =
		link->cfg.credit_in[FRAME_CREDIT_NOTIFY] + link->credit[FRAME_CREDIT_NOTIFY].given;

	if (frame->linear > most || frame->offset > frame->linear)
		/* impossible: beyond the notification budget, or more is needed than wanted */
		return;
	/* Keeps the larger value of each position: an older frame may arrive after a newer one, and
	 * a peer that has cancelled transfers may ask for less. */
	if (frame->linear > cover->requested)
		cover->requested = frame->linear;
	if (frame->offset > cover->least)
		cover->least = frame->offset;
	core_note_more(link);
	cover_grants_due(link);
}

/* Called when a notification that costs `amount` goes to the application. */
void core_cover_published(struct core_link *link, uint64_t amount)
{
	link->cover.out += amount;
}

/* Called when the application has released a notification that costs `amount`, or when one that had
 * arrived was dropped. Grants the peer cover again, up to its first window. The rest of `amount`
 * goes to the peer's open request, or else to the account, where all peers can use it. */
void core_cover_released(struct core_link *link, uint64_t amount)
{
	struct core_cover *cover = &link->cover;
	uint64_t now = cover_reserved(link), extra = now + amount - cover->first;

	if (now < cover->first)
		cover->granted += cover->first - now;
	cover->spare += extra < amount ? extra : amount;
	core_note_more(link);
	/* While notifications are with the application, small amounts are collected before they go
	 * back to the account, because all peers share the account's lock. */
	if (cover->spare >= cover->first / 4 || !cover->out)
		cover_spare_return(link);
	cover_grants_due(link);
}

/* Called when the link has failed. Gives back to the account what is set aside for the peer. */
void core_cover_end(struct core_link *link)
{
	/* What the application holds stays set aside until the application releases it. */
	link->cfg.ops->note_give(link->cfg.arg,
				 cover_reserved(link) + link->cover.spare - link->cover.out);
	link->cover.spare = 0;
}
