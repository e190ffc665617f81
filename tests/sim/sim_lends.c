/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of chunks by reference: who copies them while a request, a source, a channel
 * or a link comes to its end. */
#include "sim_cases.h"

/* All memory is lent, copies take long. */
static struct sim_profile *lending(void)
{
	static struct sim_profile p;

	sim_profile_plain(&p);
	p.staged[0] = p.staged[1] = p.by_ref = 100;
	p.ref_chunk = 2048;
	p.ref_window = 8192;
	p.commit = 3000;
	return &p;
}

static struct sim_profile *one_at_a_time(void)
{
	struct sim_profile *p = lending();

	p->ref_window = 1;
	p->commit = 50;
	return p;
}

static struct sim_profile *failing_copies(void)
{
	struct sim_profile *p = lending();

	p->corrupt = 100;
	return p;
}

static struct sim_commit *some_copy(struct sim *sim, int side)
{
	struct list_node *pos;

	LIST_FOREACH(pos, &sim->side[side].commits) {
		struct sim_commit *commit = LIST_ENTRY(pos, struct sim_commit, node);

		if (commit->lent)
			return commit;
	}
	return NULL;
}

static bool copies_from_0(struct sim *sim, void *arg)
{
	(void)arg;
	return some_copy(sim, 1) != NULL;
}

static void everything_goes_by_reference(struct sim *sim)
{
	int s;

	sim_case_all_ways(sim);
	SIM_CHECK(sim, sim->count.lent >= 6 * 20, "%llu chunks by reference",
		  (unsigned long long)sim->count.lent);
	SIM_CHECK(sim, !sim->count.fills, "something was filled");
	for (s = 0; s < 2; s++)
		SIM_CHECK(sim, !sim->side[s].link.stage_in.granted, "staging was granted");
}
CASE(everything_goes_by_reference, lending())
/* With room for one chunk each acknowledgement must bring the next. */
void case_one_chunk_by_reference_at_a_time(void *arg)
{
	(void)arg;
	sim_case(everything_goes_by_reference, one_at_a_time());
}

/* Two messages of which one side only can: the bytes go. */
static void one_side_cannot(struct sim *sim, int which)
{
	struct sim_xfer *send, *recv;

	sim->p.by_ref = which ? 0 : 100;
	send = sim_start(sim, 0, TCPX_OP_SEND, 40 << 10, 3);
	sim->p.by_ref = which ? 100 : 0;
	recv = sim_start(sim, 1, TCPX_OP_RECV, 40 << 10, 2);
	sim_wait(sim, send, TCPX_OK);
	sim_wait(sim, recv, TCPX_OK);
	SIM_CHECK(sim, !sim->count.lent, "chunks went by reference");
	sim->p.by_ref = 100;
}

static void messages_by_reference_need_both_sides(struct sim *sim)
{
	one_side_cannot(sim, 0);
	one_side_cannot(sim, 1);
}
CASE(messages_by_reference_need_both_sides, lending())

static void cancel_waits_for(struct sim *sim, enum tcpx_op op)
{
	struct sim_xfer *xfer = sim_start(sim, 0, op, 40 << 10, 2), *recv = NULL;

	if (op == TCPX_OP_SEND)
		recv = sim_start(sim, 1, TCPX_OP_RECV, 40 << 10, 2);
	sim_until(sim, copies_from_0, NULL, "a copy is under way");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, xfer->active, "it ended within a copy");
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
	if (recv)
		sim_wait(sim, recv, TCPX_ERR_REMOTE);
}

static void cancel_waits_for_the_copies(struct sim *sim)
{
	cancel_waits_for(sim, TCPX_OP_WRITE);
	sim_run_all(sim);
	cancel_waits_for(sim, TCPX_OP_SEND);
}
CASE(cancel_waits_for_the_copies, lending())

/* A peer that is stopped may have the frames, and copies when it goes on. */
static void cancel_waits_for_a_stopped_reader(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	int64_t stop;

	sim_until(sim, sim_case_lends, xfer, "chunks are lent");
	stop = sim->side[1].stopped_until = sim->now + 1000000;
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, sim->now >= stop, "it ended before the peer could say that it is done");
}
CASE(cancel_waits_for_a_stopped_reader, lending())

static bool quiesced(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_region *)arg)->dead;
}

static void source_deregistered_under_copies(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 1, TCPX_OP_READ, 40 << 10, 1);

	sim_until(sim, copies_from_0, NULL, "a copy is under way");
	sim_deregister(xfer->remote[0]);
	SIM_CHECK(sim, !xfer->remote[0]->dead, "the region is quiesced within a copy");
	sim_until(sim, quiesced, xfer->remote[0], "the region is quiesced");
	sim_until(sim, sim_case_over, xfer, "the READ ends");
	SIM_CHECK(sim, xfer->status == TCPX_ERR_DEREGISTERED || xfer->status == TCPX_ERR_REMOTE,
		  "ended with %d", xfer->status);
}
CASE(source_deregistered_under_copies, lending())

/* The fence waits for the copies; what came after them is copied again, over another channel. */
static void channel_lost_under_copies(struct sim *sim)
{
	struct sim_xfer *xfers[2], *read;
	struct sim_commit *copy;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	xfers[0] = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 3);
	xfers[1] = sim_start(sim, 0, TCPX_OP_WRITE, 20 << 10, 3);
	read = sim_start(sim, 1, TCPX_OP_READ, 40 << 10, 3);
	sim_until(sim, copies_from_0, NULL, "a copy is under way");
	copy = some_copy(sim, 1);
	sim_cut_force(sim, copy->channel);
	sim_wait(sim, xfers[0], TCPX_OK);
	sim_wait(sim, xfers[1], TCPX_OK);
	sim_wait(sim, read, TCPX_OK);
}
CASE(channel_lost_under_copies, lending())

/* A link that is dead here: the peer copies on until it is dead there too. */
static void link_fails_under_copies(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 3);
	struct sim_xfer *cancelled = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 3);
	struct sim_xfer *read = sim_start(sim, 1, TCPX_OP_READ, 40 << 10, 1);

	sim_until(sim, sim_case_lends, write, "chunks are lent");
	sim_until(sim, sim_case_lends, cancelled, "chunks are lent");
	sim_until(sim, copies_from_0, NULL, "a copy is under way");
	if (cancelled->active)
		sim_cancel(cancelled, TCPX_ERR_CANCELLED);
	sim_link_fail(&sim->side[0], TCPX_ERR_PEER_RESET);
	SIM_CHECK(sim, sim->side[0].link.leased, "no lease");
	SIM_CHECK(sim, write->active && cancelled->active, "it ended and the peer may copy");
	sim_until(sim, sim_case_over, write, "the lease is over");
	SIM_CHECK(sim, !sim->side[1].alive && !some_copy(sim, 1), "ended and the peer may copy");
	SIM_CHECK(sim, write->status == TCPX_ERR_PEER_RESET, "ended with %d", write->status);
	SIM_CHECK(sim, cancelled->status == TCPX_ERR_CANCELLED, "ended with %d", cancelled->status);
	sim_until(sim, sim_case_over, read, "the READ ends");
	SIM_CHECK(sim, list_empty(&sim->side[0].resps), "a resp is left");
}

void case_link_fails_under_copies(void *arg)
{
	struct sim_profile *p = lending();

	(void)arg;
	p->ref_window = 64 << 10;
	p->commit = 20000;
	sim_case(link_fails_under_copies, p);
}

static void copies_that_fail(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	struct sim_xfer *read = sim_start(sim, 0, TCPX_OP_READ, 40 << 10, 2);
	struct sim_xfer *send = sim_start(sim, 0, TCPX_OP_SEND, 40 << 10, 2);
	struct sim_xfer *recv = sim_start(sim, 1, TCPX_OP_RECV, 40 << 10, 2);

	sim_wait(sim, write, TCPX_ERR_CORRUPT);
	sim_wait(sim, read, TCPX_ERR_CORRUPT);
	sim_wait(sim, recv, TCPX_ERR_CORRUPT);
	sim_wait(sim, send, TCPX_ERR_REMOTE);
}
CASE(copies_that_fail, failing_copies())

static void refused_by_reference(struct sim *sim)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 40 << 10, 1);

	xfer->keys[0] ^= 0x5555000000ull;
	xfer->bad = true;
	xfer->bad_status = TCPX_ERR_REMOTE_KEY;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK && xfer->x.path == CORE_PATH_REFERENCE, "post");
	sim_wait(sim, xfer, TCPX_ERR_REMOTE_KEY);
	SIM_CHECK(sim, !sim->count.commits, "something was copied");
}
CASE(refused_by_reference, lending())
