/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks that are messages of a channel with a window, and which transfers go like that. */
#include "sim.h"

/* Some of the bulk channels carry messages, the others none. */
void sim_msg_profile(struct sim_profile *p, struct rng *rng)
{
	static const uint32_t percents[] = {50, 100}, windows[] = {1, 2, 12};

	if (p->by_ref || !rng_one_in(rng, 3))
		return;
	p->by_msg = percents[rng_below(rng, 2)];
	p->bulk_channels += p->bulk_channels == 1;
	p->message_channels = 1 + (uint32_t)rng_below(rng, p->bulk_channels - 1);
	p->message_bytes = p->chunk_bytes * (1 + (uint32_t)rng_below(rng, 2));
	p->message_window = windows[rng_below(rng, 3)];
}

/* At each post anew. What goes like that needs no staging; of a SEND each side decides for itself,
 * so it may become a stream. */
void sim_msg_route(struct sim_xfer *xfer)
{
	struct sim *sim = xfer->side->sim;

	if (!sim->p.by_msg)
		return;
	xfer->x.local_staged = xfer->local[0] && xfer->local[0]->staged;
	xfer->x.remote_staged =
		xfer->remote[0] && xfer->remote[0]->staged && xfer->x.op == TCPX_OP_WRITE;
	xfer->x.path = xfer->x.op != TCPX_OP_NOTIFY && sim_route_drawn(sim, sim->p.by_msg)
			       ? CORE_PATH_MESSAGE
			       : CORE_PATH_STREAM;
	if (xfer->x.path == CORE_PATH_MESSAGE && xfer->x.op != TCPX_OP_SEND &&
	    xfer->x.op != TCPX_OP_RECV)
		xfer->x.local_staged = xfer->x.remote_staged = false;
}

bool sim_msg_channel(const struct sim *sim, uint32_t channel)
{
	return channel > sim->p.bulk_channels - sim->p.message_channels;
}

bool sim_is_msg(const struct frame *frame)
{
	return frame->flags & FRAME_F_MSG && frame->payload_bytes;
}

/* A message was cut; so many others of its channel were under way. */
void sim_msg_check(struct sim_side *side, const struct core_tx *tx, uint32_t others)
{
	struct sim *sim = side->sim;
	const struct frame *frame = &tx->frame;

	SIM_CHECK(sim, sim_msg_channel(sim, tx->channel), "a message on channel %u", tx->channel);
	SIM_CHECK(sim, tx->job->path == CORE_PATH_MESSAGE && !tx->job->fills && !tx->job->staged,
		  "a message of a job that is filled or wants staging");
	SIM_CHECK(sim, tx->pieces == 1 && !tx->table, "a message of %u pieces", tx->pieces);
	SIM_CHECK(sim, frame->payload_bytes <= sim->p.message_bytes, "a message of %u bytes",
		  frame->payload_bytes);
	SIM_CHECK(sim, others < sim->p.message_window, "%u messages are under way, and one more",
		  others);
	SIM_CHECK(sim,
		  side->fail_scheduled ||
			  side->link.chan[tx->channel].inflight.messages == others + 1,
		  "%u messages are under way, and %u are counted", others + 1,
		  side->link.chan[tx->channel].inflight.messages);
	sim->count.messages++;
}

/* Messages could be cut of it. */
bool sim_msg_waits(const struct core_job *job)
{
	return job->path == CORE_PATH_MESSAGE && job->kind != CORE_JOB_REQUEST &&
	       (job->retransmit || job->linear < job->end);
}
