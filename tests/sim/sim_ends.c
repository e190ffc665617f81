/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of ends that meet: of a link, of a source, of a request that waits. */
#include "sim_cases.h"

static bool notifying(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_xfer *)arg)->x.state == CORE_NOTIFYING;
}

static struct sim_xfer *start_noted(struct sim *sim, enum tcpx_op op)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], op, 2000, 2);

	xfer->x.has_notify = true;
	xfer->x.notify_bytes = 100;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	return xfer;
}

/* The reader has its bytes; what happens to the source then is no failure of the READ. */
static void read_has_its_bytes_when_the_source_goes(struct sim *sim)
{
	struct sim_xfer *xfer = start_noted(sim, TCPX_OP_READ);

	sim_until(sim, notifying, xfer, "the bytes are here");
	sim_deregister(xfer->remote[0]);
	sim_wait(sim, xfer, TCPX_OK);
}

void case_read_has_its_bytes_when_the_source_goes(void *arg)
{
	(void)arg;
	sim_case(read_has_its_bytes_when_the_source_goes, NULL);
}

static bool in_flight(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_xfer *)arg)->x.job.inflight > 0 && !((struct sim_xfer *)arg)->x.refs;
}

static void link_fails_under_a_strict_cancel(struct sim *sim)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 900, 1);

	xfer->x.strict = true;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	sim_until(sim, in_flight, xfer, "a frame is on its way");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, xfer->active, "a strict cancel that does not wait");
	sim_link_fail(&sim->side[0], TCPX_ERR_PEER_SILENT);
	SIM_CHECK(sim, !xfer->active, "it waits for a peer that is gone");
	SIM_CHECK(sim, xfer->status == TCPX_ERR_CANCELLED, "ended with %d", xfer->status);
}

void case_link_fails_under_a_strict_cancel(void *arg)
{
	(void)arg;
	sim_case(link_fails_under_a_strict_cancel, NULL);
}

static bool committing(struct sim *sim, void *arg)
{
	(void)arg;
	return !list_empty(&sim->side[0].commits);
}

/* The request outlives the link by its commit; its notification does not. */
static void link_fails_under_a_commit(struct sim *sim)
{
	struct sim_xfer *xfer = start_noted(sim, TCPX_OP_READ);

	sim_until(sim, committing, NULL, "a commit is under way");
	sim_link_fail(&sim->side[0], TCPX_ERR_PEER_CLOSED);
	SIM_CHECK(sim, xfer->active, "it ended under a commit");
	sim_wait(sim, xfer, TCPX_ERR_PEER_CLOSED);
}

void case_link_fails_under_a_commit(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.staged[0] = 100;
	p.commit = 5000;
	sim_case(link_fails_under_a_commit, &p);
}

/* Frames of notifications that nobody waits for are taken back when somebody does. */
static void flush_of_notifications(struct sim *sim)
{
	struct sim_side *side = &sim->side[0];
	int i;

	for (i = 0; i < 5; i++)
		SIM_CHECK(sim, sim_note(side, 100) == TCPX_OK, "post");
	sim_run_all(sim);
	SIM_CHECK(sim, !list_empty(&side->link.notify.notes), "they asked by themselves");
	SIM_ENTER(sim);
	core_link_ask(&side->link);
	SIM_LEAVE(sim);
	SIM_CHECK(sim, sim_note(side, 100) == TCPX_OK, "post"); /* queued while it asks */
	sim_cut(sim, CORE_PRIO);
	sim_run_all(sim);
	SIM_CHECK(sim, list_empty(&side->link.notify.notes), "a flush that never ends");
}

void case_flush_of_notifications(void *arg)
{
	(void)arg;
	sim_case(flush_of_notifications, NULL);
}

static void no_memory_to_queue_again(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);
	struct sim_xfer *noted = start_noted(sim, TCPX_OP_WRITE);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	sim_cut_force(sim, 0);
	sim_cut_force(sim, 1);
	sim->p.alloc_fail = 1;
	sim_until(sim, sim_case_over, xfer, "the WRITE ends");
	sim_until(sim, sim_case_over, noted, "the noted WRITE ends");
}

void case_no_memory_to_queue_again(void *arg)
{
	(void)arg;
	sim_case(no_memory_to_queue_again, NULL);
}
