/* SPDX-License-Identifier: Apache-2.0 */
/* Filled slices that went to the transport without a copy: it reads them until the peer took the
 * frame. They are kept as the engine keeps them, and what the peer takes must be what was sent. */
#include "sim.h"

#include <string.h>

struct sim_hold {
	struct list_node node; /* side->holds */
	struct sim_conn *conn;
	uint64_t seq;
	bool dead; /* the link is: until the peer's end of the connection is closed */
	struct sim_slice *slices[SIM_FRAME_SLICES];
	uint32_t nslices;
};

/* The frame just cut. A small one is copied. */
void sim_hold_frame(struct sim_side *side, struct sim_tx *tx, struct sim_conn *conn)
{
	struct sim_frame *frame = tx->frame;
	struct sim_hold *hold;
	uint32_t i;

	if (!tx->nslices || tx->tx.job->small)
		return;
	hold = sim_alloc(sizeof(*hold));
	*hold = (struct sim_hold){.conn = conn, .seq = frame->frame.seq, .nslices = tx->nslices};
	frame->nslices = tx->nslices;
	frame->linear = tx->linear;
	for (i = 0; i < tx->nslices; i++) {
		tx->slices[i]->users++;
		frame->slices[i] = hold->slices[i] = tx->slices[i];
	}
	list_push_back(&side->holds, &hold->node);
}

static void let_go(struct sim_hold *hold)
{
	list_remove(&hold->node);
	sim_fill_put(hold->slices, &hold->nslices);
}

/* The peer may have said that it took more. */
void sim_hold_got(struct sim_side *side, uint32_t channel)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->holds) {
		struct sim_hold *hold = LIST_ENTRY(pos, struct sim_hold, node);

		if (hold->conn == side->chan[channel].conn &&
		    hold->seq <= side->link.chan[channel].inflight.taken_seq)
			let_go(hold);
	}
}

/* The fence of a lost channel is through. */
void sim_hold_fenced(struct sim_side *side, uint32_t channel)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->holds) {
		struct sim_hold *hold = LIST_ENTRY(pos, struct sim_hold, node);

		if (hold->conn->channel == channel)
			let_go(hold);
	}
}

static bool peer_takes(const struct sim_side *side, const struct sim_conn *conn)
{
	const struct sim_chan *chan = &side->peer->chan[conn->channel];

	return chan->up && chan->conn == conn;
}

/* The link failed; the peer may not know it yet. */
void sim_hold_dead(struct sim_side *side)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->holds) {
		struct sim_hold *hold = LIST_ENTRY(pos, struct sim_hold, node);

		hold->dead = true;
		if (!peer_takes(side, hold->conn))
			let_go(hold);
	}
}

/* The peer of the side closed its end. */
void sim_hold_ended(struct sim_side *side, const struct sim_conn *conn)
{
	struct list_node *pos, *tmp;

	LIST_FOREACH_SAFE(pos, tmp, &side->holds) {
		struct sim_hold *hold = LIST_ENTRY(pos, struct sim_hold, node);

		if (hold->dead && hold->conn == conn)
			let_go(hold);
	}
}

/* Bytes of a frame's payload are taken out of the transport: what the slices hold now. */
void sim_hold_taken(struct sim *sim, const struct sim_frame *frame, uint32_t from, uint32_t bytes)
{
	uint32_t till = from + bytes < frame->by_slices ? from + bytes : frame->by_slices, i;

	for (i = 0; i < frame->nslices && from < till; i++) {
		const struct sim_slice *slice = frame->slices[i];
		uint64_t at = frame->linear + from, end = slice->linear + slice->bytes;
		uint64_t n = end - at < till - from ? end - at : till - from;

		if (end <= at)
			continue;
		SIM_HONEST(sim,
			   !memcmp(frame->payload + from, slice->data + (at - slice->linear), n),
			   "bytes %llu..%llu changed in the transport", (unsigned long long)at,
			   (unsigned long long)(at + n));
		from += (uint32_t)n;
	}
}

/* ---- what is acknowledged ---- */

/* A frame was taken out of the transport. */
void sim_taken(struct sim_rx *rx, const struct frame *frame)
{
	if (!frame->seq)
		return;
	rx->taken = frame->seq;
	if (!(frame->flags & FRAME_F_ACK))
		return;
	rx->asked = sim_grow(rx->asked, rx->nasked, &rx->cap_asked, sizeof(*rx->asked));
	rx->asked[rx->nasked++] = frame->seq;
}

/* An acknowledgement was cut. */
void sim_told(struct sim *sim, struct sim_rx *rx, const struct frame *frame)
{
	uint32_t i = 0;

	if (frame->type != FRAME_ACK)
		return;
	if (!rx->asked)
		rx->asked = sim_grow(NULL, 0, &rx->cap_asked, sizeof(*rx->asked));
	SIM_CHECK(sim, frame->key == rx->taken, "%llu is said to be taken, not %llu",
		  (unsigned long long)frame->key, (unsigned long long)rx->taken);
	while (i < rx->nasked && rx->asked[i] <= frame->linear)
		i++;
	rx->nasked -= i;
	memmove(rx->asked, rx->asked + i, rx->nasked * sizeof(*rx->asked));
}

/* A chunk of it could go out over a channel with room. */
static bool waits(const struct core_link *link, const struct core_job *job)
{
	return job->fills && !job->small && !job->retransmit && job->linear < job->fill.ready &&
	       !(job->staged && link->stage_out.granted == link->stage_out.used);
}

/* The same of one by reference. */
static bool waits_lent(const struct core_link *link, const struct core_job *job)
{
	return job->path == CORE_PATH_REFERENCE && !job->small &&
	       (job->retransmit || job->linear < job->end) &&
	       link->ref_bytes < link->cfg.ref_window;
}

static bool has_places(const struct core_chan *chan)
{
	return chan->inflight.next_seq - 1 - chan->inflight.acked_seq < CORE_RING / 2;
}

static bool has_room(const struct sim *sim, const struct core_chan *chan)
{
	uint64_t chunks = CORE_FILLED_CHUNKS * (uint64_t)sim->p.chunk_bytes;
	uint64_t large = (uint64_t)sim->p.filled_chunk_bytes + sim->p.chunk_bytes;

	return chan->inflight.filled_bytes < (chunks > large ? chunks : large) && has_places(chan);
}

/* The channel found nothing: where no other one is going to look either, there is nothing. */
void sim_idle_check(struct sim *sim, const struct sim_side *side)
{
	const struct core_link *link = &side->link;
	const struct list_node *pos;
	bool room = false, places = false, messages = false;
	uint32_t i;

	for (i = 1; side->alive && i < link->nchan; i++) {
		if (link->chan[i].state != CORE_CHAN_UP)
			continue;
		if (!link->chan[i].idle)
			return;
		if (sim_msg_channel(sim, i)) {
			messages |= link->chan[i].inflight.messages < sim->p.message_window &&
				    has_places(&link->chan[i]);
			continue;
		}
		room |= has_room(sim, &link->chan[i]);
		places |= has_places(&link->chan[i]);
	}
	LIST_FOREACH(pos, &link->sendq.bulk) {
		const struct core_job *job = LIST_ENTRY(pos, struct core_job, node);

		SIM_CHECK(sim, !room || !waits(link, job),
			  "filled bytes wait for a channel, and none looks");
		SIM_CHECK(sim, !places || !waits_lent(link, job),
			  "bytes by reference wait for a channel, and none looks");
		SIM_CHECK(sim, !messages || !sim_msg_waits(job),
			  "messages wait for a channel, and none looks");
	}
}

/* The channel has nothing to send: whoever asked and was applied has his answer. */
void sim_asked_check(struct sim *sim, const struct sim_side *side, uint32_t channel)
{
	const struct core_chan *chan = &side->link.chan[channel];
	const struct sim_rx *rx = &side->chan[channel].rx;

	if (!side->alive || chan->state != CORE_CHAN_UP || chan->rxseq.unsent || !rx->nasked)
		return;
	SIM_CHECK(sim, rx->asked[0] > chan->rxseq.applied,
		  "channel %u: %llu asked, %llu is applied, and nothing is said", channel,
		  (unsigned long long)rx->asked[0], (unsigned long long)chan->rxseq.applied);
}
