/* SPDX-License-Identifier: Apache-2.0 */
/* Credits: cumulative counters in both directions, so that a lost CREDIT frame costs nothing. */
#include "core/link_priv.h"

bool core_credit_take(struct core_link *link, enum frame_credit kind, uint64_t amount)
{
	if (link->limit[kind] - link->used[kind] < amount)
		return false;
	link->used[kind] += amount;
	return true;
}

/* Told at an eighth of the budget, which leaves the sender room for its largest message. A sender
 * that has less than an eighth left is told of every byte: what it waits for may be the last that
 * the application gives back for long. */
static bool worth_telling(const struct core_link *link, enum frame_credit kind)
{
	uint64_t budget = link->cfg.credit_in[kind];
	uint64_t untold = link->given[kind] - link->told[kind];
	uint64_t left = budget + link->told[kind] - link->taken[kind];

	return untold && (left < budget / 8 || untold >= budget / 8);
}

static void tell(struct core_link *link, enum frame_credit kind)
{
	link->credit_due[kind] = true;
	core_kick_small(link);
}

/* empty: nothing is unread. A small budget is then told of at once. */
void core_credit_give(struct core_link *link, enum frame_credit kind, uint64_t amount, bool empty)
{
	uint64_t budget = link->cfg.credit_in[kind];

	link->given[kind] += amount;
	if (worth_telling(link, kind) ||
	    (empty && kind == FRAME_CREDIT_NOTIFY && budget < 2ull * TCPX_NOTIFY_MAX) ||
	    (empty && kind == FRAME_CREDIT_EAGER && budget < 8ull * CORE_SMALL_BYTES))
		tell(link, kind);
}

/* The peer makes us keep something. False: it has no credit for it. */
bool core_credit_pay(struct core_link *link, enum frame_credit kind, uint64_t amount)
{
	if (link->cfg.credit_in[kind] + link->given[kind] - link->taken[kind] < amount)
		return false;
	link->taken[kind] += amount;
	if (worth_telling(link, kind))
		tell(link, kind); /* it runs short: what was kept back for later is due now */
	return true;
}

/* There was no memory to keep it: the peer sends it again, and pays again. */
void core_credit_unpay(struct core_link *link, enum frame_credit kind, uint64_t amount)
{
	link->taken[kind] -= amount;
}

/* What the wishes leave of the grants goes back, but for what the peer lets us keep: a small WRITE
 * that is posted next does not wait for a grant. */
static void stage_trim(struct core_link *link)
{
	struct core_stage *out = &link->stage_out;
	uint64_t need = out->wanted - out->unwanted - out->used + out->ahead;
	uint64_t have = out->granted - out->used;

	/* used counts dropped grants too, so a surplus is what exceeds all wishes */
	if (have <= need)
		return;
	out->dropped += have - need;
	out->used += have - need;
	out->wanted += have - need; /* keeps wanted >= used */
	link->stage_due = true;
	core_kick_small(link);
}

void core_credit_arrived(struct core_link *link, const struct frame *frame)
{
	uint64_t limit, more;

	if (frame->key == FRAME_CREDIT_WISH)
		core_cover_wish(link, frame);
	if (frame->key >= FRAME_CREDIT_COUNT)
		return;
	if (frame->key == FRAME_CREDIT_NOTIFY)
		core_cover_granted(link, frame->offset);
	if (frame->key == FRAME_CREDIT_STAGE) {
		if (frame->linear <= link->stage_out.granted)
			return;
		more = frame->linear - link->stage_out.granted;
		link->stage_out.granted = frame->linear;
		link->stage_out.ahead = frame->offset <= link->cfg.chunk_bytes ? frame->offset : 0;
		stage_trim(link);
		core_fill_granted(link);
		core_kick_small(link);
		core_kick_bulk(link, more); /* the others would only find that they are gone */
		return;
	}
	limit = link->cfg.credit_out[frame->key] + frame->linear;
	/* A peer cannot return more than was used. */
	if (limit < link->limit[frame->key] || frame->linear > link->used[frame->key])
		return;
	link->limit[frame->key] = limit;
	core_kick_all(link);
}

/* left: what the one who gets it still has. Little is not worth a frame while he can go on. */
uint64_t core_stage_take(struct core_link *link, uint64_t want, uint64_t left)
{
	uint64_t least = left >= link->cfg.chunk_bytes ? CORE_GRANT_BYTES : 1, got;

	if (least > want)
		least = want;
	got = link->cfg.ops->stage_take(link->cfg.arg, want, least);
	link->stage_waiting |= got < want;
	return got;
}

/* Ours to use again: this link first, others hear of it from the pool. */
void core_stage_free(struct core_link *link, uint64_t bytes)
{
	link->cfg.ops->stage_give(link->cfg.arg, bytes);
	if (link->stage_waiting && !link->dead)
		core_stage_more(link);
}

/* Grants what the pool has, and a chunk ahead of all wishes where it has room for that. Told by a
 * CREDIT frame. */
void core_stage_more(struct core_link *link)
{
	struct core_stage *in = &link->stage_in;
	uint64_t got;

	if (link->stage_waiting)
		core_kick_small(link); /* READs into staged memory try again */
	link->stage_waiting = false;
	if (in->wanted && !in->asked) {
		in->asked = true;
		in->ahead = link->cfg.ops->stage_ahead(link->cfg.arg, link->cfg.chunk_bytes);
	}
	if (in->wanted - in->unwanted + in->ahead <= in->granted)
		return;
	got = core_stage_take(link, in->wanted - in->unwanted + in->ahead - in->granted,
			      in->granted - in->used);
	if (!got)
		return;
	in->granted += got;
	link->given[FRAME_CREDIT_STAGE] = in->granted;
	link->credit_due[FRAME_CREDIT_STAGE] = true;
	core_kick_small(link);
}

/* The peer's wishes; all three only grow. */
void core_stage_request(struct core_link *link, const struct frame *frame)
{
	struct core_stage *in = &link->stage_in;

	if (frame->linear < in->wanted || frame->key < in->unwanted ||
	    frame->offset < in->dropped || frame->key > frame->linear)
		return; /* older than what we know */
	if (frame->offset > in->dropped) {
		uint64_t back = frame->offset - in->dropped;

		if (back > in->granted - in->used)
			back = in->granted - in->used;
		in->used += back;
		link->cfg.ops->stage_give(link->cfg.arg, back);
	}
	in->wanted = frame->linear;
	in->unwanted = frame->key;
	in->dropped = frame->offset;
	core_stage_more(link);
}

/* Told when more than half of what was granted ahead is spoken for. */
void core_stage_want(struct core_link *link, uint64_t bytes)
{
	struct core_stage *out = &link->stage_out;

	out->wanted += bytes;
	if (out->ahead && out->granted >= out->wanted - out->unwanted + out->ahead / 2)
		return;
	link->stage_due = true;
	core_kick_small(link);
}

void core_stage_unwant(struct core_link *link, uint64_t bytes)
{
	if (!bytes)
		return;
	link->stage_out.unwanted += bytes;
	link->stage_due = true;
	stage_trim(link);
	core_kick_small(link);
}

/* A frame's payload takes its staging when it begins: of the grants, or of what a READ reserved.
 * ERR_PROTOCOL: the peer had none. */
tcpx_status core_stage_arrive(struct core_link *link, struct core_chan *chan,
			      const struct frame *frame)
{
	struct core_stage *in = &link->stage_in;
	struct core_xfer *xfer = chan->rx.xfer;
	bool flagged = frame->flags & FRAME_F_STAGED;

	if (frame->flags & (FRAME_F_REF | FRAME_F_MSG))
		return TCPX_OK;
	if (frame->type == FRAME_RDATA && xfer && xfer->local_staged) {
		if (xfer->reserved < frame->payload_bytes)
			return TCPX_ERR_PROTOCOL;
		xfer->reserved -= frame->payload_bytes;
		chan->rx.staged = frame->payload_bytes;
	}
	if (frame->type == FRAME_SDATA && xfer && xfer->local_staged != flagged)
		return TCPX_ERR_PROTOCOL;
	if (flagged && (frame->type == FRAME_DATA || frame->type == FRAME_SDATA)) {
		if (in->granted - in->used < frame->payload_bytes)
			return TCPX_ERR_PROTOCOL;
		in->used += frame->payload_bytes;
		chan->rx.staged = frame->payload_bytes;
	}
	return TCPX_OK;
}

/* The frame under way is lost: it will come again and take its staging then. */
void core_stage_undo(struct core_link *link, struct core_chan *chan)
{
	struct core_io *io = &chan->rx;

	if (!io->staged)
		return;
	if (chan->rx_frame.type != FRAME_RDATA)
		link->stage_in.used -= io->staged;
	else if (io->xfer)
		io->xfer->reserved += io->staged;
	else
		core_stage_free(link, io->staged);
	io->staged = 0;
}

/* Unsequenced frames may have died with a channel: say everything cumulative again. */
void core_retell(struct core_link *link)
{
	int kind;

	for (kind = 0; kind < FRAME_CREDIT_COUNT; kind++)
		if (link->told[kind] || (kind == FRAME_CREDIT_NOTIFY && link->cover.told))
			link->credit_due[kind] = true;
	link->cover.wish_due = true;
	if (link->stage_out.wanted)
		link->stage_due = true;
}
