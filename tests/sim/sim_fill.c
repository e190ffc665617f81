/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's part of filling: slices of staged sources in a pool with little room, each filled
 * in its own time, sent from, and given back. */
#include "sim.h"

#include <string.h>

#define HOSTILE_RECLAIMS 200 /* a peer that never grants must not keep the schedule going */
/* Others want room so often: a real engine lets 100 ms go by before it takes filled bytes back, and
 * where channels are slower than fills, whims alone would fill a schedule. */
#define WHIMS_MAX 500

static void pump(struct sim *sim, const struct sim_event *event);

static struct sim_push *resp_of(struct core_job *job)
{
	return LIST_ENTRY(job, struct sim_push, resp.job);
}

static struct sim_xfer *xfer_of(struct core_job *job)
{
	return LIST_ENTRY(job, struct sim_xfer, x.job);
}

static uint64_t *cut_of(struct core_job *job)
{
	return job->kind == CORE_JOB_RESP ? &resp_of(job)->cut : &xfer_of(job)->cut;
}

static void pump_later(struct sim_side *side, uint64_t delay)
{
	if (side->pumping)
		return;
	side->pumping = true;
	sim_at(side->sim, side->sim->now + (int64_t)delay, side, pump, NULL, side->incarnation, 0);
}

/* Its room is back when nobody fills it, may cut of it or sends of it. */
static void settle(struct sim_slice *slice)
{
	struct sim_side *side = slice->side;

	if (slice->filling || slice->listed || slice->users)
		return;
	SIM_CHECK(side->sim, slice->bytes <= side->fill_used, "room for filling from nowhere");
	side->fill_used -= slice->bytes;
	memset(slice->data, 0xdb, slice->bytes);
	list_remove(&slice->all);
	pump_later(side, sim_upto(side->sim, side->sim->p.call));
}

static void unlist(struct sim_slice *slice)
{
	list_remove(&slice->node);
	slice->listed = false;
}

void sim_fill_due(struct sim_side *side)
{
	pump_later(side, sim_upto(side->sim, side->sim->p.call));
}

void sim_fill_drop(struct sim_side *side, struct core_job *job)
{
	struct list_node *node;

	SIM_CHECK(side->sim, job->fills, "slices of a job that needs none are dropped");
	while (!list_empty(&job->fill.slices)) {
		struct sim_slice *slice;

		node = job->fill.slices.next;
		slice = LIST_ENTRY(node, struct sim_slice, node);
		unlist(slice);
		settle(slice);
	}
}

/* The source as it is now; it must be somebody's still. */
static void read_source(struct sim_slice *slice, uint8_t *to)
{
	struct sim *sim = slice->side->sim;
	const struct sim_xfer *xfer = slice->xfer;

	if (xfer)
		SIM_CHECK(sim, xfer->active && xfer->post == slice->post,
			  "transfer %u: a fill reads its memory after its end", xfer->number);
	else
		SIM_CHECK(sim, !resp_of(slice->job)->resp.ended, "a fill reads for an ended resp");
	sim_segs_copy(sim, slice->job->segs, slice->at, to, slice->bytes, false);
}

static uint64_t ready_upto(const struct core_job *job)
{
	uint64_t ready = 0;
	struct list_node *pos;

	LIST_FOREACH(pos, &job->fill.slices) {
		const struct sim_slice *slice = LIST_ENTRY(pos, struct sim_slice, node);

		if (!slice->ready)
			break;
		ready = slice->linear + slice->bytes;
	}
	return ready;
}

static void fill_end(struct sim *sim, const struct sim_event *event)
{
	struct sim_slice *slice = event->ptr;
	struct sim_side *side = slice->side;
	struct core_job *job = slice->job;
	uint8_t *again = sim_alloc(slice->bytes);
	uint64_t ready;

	read_source(slice, again);
	SIM_CHECK(sim, !slice->xfer || !memcmp(again, slice->data, slice->bytes),
		  "memory that a fill reads has changed");
	slice->filling = false;
	slice->ready = !slice->fails;
	slice->users++; /* the core may drop it meanwhile */
	if (slice->fails) {
		struct sim_xfer *xfer = slice->xfer ? slice->xfer : resp_of(job)->regions[0]->owner;

		xfer->corrupt = sim->disturbed = true;
	}
	ready = slice->listed ? ready_upto(job) : 0;
	SIM_TRACE(sim, "%d filled %llu..%llu ready %llu%s%s", side->index,
		  (unsigned long long)slice->linear,
		  (unsigned long long)slice->linear + slice->bytes, (unsigned long long)ready,
		  slice->fails ? " failed" : "", slice->listed ? "" : " for nobody");
	sim->count.fills++;
	SIM_ENTER(sim);
	core_fill_end(&side->link, job, ready, slice->fails ? TCPX_ERR_CORRUPT : TCPX_OK);
	SIM_LEAVE(sim);
	slice->users--;
	settle(slice);
	pump_later(side, sim_upto(sim, sim->p.call)); /* what is filled may be taken back */
	sim_fill_back_some(side);
	sim_try_restart(sim);
}

static void slice_begin(struct sim_side *side, const struct core_fill *fill)
{
	struct sim *sim = side->sim;
	struct sim_slice *slice = sim_alloc(sizeof(*slice));
	struct core_job *job = fill->job;

	*slice = (struct sim_slice){.side = side,
				    .job = job,
				    .at = fill->at,
				    .linear = fill->linear,
				    .bytes = fill->bytes,
				    .filling = true,
				    .listed = true,
				    .fails = sim_chance(sim, sim->p.fill_fail),
				    .data = sim_alloc(fill->bytes)};
	if (job->kind != CORE_JOB_RESP) {
		slice->xfer = xfer_of(job);
		slice->post = slice->xfer->post;
	}
	SIM_TRACE(sim, "%d fill %llu..%llu of transfer %u", side->index,
		  (unsigned long long)fill->linear, (unsigned long long)fill->linear + fill->bytes,
		  slice->xfer ? slice->xfer->number : 0);
	list_push_back(&job->fill.slices, &slice->node);
	list_push_back(&side->slices, &slice->all);
	side->fill_used += fill->bytes;
	read_source(slice, slice->data);
	SIM_ENTER(sim);
	core_fill_begin(&side->link, fill);
	SIM_LEAVE(sim);
	sim_at(sim, sim->now + (int64_t)sim_upto(sim, sim->p.fill), side, fill_end, slice, 0, 0);
}

/* What is next, if anything; asked twice it is the same. */
static bool next(struct sim_side *side, struct core_fill *out_fill)
{
	struct sim *sim = side->sim;
	struct core_fill again;
	bool some;

	SIM_ENTER(sim);
	some = core_fill_next(&side->link, out_fill);
	SIM_CHECK(sim, core_fill_next(&side->link, &again) == some, "two answers about filling");
	SIM_LEAVE(sim);
	if (!some)
		return false;
	SIM_CHECK(sim, again.job == out_fill->job && again.linear == out_fill->linear,
		  "two answers about filling");
	SIM_CHECK(sim, out_fill->bytes && out_fill->linear == out_fill->job->fill.begun,
		  "a fill of %u bytes at %llu, not %llu", out_fill->bytes,
		  (unsigned long long)out_fill->linear,
		  (unsigned long long)out_fill->job->fill.begun);
	SIM_CHECK(sim, out_fill->bytes <= sim->p.fill_pool[side->index],
		  "a fill of %u bytes is larger than the pool", out_fill->bytes);
	return true;
}

static bool fits(const struct sim_side *side, const struct core_fill *fill)
{
	return fill->bytes <= side->sim->p.fill_pool[side->index] - side->fill_used;
}

static bool fill_back(struct sim_side *side, struct core_job *job)
{
	struct sim *sim = side->sim;
	bool back;

	SIM_ENTER(sim);
	back = core_fill_back(&side->link, job);
	SIM_LEAVE(sim);
	SIM_TRACE(sim, "%d taken back from %llu on: %d", side->index,
		  (unsigned long long)job->linear, back);
	if (back)
		SIM_CHECK(sim, list_empty(&job->fill.slices) && job->fill.ready == job->linear,
			  "taken back, and something is left");
	return back;
}

/* Somebody's filled bytes that no channel pulled; NULL: there are none. */
static struct core_job *some_holder(struct sim_side *side)
{
	struct core_job *found = NULL;
	struct list_node *pos;
	uint32_t count = 0;

	LIST_FOREACH(pos, &side->slices) {
		struct sim_slice *slice = LIST_ENTRY(pos, struct sim_slice, all);

		if (slice->listed && slice->ready && !rng_below(&side->sim->rng, ++count))
			found = slice->job;
	}
	return found;
}

/* Others want the room now and then. */
void sim_fill_back_some(struct sim_side *side)
{
	struct core_job *job = NULL;

	if (side->alive && sim_chance(side->sim, side->sim->p.fill_back))
		job = some_holder(side);
	if (job && side->whims++ < WHIMS_MAX)
		fill_back(side, job);
}

/* The room is short: what was filled and not pulled for a while is taken back. */
static void reclaim(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	struct core_fill fill;
	struct core_job *job;

	if (side->incarnation != event->a)
		return;
	side->reclaiming = false;
	if (!side->alive || !next(side, &fill))
		return;
	job = fits(side, &fill) || fill.ahead ? NULL : some_holder(side);
	if (job && sim->p.hostile && ++side->reclaims > HOSTILE_RECLAIMS)
		return;
	if (job)
		fill_back(side, job);
	pump_later(side, 0);
}

static void pump(struct sim *sim, const struct sim_event *event)
{
	struct sim_side *side = event->side;
	struct core_fill fill;

	if (side->incarnation != event->a)
		return;
	side->pumping = false;
	while (side->alive && next(side, &fill)) {
		if (!fits(side, &fill)) {
			if (side->reclaiming || fill.ahead || !some_holder(side))
				return; /* what is under way gives room back */
			side->reclaiming = true;
			sim_at(sim,
			       sim->now + 1 +
				       (int64_t)sim_upto(sim, 10 * sim->p.delay + sim->p.fill),
			       side, reclaim, NULL, side->incarnation, 0);
			return;
		}
		if (sim_chance(sim, 20)) {
			pump_later(side, 1 + sim_upto(sim, sim->p.fill));
			return;
		}
		slice_begin(side, &fill);
	}
}

/* The slices a frame's payload lies in; none: it is read from memory. */
static uint32_t covering(struct core_job *job, uint64_t at, uint64_t end, struct sim_slice **slices)
{
	struct list_node *pos;
	uint32_t count = 0;

	LIST_FOREACH(pos, &job->fill.slices) {
		struct sim_slice *slice = LIST_ENTRY(pos, struct sim_slice, node);
		uint64_t till = slice->linear + slice->bytes;

		if (till <= at || at >= end)
			continue;
		if (slice->linear > at || !slice->ready || count == SIM_FRAME_SLICES)
			return 0;
		slices[count++] = slice;
		at = till;
	}
	return at >= end ? count : 0;
}

/* A frame was cut: what goes out for the first time was filled, all of it. */
void sim_fill_claim(struct sim_side *side, struct sim_tx *tx)
{
	struct core_job *job = tx->tx.job;
	struct sim *sim = side->sim;
	uint64_t *cut, end;
	uint32_t i;

	tx->nslices = 0;
	if (!job || !job->fills || !tx->tx.frame.payload_bytes)
		return;
	SIM_CHECK(sim, tx->tx.segs == job->segs, "a frame of another job");
	cut = cut_of(job);
	tx->linear = core_cursor_linear(job->segs, tx->tx.at);
	end = tx->linear + tx->tx.frame.payload_bytes;
	tx->nslices = covering(job, tx->linear, end, tx->slices);
	if (tx->linear >= *cut) {
		SIM_CHECK(sim, tx->linear == *cut, "bytes %llu..%llu are skipped",
			  (unsigned long long)*cut, (unsigned long long)tx->linear);
		SIM_CHECK(sim, tx->nslices, "bytes %llu..%llu go out and were not filled",
			  (unsigned long long)tx->linear, (unsigned long long)end);
		*cut = end;
	}
	SIM_CHECK(sim, end <= *cut, "a frame of bytes sent before and bytes not sent before");
	for (i = 0; i < tx->nslices; i++) {
		tx->slices[i]->users++;
		if (tx->slices[i]->linear + tx->slices[i]->bytes <= *cut)
			unlist(tx->slices[i]);
	}
}

void sim_fill_read(const struct sim_tx *tx, uint8_t *to)
{
	uint64_t at = tx->linear + tx->from, left = tx->want;
	uint32_t i;

	for (i = 0; i < tx->nslices && left > 0; i++) {
		const struct sim_slice *slice = tx->slices[i];
		uint64_t n = slice->linear + slice->bytes;

		if (n <= at)
			continue;
		n = n - at < left ? n - at : left;
		memcpy(to, slice->data + (at - slice->linear), n);
		to += n;
		at += n;
		left -= n;
	}
}

/* The frame is over. */
void sim_fill_put(struct sim_slice **slices, uint32_t *count)
{
	while (*count > 0) {
		struct sim_slice *slice = slices[--*count];

		slice->users--;
		settle(slice);
	}
}

bool sim_fill_under_way(const struct sim_side *side, const struct sim_xfer *xfer)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &side->slices) {
		const struct sim_slice *slice = LIST_ENTRY(pos, struct sim_slice, all);

		if (slice->filling && slice->xfer == xfer && slice->post == xfer->post)
			return true;
	}
	return false;
}

/* True of a job at every moment: linear <= ready <= begun, and linear is what was cut. */
void sim_fill_check(struct sim_side *side, struct core_job *job)
{
	if (!job->fills || job->stopped)
		return;
	if (job->kind == CORE_JOB_SEND && job->announced && !*cut_of(job) && !job->peer_xfer)
		return; /* announced alone: nothing of it was asked for */
	SIM_CHECK(side->sim,
		  job->linear == *cut_of(job) && job->linear <= job->fill.ready &&
			  job->fill.ready <= job->fill.begun && job->fill.begun <= job->end,
		  "a job at %llu, cut %llu, ready %llu, begun %llu of %llu",
		  (unsigned long long)job->linear, (unsigned long long)*cut_of(job),
		  (unsigned long long)job->fill.ready, (unsigned long long)job->fill.begun,
		  (unsigned long long)job->end);
}
