/* SPDX-License-Identifier: Apache-2.0 */
/* The oracle: what must be true when a request ends, a notification appears, and at the end. */
#include "sim.h"

#include <string.h>

/* Nobody may be using the memory of a request that ended. */
static void check_memory_quiet(struct sim_xfer *xfer)
{
	struct sim_side *side = xfer->side;
	struct sim *sim = side->sim;
	struct list_node *pos;
	uint32_t i;

	for (i = 0; i <= sim->p.bulk_channels; i++) {
		struct sim_tx *tx = &side->chan[i].tx;
		struct sim_rx *rx = &side->chan[i].rx;

		SIM_CHECK(sim,
			  !tx->in_call || tx->xfer != xfer || tx->post != xfer->post ||
				  tx->aborted || !tx->want,
			  "transfer %u ended while channel %u reads its memory", xfer->number, i);
		SIM_CHECK(sim,
			  !rx->in_call || !rx->busy || rx->xfer != xfer || rx->post != xfer->post ||
				  rx->scratch,
			  "transfer %u ended while channel %u writes its memory", xfer->number, i);
	}
	LIST_FOREACH(pos, &side->commits) {
		struct sim_commit *commit = LIST_ENTRY(pos, struct sim_commit, node);

		SIM_CHECK(sim, commit->xfer != xfer || commit->post != xfer->post,
			  "transfer %u ended while a commit writes its memory", xfer->number);
	}
	LIST_FOREACH(pos, &side->orphans) {
		struct sim_orphan *orphan = LIST_ENTRY(pos, struct sim_orphan, node);

		SIM_CHECK(sim, orphan->xfer != xfer || orphan->post != xfer->post,
			  "transfer %u ended while its memory is still read", xfer->number);
	}
	SIM_CHECK(sim, !sim_fill_under_way(side, xfer),
		  "transfer %u ended while a fill reads its memory", xfer->number);
	if (xfer->x.job.fills)
		SIM_CHECK(sim, list_empty(&xfer->x.job.fill.slices),
			  "transfer %u ended with slices", xfer->number);
	sim_ref_ended(xfer);
	SIM_CHECK(sim, !xfer->x.refs, "transfer %u ended with %u references", xfer->number,
		  xfer->x.refs);
	SIM_CHECK(sim, !xfer->x.job.inflight, "transfer %u ended with %u frames in flight",
		  xfer->number, xfer->x.job.inflight);
}

/* The SEND that a RECV got, by its id on the wire. */
static uint32_t find_sent(const struct sim_side *side, uint64_t wire_id)
{
	uint32_t i = side->nsent;

	while (i > 0 && side->sent[i - 1].wire_id != wire_id)
		i--;
	return i;
}

static void check_recv(struct sim_xfer *xfer)
{
	struct sim_side *from = xfer->side->peer;
	struct sim *sim = from->sim;
	uint32_t place = find_sent(from, xfer->x.recv.sender);
	uint64_t room = xfer->segs.total, bytes;
	const struct sim_sent *sent;

	SIM_CHECK(sim, place, "RECV %u got a message that nobody sent", xfer->number);
	sent = &from->sent[place - 1];
	bytes = sent->total < room ? sent->total : room;
	SIM_CHECK(sim, xfer->x.recv.message_bytes == sent->total && xfer->x.applied == bytes,
		  "RECV %u: %llu of %llu bytes, SEND %u has %llu, room for %llu", xfer->number,
		  (unsigned long long)xfer->x.applied,
		  (unsigned long long)xfer->x.recv.message_bytes, sent->xfer->number,
		  (unsigned long long)sent->total, (unsigned long long)room);
	SIM_CHECK(sim, (xfer->x.status == TCPX_ERR_TRUNCATED) == (sent->total > room),
		  "RECV %u: truncation of %llu to %llu ended with %d", xfer->number,
		  (unsigned long long)sent->total, (unsigned long long)room, xfer->x.status);
	SIM_CHECK(sim, sim_xfer_equal(xfer, bytes, sent->pattern),
		  "RECV %u is done and its bytes are wrong", xfer->number);
}

/* A RECV that was paired: with a message, or with the number of one that failed. */
static void record_pair(struct sim_xfer *xfer)
{
	uint32_t place = find_sent(xfer->side->peer, xfer->x.recv.sender);

	SIM_CHECK(xfer->side->sim, place, "RECV %u is paired with a SEND that nobody posted",
		  xfer->number);
	xfer->side->got[xfer->order] = place;
}

static void check_done(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;

	SIM_CHECK(sim, !xfer->bad, "transfer %u is done in spite of %d", xfer->number,
		  xfer->bad_status);
	if (xfer->x.op == TCPX_OP_WRITE || xfer->x.op == TCPX_OP_READ) {
		SIM_CHECK(sim, xfer->x.applied == xfer->segs.total,
			  "transfer %u is done with %llu of %llu bytes", xfer->number,
			  (unsigned long long)xfer->x.applied,
			  (unsigned long long)xfer->segs.total);
		SIM_CHECK(sim, sim_xfer_equal(xfer, xfer->segs.total, xfer->pattern),
			  "transfer %u is done and its bytes are wrong", xfer->number);
	}
	if (!xfer->x.has_notify)
		return;
	if (xfer->x.notify_bytes)
		SIM_CHECK(sim, xfer->notified == 1, "transfer %u is done and notified %u times",
			  xfer->number, xfer->notified);
	else
		xfer->side->empty_done++;
}

/* Which errors have a cause in this schedule. */
static bool explained(const struct sim_xfer *xfer, tcpx_status status)
{
	const struct sim *sim = xfer->side->sim;

	switch (status) {
	case TCPX_ERR_CANCELLED:
		return xfer->cancelled;
	case TCPX_ERR_TIMED_OUT:
		return xfer->x.deadline_ns && xfer->x.deadline_ns <= sim->now;
	case TCPX_ERR_DEREGISTERED:
		return xfer->local_gone || xfer->remote_gone;
	case TCPX_ERR_REMOTE_KEY:
		return xfer->bad_status == status || xfer->remote_gone;
	case TCPX_ERR_REMOTE_RIGHTS:
	case TCPX_ERR_REMOTE_RANGE:
		return xfer->bad_status == status || (xfer->bad && xfer->remote_gone);
	case TCPX_ERR_TRUNCATED:
		return xfer->x.op == TCPX_OP_RECV;
	case TCPX_ERR_CHANNEL_LOST:
		return xfer->bad_status == status;
	case TCPX_ERR_REMOTE:
		if (xfer->bad_status == status)
			return true;
		if (xfer->x.op == TCPX_OP_READ)
			return xfer->corrupt /* the peer could not fill */ ||
			       (xfer->x.path == CORE_PATH_REFERENCE && xfer->remote_gone);
		return (xfer->x.op == TCPX_OP_SEND || xfer->x.op == TCPX_OP_RECV) && sim->disturbed;
	case TCPX_ERR_PEER_CLOSED:
	case TCPX_ERR_PEER_RESET:
	case TCPX_ERR_DISCONNECTED:
		return !xfer->side->alive;
	case TCPX_ERR_CORRUPT:
		return xfer->corrupt;
	case TCPX_ERR_NO_MEMORY:
		return sim->p.alloc_fail && !xfer->side->alive;
	default:
		return false;
	}
}

/* A plain cancel needs nobody but our own calls and commits to come back, where nothing is lent. */
static void check_cancel_time(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;
	int64_t most = 20 * (int64_t)sim->p.call + (int64_t)sim->p.commit + (int64_t)sim->p.fill;

	if (!xfer->cancelled || xfer->x.strict || xfer->waits || sim->p.stops)
		return;
	SIM_CHECK(sim, sim->now - xfer->cancelled_ns <= most,
		  "transfer %u ended %lld ns after its cancel", xfer->number,
		  (long long)(sim->now - xfer->cancelled_ns));
}

void sim_ended(struct sim_xfer *xfer)
{
	struct sim_side *side = xfer->side;
	struct sim *sim = side->sim;
	tcpx_status status = xfer->x.status;
	uint32_t i;

	SIM_TRACE(sim, "%d ended %u status %d", side->index, xfer->number, status);
	SIM_CHECK(sim, xfer->active, "transfer %u ended %s", xfer->number,
		  xfer->ended ? "twice" : "before it was posted");
	xfer->ended++;
	xfer->status = status;
	check_memory_quiet(xfer);
	check_cancel_time(xfer);
	if (sim->p.hostile)
		; /* its end may say anything */
	else if (status == TCPX_OK)
		check_done(xfer);
	else
		SIM_CHECK(sim, explained(xfer, status), "transfer %u ended with %d for no reason",
			  xfer->number, status);
	if (!sim->p.hostile && xfer->x.op == TCPX_OP_RECV &&
	    (status == TCPX_OK || status == TCPX_ERR_TRUNCATED))
		check_recv(xfer);
	if (!sim->p.hostile && xfer->x.op == TCPX_OP_RECV && xfer->x.recv.sender)
		record_pair(xfer);
	if (xfer->x.op == TCPX_OP_NOTIFY && status != TCPX_OK)
		side->noted[xfer->noted].dropped = true;
	/* Nothing of this request may land at the peer any more. */
	xfer->frozen = status == TCPX_OK || (xfer->x.strict && side->alive) ||
		       xfer->x.path == CORE_PATH_REFERENCE ||
		       (xfer->x.path == CORE_PATH_MESSAGE && !xfer->loose);
	xfer->active = false;
	sim_xfer_poison(xfer);
	for (i = 0; xfer->local_gone && i < SIM_REGIONS; i++)
		if (xfer->local[i])
			xfer->local[i]->retired = xfer->local[i]->dead = true;
	if (status == TCPX_OK)
		sim->count.done++;
	else
		sim->count.failed++;
}

static bool note_equal(const struct core_notify_in *msg, uint64_t tag, uint64_t from)
{
	uint64_t i;

	for (i = from; i < msg->bytes; i++)
		if (msg->data[i] != sim_pattern(tag, i))
			return false;
	return true;
}

static void standalone_seen(struct sim_side *from, const struct core_notify_in *msg)
{
	struct sim *sim = from->sim;

	for (;;) {
		struct sim_noted *noted = &from->noted[from->noted_seen];

		SIM_CHECK(sim, from->noted_seen < from->nnoted,
			  "a notification of %llu bytes that nobody sent, or out of order",
			  (unsigned long long)msg->bytes);
		from->noted_seen++;
		if (noted->bytes == msg->bytes && note_equal(msg, noted->tag, 0))
			return;
		SIM_CHECK(sim, noted->dropped, "notification %u is overtaken by another",
			  from->noted_seen - 1);
	}
}

void sim_notified(struct sim_side *side, const struct core_notify_in *msg)
{
	struct sim_side *from = side->peer;
	struct sim *sim = side->sim;
	struct sim_xfer *xfer;
	uint32_t index, post;

	sim->count.notes++;
	if (sim->p.hostile)
		return;
	if (msg->standalone) {
		standalone_seen(from, msg);
		return;
	}
	if (!msg->bytes) {
		from->empty_seen++;
		return;
	}
	SIM_CHECK(sim, msg->bytes >= 8, "an attached notification of %llu bytes",
		  (unsigned long long)msg->bytes);
	memcpy(&index, msg->data, 4);
	memcpy(&post, msg->data + 4, 4);
	SIM_CHECK(sim, index < from->nxfers, "a notification of no transfer");
	xfer = from->xfers[index];
	SIM_TRACE(sim, "%d notified of %u", side->index, xfer->number);
	if (post != xfer->post)
		return; /* of an earlier, cancelled post */
	SIM_CHECK(sim, !xfer->notified++, "transfer %u is notified twice", xfer->number);
	SIM_CHECK(sim, msg->bytes == xfer->x.notify_bytes && note_equal(msg, xfer->pattern, 8),
		  "the notification of transfer %u is wrong", xfer->number);
	SIM_CHECK(sim,
		  !xfer->bad && !xfer->refused && !(xfer->corrupt && xfer->x.op == TCPX_OP_WRITE),
		  "refused transfer %u is notified", xfer->number);
	SIM_CHECK(sim, xfer->active || xfer->cancelled || !from->alive,
		  "failed transfer %u is notified", xfer->number);
	if (xfer->x.op == TCPX_OP_WRITE || xfer->active)
		SIM_CHECK(sim, sim_xfer_equal(xfer, xfer->segs.total, xfer->pattern),
			  "transfer %u is notified before its bytes are in place", xfer->number);
}

/* Notifications that arrive behind their WRITE, or wait until it is committed. */
static uint64_t notes_behind(const struct core_chan *chan)
{
	uint64_t sum =
		chan->piggyback.arriving ? CORE_NOTE_COST + chan->piggyback.arriving->bytes : 0;
	struct list_node *pos;

	LIST_FOREACH(pos, &chan->piggyback.waiting)
		sum += CORE_NOTE_COST + LIST_ENTRY(pos, struct core_notify_in, node)->bytes;
	return sum;
}

/* What is kept, or may still come, was set aside. */
static void sim_cover_check(const struct sim_side *side, uint64_t notes)
{
	const struct core_cover *cover = &side->link.cover;
	uint64_t window =
		cover->first + cover->granted - side->link.credit[FRAME_CREDIT_NOTIFY].given;

	SIM_CHECK(side->sim,
		  window + cover->spare == cover->first + side->note_taken && notes <= window,
		  "%llu bytes of notifications kept, %llu set aside", (unsigned long long)notes,
		  (unsigned long long)(cover->first + side->note_taken));
}

/* What a peer made us keep. */
void sim_budget_check(struct sim_side *side)
{
	const uint64_t *credit = side->sim->p.credit[side->index];
	struct list_node *pos;
	uint64_t notes = 0, eager = 0;
	uint32_t i;

	if (!side->alive)
		return;
	LIST_FOREACH(pos, &side->link.sendrecv.sends)
		eager += LIST_ENTRY(pos, struct core_send_in, node)->cost;
	LIST_FOREACH(pos, &side->link.notify.incoming.list)
		notes += CORE_NOTE_COST + LIST_ENTRY(pos, struct core_notify_in, node)->bytes;
	for (i = 0; i < side->link.nchan; i++)
		notes += notes_behind(&side->link.chan[i]);
	LIST_FOREACH(pos, &side->unread)
		notes += CORE_NOTE_COST + LIST_ENTRY(pos, struct core_notify_in, node)->bytes;
	SIM_CHECK(side->sim, eager <= credit[FRAME_CREDIT_EAGER], "%llu bytes of messages kept",
		  (unsigned long long)eager);
	SIM_CHECK(side->sim, notes <= credit[FRAME_CREDIT_NOTIFY],
		  "%llu bytes of notifications kept", (unsigned long long)notes);
	sim_cover_check(side, notes);
}

/* Nothing moves any more: nobody may wait for anything but a SEND or RECV of the other side. */
void sim_quiet_check(struct sim *sim)
{
	uint32_t waiting[2][2] = {{0}}, i;
	int s;

	if (sim->p.hostile)
		return;
	for (s = 0; s < 2; s++) {
		struct sim_side *side = &sim->side[s];

		for (i = 0; i < side->nxfers; i++) {
			struct sim_xfer *xfer = side->xfers[i];
			bool send = xfer->x.op == TCPX_OP_SEND;

			if (!xfer->active)
				continue;
			SIM_CHECK(
				sim, send || xfer->x.op == TCPX_OP_RECV,
				"deadlock: transfer %u (op %d) of side %d waits for ever, state %d",
				xfer->number, xfer->x.op, s, xfer->x.state);
			SIM_CHECK(sim, !xfer->cancelled,
				  "transfer %u was cancelled and never ended", xfer->number);
			waiting[s][send]++;
		}
		for (i = 0; i <= sim->p.bulk_channels; i++)
			sim_asked_check(sim, side, i);
		SIM_CHECK(sim, !side->fill_used,
			  "%llu bytes are filled for requests that wait for an application",
			  (unsigned long long)side->fill_used);
	}
	for (s = 0; s < 2; s++)
		SIM_CHECK(sim, !waiting[s][1] || !waiting[1 - s][0],
			  "deadlock: %u SENDs of side %d and %u RECVs wait for each other",
			  waiting[s][1], s, waiting[1 - s][0]);
}

/* The k-th RECV that was paired has the k-th SEND that was posted, whatever was cancelled: a RECV
 * cancelled before leaves no hole, a SEND that failed takes a RECV with it. */
static void check_order(struct sim_side *side)
{
	uint32_t pairs = 0, i;

	for (i = 0; i < side->nrecv; i++) {
		if (!side->got[i])
			continue;
		SIM_CHECK(side->sim, side->got[i] == ++pairs,
			  "RECV %u of side %d has SEND %u, not %u", i, side->index, side->got[i],
			  pairs);
	}
}

/* A SEND that ended unannounced waits for its number's turn, or for nothing but credit. */
static bool cancelled_wait_for_credit(const struct core_link *link)
{
	return list_empty(&link->sendq.cancelled) ||
	       link->credit[FRAME_CREDIT_EAGER].limit - link->credit[FRAME_CREDIT_EAGER].used <
		       CORE_NOTE_COST;
}

/* Messages of cancelled SENDs stay until a RECV takes them. */
static uint64_t kept(const struct core_link *link, int kind)
{
	struct list_node *pos;
	uint64_t sum = 0;

	if (kind == FRAME_CREDIT_READ)
		return link->nresps; /* sent, and nobody needs to know that they arrived */
	if (kind != FRAME_CREDIT_EAGER)
		return 0;
	LIST_FOREACH(pos, &link->sendrecv.sends)
		sum += LIST_ENTRY(pos, struct core_send_in, node)->cost;
	return sum;
}

static bool resps_sent(const struct core_link *link)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &link->resps) {
		const struct core_resp *resp = LIST_ENTRY(pos, struct core_resp, node);

		if (resp->job.linear < resp->job.end || resp->job.retransmit || resp->refs)
			return false;
	}
	return true;
}

/* Everything ended and drained: credits are whole, lists empty, nothing is held. */
void sim_final_check(struct sim *sim)
{
	uint32_t i;
	int s, kind;

	if (sim->p.hostile)
		return;
	for (s = 0; s < 2; s++) {
		struct sim_side *side = &sim->side[s];
		struct core_link *a = &side->link, *b = &side->peer->link;
		uint64_t ahead;

		check_order(side);
		for (i = 0; i < side->nxfers; i++)
			SIM_CHECK(sim, !side->xfers[i]->active, "transfer %u never ended",
				  side->xfers[i]->number);
		if (sim->broken)
			continue;
		SIM_CHECK(sim, side->empty_seen >= side->empty_done,
			  "empty notifications are lost");
		for (i = side->noted_seen; i < side->nnoted; i++)
			SIM_CHECK(sim, side->noted[i].dropped, "notification %u never came", i);
		for (kind = 0; kind < FRAME_CREDIT_STAGE; kind++)
			SIM_CHECK(sim,
				  a->credit[kind].used == b->credit[kind].taken &&
					  b->credit[kind].taken ==
						  b->credit[kind].given + kept(b, kind),
				  "credit %d of side %d: %llu used, %llu taken, %llu given back",
				  kind, s, (unsigned long long)a->credit[kind].used,
				  (unsigned long long)b->credit[kind].taken,
				  (unsigned long long)b->credit[kind].given);
		for (i = 0; i < a->nchan; i++)
			SIM_CHECK(sim, !notes_behind(&a->chan[i]),
				  "channel %u keeps a notification of nothing", i);
		SIM_CHECK(sim, !a->ref_bytes, "%llu bytes by reference are under way for nobody",
			  (unsigned long long)a->ref_bytes);
		ahead = a->stage_in.granted - a->stage_in.used;
		SIM_CHECK(sim, side->stage_used == ahead && ahead <= a->stage_in.ahead,
			  "%llu bytes of staging are held for nobody, %llu granted ahead",
			  (unsigned long long)side->stage_used, (unsigned long long)ahead);
		SIM_CHECK(sim,
			  resps_sent(a) && list_empty(&a->notify.notes) &&
				  list_empty(&a->sendq.ctl) && list_empty(&a->sendq.small) &&
				  list_empty(&a->sendq.bulk) && list_empty(&a->sendq.sends) &&
				  list_empty(&a->cover.unpaid) &&
				  list_empty(&a->notify.incoming.list) &&
				  list_empty(&a->fillq.jobs) && list_empty(&a->fillq.ahead) &&
				  !side->fill_used && cancelled_wait_for_credit(a) &&
				  list_empty(&a->active),
			  "side %d is idle and has work left", s);
	}
}
