/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications leave as far as the receiver's account covers them (docs/design/core.md, "Cover").
 * Positions are sums of costs since the link began: what the sender paid, what it wants, and how
 * far it may go (first + granted).
 */
#include "core/link_priv.h"

#define PAID_AT_ONCE 16

static uint64_t cost(const struct core_note *note)
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

static bool affordable(const struct core_cover *cover, const struct core_note *note)
{
	return cover->first_out + cover->granted_out - cover->sent >= cost(note);
}

/* Pays for one that may leave at once; false: it must wait for its turn. */
bool core_cover_take(struct core_link *link, struct core_note *note)
{
	struct core_cover *cover = &link->cover;

	if (note->paid)
		return true;
	if (!list_empty(&cover->unpaid) || !affordable(cover, note))
		return false;
	note->paid = true;
	cover->sent += cost(note);
	cover->wanted += cost(note);
	return true;
}

/* Waits for its turn: in order, or a large one would never have its, and what was sent after it
 * could not be published. */
void core_cover_wait(struct core_link *link, struct core_note *note)
{
	struct core_cover *cover = &link->cover;

	cover->wanted += cost(note);
	list_push_back(&cover->unpaid, &note->unpaid);
	if (cover->wished)
		return; /* one for all of them, when the last one is answered */
	cover->wish_due = true;
	core_kick_small(link);
}

/* The peer saw nothing of it. */
void core_cover_back(struct core_link *link, struct core_note *note)
{
	if (!note->paid)
		return;
	note->paid = false;
	link->cover.sent -= cost(note);
	link->cover.wanted -= cost(note);
}

/* A few at a time, with the grant and before each frame: thousands under the lock would keep others
 * from it. */
void core_cover_more(struct core_link *link)
{
	struct core_cover *cover = &link->cover;

	for (uint32_t i = 0; i < PAID_AT_ONCE && !list_empty(&cover->unpaid); i++) {
		struct core_note *note = LIST_ENTRY(cover->unpaid.next, struct core_note, unpaid);

		if (!affordable(cover, note)) {
			if (cover->wished)
				return;
			cover->wish_due = true; /* the least that helps is another now */
			core_kick_small(link);
			return;
		}
		list_remove(&note->unpaid);
		note->paid = true;
		cover->sent += cost(note);
		core_job_queue(link, &note->job);
	}
}

/* A CREDIT says how far we may go. */
void core_cover_granted(struct core_link *link, uint64_t granted)
{
	if (granted <= link->cover.granted_out || granted > UINT64_MAX / 4)
		return;
	link->cover.granted_out = granted;
	link->cover.wished = false;
	core_cover_more(link);
}

/* What is sent next does not wait for an answer each time, where the receiver has plenty. */
static uint64_t ahead(const struct core_link *link)
{
	uint64_t most = CORE_COVER_AHEAD * link->cover.first_out;
	uint64_t room = link->credit[FRAME_CREDIT_NOTIFY].limit - link->cover.wanted;

	return most < room ? most : room;
}

/* What is asked for, as a frame. */
bool core_wish_next(struct core_link *link, struct frame *frame)
{
	struct core_cover *cover = &link->cover;

	if (cover->wish_due && !list_empty(&cover->unpaid)) {
		const struct core_note *first =
			LIST_ENTRY(cover->unpaid.next, struct core_note, unpaid);

		cover->wish_due = false;
		cover->wished = true;
		frame->type = FRAME_CREDIT;
		frame->key = FRAME_CREDIT_WISH;
		frame->linear = cover->wanted + ahead(link);
		frame->offset = cover->sent + cost(first);
		return true;
	}
	return false;
}

/* --- the receiver --- */

/* What the account has set aside for the peer: unspent, arriving, or with the application. */
static uint64_t window(const struct core_link *link)
{
	return link->cover.first + link->cover.granted - link->credit[FRAME_CREDIT_NOTIFY].given;
}

uint64_t core_note_held(const struct core_link *link)
{
	uint64_t held = window(link) - link->cover.out;

	return held > link->cover.first ? held - link->cover.first : 0;
}

static void tell(struct core_link *link)
{
	link->credit[FRAME_CREDIT_NOTIFY].due = true;
	core_kick_small(link);
}

/* As core_credit_give: at an eighth, and each byte to one that runs short. */
static void tell_grants(struct core_link *link)
{
	const struct core_cover *cover = &link->cover;
	uint64_t untold = cover->granted - cover->told;
	uint64_t left = cover->first + cover->told - link->credit[FRAME_CREDIT_NOTIFY].taken;

	if (untold && (left < cover->first / 8 || untold >= cover->first / 8 ||
		       cover->asked > cover->first + cover->told))
		tell(link);
}

uint64_t core_cover_tell(struct core_link *link)
{
	link->cover.told = link->cover.granted;
	return link->cover.told;
}

/* One begins to arrive. False: it was not granted. */
bool core_cover_pay(struct core_link *link, uint64_t amount)
{
	const struct core_cover *cover = &link->cover;

	if (cover->first + cover->granted - link->credit[FRAME_CREDIT_NOTIFY].taken < amount ||
	    !core_link_pay(link, FRAME_CREDIT_NOTIFY, amount))
		return false;
	tell_grants(link);
	return true;
}

static void spare_back(struct core_link *link)
{
	uint64_t spare = link->cover.spare;

	link->cover.spare = 0;
	if (spare)
		link->cfg.ops->note_give(link->cfg.arg, spare);
}

/* Grants all that is wanted, or if there is not enough the least that helps: it is spent at once,
 * so that nobody keeps what others wait for. */
void core_note_more(struct core_link *link)
{
	struct core_cover *cover = &link->cover;
	uint64_t upto = cover->first + cover->granted, got;

	if (link->dead || cover->asked <= upto)
		return;
	if (cover->spare >= cover->asked - upto) {
		cover->spare -= cover->asked - upto;
		cover->granted = cover->asked - cover->first;
		tell(link);
		return;
	}
	spare_back(link);
	got = link->cfg.ops->note_take(link->cfg.arg, cover->asked - upto,
				       cover->least > upto ? cover->least - upto : 1);
	cover->granted += got;
	if (got)
		tell(link);
}

/* The peer wants to go up to there, and as far as `least` at least. */
void core_cover_wish(struct core_link *link, const struct frame *frame)
{
	struct core_cover *cover = &link->cover;
	uint64_t most =
		link->cfg.credit_in[FRAME_CREDIT_NOTIFY] + link->credit[FRAME_CREDIT_NOTIFY].given;

	if (frame->linear > most || frame->offset > frame->linear)
		return; /* nobody who keeps to the budget says so */
	/* Each by itself: an older wish may come later, and a cancelled request wants less. */
	if (frame->linear > cover->asked)
		cover->asked = frame->linear;
	if (frame->offset > cover->least)
		cover->least = frame->offset;
	core_note_more(link);
	tell_grants(link);
}

/* The application has it, and gives it back. The share is the peer's again; what goes beyond it is
 * everybody's. */
void core_cover_published(struct core_link *link, uint64_t amount)
{
	link->cover.out += amount;
}

void core_cover_released(struct core_link *link, uint64_t amount)
{
	struct core_cover *cover = &link->cover;
	uint64_t now = window(link), extra = now + amount - cover->first;

	if (now < cover->first)
		cover->granted += cover->first - now;
	cover->spare += extra < amount ? extra : amount;
	core_note_more(link);
	/* Small ones together: a lock that all peers share is not taken for each. */
	if (cover->spare >= cover->first / 4 || !cover->out)
		spare_back(link);
	tell_grants(link);
}

void core_cover_end(struct core_link *link)
{
	/* What the application has stays set aside until it is released. */
	link->cfg.ops->note_give(link->cfg.arg, window(link) + link->cover.spare - link->cover.out);
	link->cover.spare = 0;
}
