/* SPDX-License-Identifier: Apache-2.0 */
/* What the applications of both sides do: post, cancel, deregister, notify, at random moments. */
#include "sim.h"

#include <string.h>

static void expire(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	int64_t next;
	uint32_t i;

	if (!side->alive)
		return;
	for (i = 0; i < side->nxfers; i++) {
		struct sim_xfer *xfer = side->xfers[i];

		if (!xfer->active || !xfer->x.deadline_ns || xfer->x.deadline_ns > sim->now)
			continue;
		if (!xfer->cancelled)
			xfer->cancelled_ns = sim->now;
		xfer->cancelled = sim->disturbed = true;
		xfer->waits |= xfer->x.job.reading > 0;
	}
	SIM_ENTER(sim);
	next = core_link_expire(&side->link, sim->now);
	SIM_LEAVE(sim);
	SIM_CHECK(sim, !next || next > sim->now, "a deadline of %lld is left at %lld",
		  (long long)next, (long long)sim->now);
}

/* The bytes that follow an attached notification's head say whose it is. */
static void make_note(struct sim_xfer *xfer)
{
	struct sim_side *side = xfer->side;
	uint64_t bytes = xfer->x.notify_bytes, i;
	uint8_t *note = sim_alloc(bytes + 16);

	xfer->x.notify = note;
	if (xfer->x.op == TCPX_OP_NOTIFY) {
		struct sim_noted *noted;

		side->noted =
			sim_grow(side->noted, side->nnoted, &side->cap_noted, sizeof(*side->noted));
		xfer->noted = side->nnoted++;
		noted = &side->noted[xfer->noted];
		*noted = (struct sim_noted){
			.tag = xfer->pattern, .bytes = bytes, .xfer = xfer, .post = xfer->post};
		for (i = 0; i < bytes; i++)
			note[i] = sim_pattern(noted->tag, i);
		return;
	}
	for (i = 0; i < bytes; i++)
		note[i] = sim_pattern(xfer->pattern, i);
	if (bytes >= 8) {
		memcpy(note, &xfer->index, 4);
		memcpy(note + 4, &xfer->post, 4);
	}
}

static void record(struct sim_xfer *xfer)
{
	struct sim_side *side = xfer->side;

	if (xfer->x.op == TCPX_OP_SEND) {
		side->sent =
			sim_grow(side->sent, side->nsent, &side->cap_sent, sizeof(*side->sent));
		xfer->order = side->nsent++;
		side->sent[xfer->order] = (struct sim_sent){
			.pattern = xfer->pattern, .total = xfer->segs.total, .xfer = xfer};
	} else if (xfer->x.op == TCPX_OP_RECV) {
		side->got = sim_grow(side->got, side->nrecv, &side->cap_got, sizeof(*side->got));
		xfer->order = side->nrecv++;
		side->got[xfer->order] = 0;
	}
}

static void unrecord(struct sim_xfer *xfer)
{
	xfer->side->nsent -= xfer->x.op == TCPX_OP_SEND;
	xfer->side->nrecv -= xfer->x.op == TCPX_OP_RECV;
	xfer->side->nnoted -= xfer->x.op == TCPX_OP_NOTIFY;
}

static bool may_fail(const struct sim_xfer *xfer, tcpx_status status)
{
	bool note = xfer->x.has_notify || xfer->x.op == TCPX_OP_NOTIFY;

	switch (status) {
	case TCPX_ERR_AGAIN:
		return note;
	case TCPX_ERR_LIMIT:
		return note && xfer->x.notify_bytes + CORE_NOTE_COST >
				       xfer->side->sim->p
					       .credit[1 - xfer->side->index][FRAME_CREDIT_NOTIFY];
	case TCPX_ERR_NO_MEMORY:
		return xfer->side->sim->p.alloc_fail != 0;
	default:
		return false;
	}
}

/* As the engine may do with what is alone; the link does not look at that. */
static void prio_route(struct sim_xfer *xfer)
{
	const struct core_xfer *x = &xfer->x;
	bool moves = x->op == TCPX_OP_WRITE || x->op == TCPX_OP_READ;
	uint32_t percent = xfer->side->sim->p.by_prio;

	xfer->x.by_prio = percent && moves && x->path != CORE_PATH_MESSAGE && !x->local_staged &&
			  !x->remote_staged && sim_route_drawn(xfer->side->sim, percent);
}

tcpx_status sim_post(struct sim_xfer *xfer)
{
	struct sim_side *side = xfer->side;
	struct sim *sim = side->sim;
	tcpx_status status;

	sim_xfer_fill(xfer);
	xfer->post++;
	xfer->active = true;
	xfer->frozen = xfer->cancelled = xfer->corrupt = xfer->refused = xfer->waits = false;
	xfer->loose = false;
	xfer->notified = xfer->ended = 0;
	xfer->cut = 0;
	if (xfer->x.has_notify || xfer->x.op == TCPX_OP_NOTIFY)
		make_note(xfer);
	record(xfer);
	if (xfer->post == 2)
		core_link_refs(&side->link, sim->p.ref_most);
	sim_ref_route(xfer);
	sim_msg_route(xfer);
	prio_route(xfer);
	SIM_TRACE(sim, "%d post %u op %d bytes %llu segments %u note %d staged %d/%d ref %d bad %d",
		  side->index, xfer->number, xfer->x.op, (unsigned long long)xfer->segs.total,
		  xfer->segs.nseg, xfer->x.has_notify ? (int)xfer->x.notify_bytes : -1,
		  xfer->x.local_staged, xfer->x.remote_staged, xfer->x.path == CORE_PATH_REFERENCE,
		  xfer->bad);
	SIM_ENTER(sim);
	status = core_xfer_post(&side->link, &xfer->x);
	SIM_LEAVE(sim);
	if (status != TCPX_OK) {
		SIM_CHECK(sim, may_fail(xfer, status), "transfer %u: post says %d", xfer->number,
			  status);
		SIM_CHECK(sim, !xfer->ended, "transfer %u ended and its post failed", xfer->number);
		xfer->active = false;
		unrecord(xfer);
		return status;
	}
	sim->count.posts++;
	if (xfer->x.op == TCPX_OP_SEND)
		side->sent[xfer->order].wire_id = xfer->x.id;
	if (xfer->x.deadline_ns)
		sim_at(sim, xfer->x.deadline_ns, side, expire, NULL, 0, 0);
	return TCPX_OK;
}

tcpx_status sim_cancel(struct sim_xfer *xfer, tcpx_status cause)
{
	struct sim *sim = xfer->side->sim;
	tcpx_status status;

	if (!xfer->cancelled)
		xfer->cancelled_ns = sim->now;
	xfer->cancelled = sim->disturbed = true;
	xfer->waits |= xfer->x.job.reading > 0;
	SIM_TRACE(sim, "%d cancel %u", xfer->side->index, xfer->number);
	SIM_ENTER(sim);
	status = core_xfer_cancel(&xfer->side->link, &xfer->x, cause);
	SIM_LEAVE(sim);
	SIM_CHECK(sim, status == TCPX_OK, "transfer %u: cancel says %d", xfer->number, status);
	return status;
}

/* As the engine does: no new access, own transfers cancelled, read responses stopped. */
void sim_deregister(struct sim_region *region)
{
	struct sim_xfer *owner = region->owner;

	if (region->retired)
		return;
	region->side->sim->disturbed = true;
	if (owner->side == region->side) {
		owner->local_gone = true;
		if (owner->active)
			sim_cancel(owner, TCPX_ERR_DEREGISTERED);
		else
			sim_region_retire(region);
		return;
	}
	owner->remote_gone = true;
	sim_region_retire(region);
}

tcpx_status sim_note(struct sim_side *side, uint64_t bytes)
{
	struct sim *sim = side->sim;
	uint8_t *note = sim_alloc(bytes + 1);
	uint64_t tag = rng_u64(&sim->rng), i;
	tcpx_status status;

	for (i = 0; i < bytes; i++)
		note[i] = sim_pattern(tag, i);
	side->noted = sim_grow(side->noted, side->nnoted, &side->cap_noted, sizeof(*side->noted));
	side->noted[side->nnoted++] = (struct sim_noted){.tag = tag, .bytes = bytes};
	SIM_ENTER(sim);
	status = core_note_send(&side->link, note, bytes);
	SIM_LEAVE(sim);
	memset(note, 0x55, bytes);
	if (status != TCPX_OK) {
		SIM_CHECK(sim,
			  status == TCPX_ERR_AGAIN || status == TCPX_ERR_LIMIT ||
				  (status == TCPX_ERR_NO_MEMORY && sim->p.alloc_fail),
			  "a notification of %llu bytes: %d", (unsigned long long)bytes, status);
		side->nnoted--;
	}
	return status;
}

static uint64_t draw_bytes(struct sim *sim)
{
	switch (rng_below(&sim->rng, 6)) {
	case 0:
		return sim_upto(sim, 2);
	case 1:
		return 1 + sim_upto(sim, sim->p.chunk_bytes);
	case 2:
		return sim_upto(sim, sim->p.bytes_max);
	case 3:
		return sim->p.chunk_bytes * sim_upto(sim, sim->p.bytes_max / sim->p.chunk_bytes);
	default:
		return sim_upto(sim, sim->p.bytes_max / 4);
	}
}

static uint64_t draw_note(struct sim_side *side)
{
	struct sim *sim = side->sim;
	uint64_t credit = sim->p.credit[1 - side->index][FRAME_CREDIT_NOTIFY];

	if (sim_chance(sim, 10))
		return 0;
	if (sim_chance(sim, 5))
		return credit - CORE_NOTE_COST + sim_upto(sim, 1);
	credit = credit < 3 * CORE_NOTE_COST ? 60 : credit / 3;
	return 8 + sim_upto(sim, credit > 20000 ? 20000 : credit);
}

static void spoil(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;
	uint32_t seg;

	if (!xfer->segs.total || xfer->bad)
		return;
	xfer->bad = sim->disturbed = true;
	seg = (uint32_t)rng_below(&sim->rng, xfer->segs.nseg);
	switch (rng_below(&sim->rng, 3)) {
	case 0:
		xfer->keys[xfer->segs.seg[seg].remote] ^= 0x5555000000ull;
		xfer->bad_status = TCPX_ERR_REMOTE_KEY;
		break;
	case 1:
		xfer->remote[xfer->segs.seg[seg].remote]->rights = 0;
		xfer->bad_status = TCPX_ERR_REMOTE_RIGHTS;
		break;
	default:
		/* Off + length does not wrap: prepare refuses that. */
		xfer->segs.seg[seg].remote_off =
			sim_chance(sim, 50) ? UINT64_MAX - xfer->segs.total : 1 << 30;
		xfer->bad_status = TCPX_ERR_REMOTE_RANGE;
		break;
	}
}

static enum tcpx_op draw_op(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_SEND, TCPX_OP_RECV,
					   TCPX_OP_NOTIFY};
	uint32_t sum = 0, i, at;

	for (i = 0; i < 5; i++)
		sum += sim->p.mix[i];
	at = (uint32_t)rng_below(&sim->rng, sum);
	for (i = 0; at >= sim->p.mix[i]; i++)
		at -= sim->p.mix[i];
	return ops[i];
}

static void cancel_later(struct sim *sim, const struct sim_event *event)
{
	struct sim_xfer *xfer = event->ptr;

	if (xfer->active && xfer->post == event->a && xfer->side->alive)
		sim_cancel(xfer, TCPX_ERR_CANCELLED);
	(void)sim;
}

static void post_new(struct sim_side *side)
{
	struct sim *sim = side->sim;
	enum tcpx_op op = draw_op(sim);
	struct sim_xfer *xfer;

	if (op == TCPX_OP_NOTIFY && sim_chance(sim, 50)) {
		(void)sim_note(side, draw_note(side));
		return;
	}
	xfer = sim_xfer_new(side, op, draw_bytes(sim),
			    1 + (uint32_t)sim_upto(sim, sim->p.segments_max - 1));
	if (op == TCPX_OP_NOTIFY ||
	    ((op == TCPX_OP_WRITE || op == TCPX_OP_READ) && sim_chance(sim, 40)))
		xfer->x.notify_bytes = (uint32_t)draw_note(side);
	xfer->x.has_notify = op != TCPX_OP_NOTIFY && xfer->x.notify_bytes;
	xfer->x.has_notify |= (op == TCPX_OP_WRITE || op == TCPX_OP_READ) && sim_chance(sim, 5);
	xfer->x.priority = (int32_t)sim_upto(sim, 2) - 1;
	xfer->x.strict = sim_chance(sim, sim->p.strict);
	if ((op == TCPX_OP_WRITE || op == TCPX_OP_READ) && sim_chance(sim, sim->p.bad))
		spoil(xfer);
	if (sim_chance(sim, sim->p.deadline))
		xfer->x.deadline_ns = sim->now + 1 + (int64_t)sim_upto(sim, 30 * sim->p.delay);
	if (sim_post(xfer) == TCPX_OK && sim_chance(sim, sim->p.cancel))
		sim_at(sim, sim->now + (int64_t)sim_upto(sim, 5 * sim->p.delay + 5 * sim->p.call),
		       side, cancel_later, xfer, xfer->post, 0);
}

static struct sim_xfer *some_xfer(struct sim_side *side)
{
	return side->nxfers ? side->xfers[rng_below(&side->sim->rng, side->nxfers)] : NULL;
}

/* May it be posted again without breaking the rules of the game? */
static bool repostable(const struct sim_xfer *xfer)
{
	if (xfer->active || !xfer->post || xfer->bad || xfer->local_gone || xfer->remote_gone)
		return false;
	/* Bytes of a cancelled WRITE may still land. */
	return xfer->x.op != TCPX_OP_WRITE || xfer->frozen;
}

static void act(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	struct sim_xfer *xfer = some_xfer(side);

	if (sim->p.actions && side->actions_left)
		side->actions_left--;
	if (side->actions_left)
		sim_at(sim, sim->now + (int64_t)sim_upto(sim, sim->p.action_gap), side, act, NULL,
		       0, 0);
	if (!side->alive || side->fail_scheduled)
		return;
	if (xfer && xfer->active && sim_chance(sim, sim->p.cancel))
		sim_cancel(xfer, TCPX_ERR_CANCELLED);
	else if (side->nregions && sim_chance(sim, sim->p.deregister))
		sim_deregister(side->regions[rng_below(&sim->rng, side->nregions)]);
	else if (xfer && sim_chance(sim, sim->p.repost) && repostable(xfer)) {
		xfer->x.deadline_ns = 0;
		(void)sim_post(xfer);
	} else
		post_new(side);
}

static void fault(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = &sim->side[rng_below(&sim->rng, 2)];
	int64_t until;
	uint32_t i;

	switch (event->a) {
	case 0:
		(void)sim_cut(sim, (uint32_t)rng_below(&sim->rng, sim->p.bulk_channels + 1));
		break;
	case 1:
		if (sim->control_up)
			sim_control_cut(sim, 1 + (int64_t)sim_upto(sim, 50 * sim->p.delay));
		break;
	case 2:
		SIM_TRACE(sim, "%d stops", side->index);
		until = sim->now + (int64_t)sim_upto(sim, 100 * sim->p.delay);
		if (until > side->stopped_until) /* never shorter: events keep their order */
			side->stopped_until = until;
		break;
	default:
		if (sim_chance(sim, 50)) {
			sim_link_fail_later(side, TCPX_ERR_DISCONNECTED, 0);
			break;
		}
		for (i = 0; i <= sim->p.bulk_channels; i++)
			sim_cut_force(sim, i);
		sim_link_fail_later(side, TCPX_ERR_PEER_RESET, sim_upto(sim, sim->p.delay));
		break;
	}
}

void sim_app_start(struct sim *sim)
{
	uint64_t span =
		(uint64_t)sim->p.actions * sim->p.action_gap + 20 * sim->p.delay + 10 * sim->p.call;
	uint32_t i;

	for (i = 0; i < 2; i++) {
		sim->side[i].actions_left = sim->p.actions;
		if (sim->p.actions)
			sim_at(sim, (int64_t)sim_upto(sim, sim->p.delay), &sim->side[i], act, NULL,
			       0, 0);
	}
	for (i = 0; i < sim->p.losses; i++)
		sim_at(sim, (int64_t)sim_upto(sim, span), NULL, fault, NULL, 0, 0);
	for (i = 0; i < sim->p.control_cuts; i++)
		sim_at(sim, (int64_t)sim_upto(sim, span), NULL, fault, NULL, 1, 0);
	for (i = 0; i < sim->p.stops; i++)
		sim_at(sim, (int64_t)sim_upto(sim, span), NULL, fault, NULL, 2, 0);
	if (sim->p.fail_link)
		sim_at(sim, (int64_t)sim_upto(sim, span), NULL, fault, NULL, 3, 0);
}
