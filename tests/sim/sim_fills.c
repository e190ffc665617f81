/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules of staged sources: room that is short, fills that fail or are under way. */
#include "sim_cases.h"

#define ROOM 16384 /* one slice of any job */

static const struct sim_profile *all_staged(void)
{
	static struct sim_profile p;
	int side;

	sim_profile_plain(&p);
	for (side = 0; side < 2; side++) {
		p.staged[side] = 100;
		p.fill_pool[side] = ROOM;
	}
	return &p;
}

static struct sim_xfer *start_first(struct sim *sim, int side, enum tcpx_op op, uint64_t bytes,
				    int32_t priority)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[side], op, bytes, 3);

	xfer->x.priority = priority;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "post");
	return xfer;
}

/* WRITEs that wait for the peer's staging, which its READs have, hold all the room that the answers
 * to those READs need. */
static void writes_and_reads_share_little_room(struct sim *sim)
{
	struct sim_xfer *xfers[8];
	int i;

	for (i = 0; i < 8; i += 2) {
		xfers[i] = start_first(sim, i / 2 % 2, TCPX_OP_READ, 24000, 0);
		xfers[i + 1] = start_first(sim, i / 2 % 2, TCPX_OP_WRITE, 12000, 1);
	}
	for (i = 0; i < 8; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
}

void case_writes_and_reads_share_little_room(void *arg)
{
	struct sim_profile p = *all_staged();

	(void)arg;
	p.stage_pool[0] = p.stage_pool[1] = 5000;
	p.chunk_bytes = 4096;
	sim_case(writes_and_reads_share_little_room, &p);
}

/* Nobody receives: SENDs may wait for ever, and the WRITE behind them not. */
static void sends_that_wait_hold_no_room(struct sim *sim)
{
	struct sim_xfer *sends[10], *recvs[10], *write;
	int i;

	for (i = 0; i < 10; i++)
		sends[i] = sim_start(sim, 0, TCPX_OP_SEND, 3000, 2);
	write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	sim_wait(sim, write, TCPX_OK);
	sim_run_all(sim);
	SIM_CHECK(sim, sends[0]->active && !sim->side[0].fill_used, "room is held");
	for (i = 0; i < 10; i++)
		recvs[i] = sim_start(sim, 1, TCPX_OP_RECV, i & 1 ? 3000 : 100, 1);
	for (i = 0; i < 10; i++) {
		sim_wait(sim, sends[i], TCPX_OK);
		sim_wait(sim, recvs[i], i & 1 ? TCPX_OK : TCPX_ERR_TRUNCATED);
	}
}

void case_sends_that_wait_hold_no_room(void *arg)
{
	struct sim_profile p = *all_staged();

	(void)arg;
	p.credit[1][FRAME_CREDIT_EAGER] = 7000;
	sim_case(sends_that_wait_hold_no_room, &p);
}

/* SENDs leave in their order whatever their priority; so room goes to the first of them first. */
static void sends_are_filled_in_their_order(struct sim *sim)
{
	struct sim_xfer *sends[6], *recvs[6];
	int i;

	for (i = 0; i < 6; i++)
		sends[i] = start_first(sim, 0, TCPX_OP_SEND, 10000, i);
	for (i = 0; i < 6; i++)
		recvs[i] = sim_start(sim, 1, TCPX_OP_RECV, 10000, 1);
	for (i = 0; i < 6; i++) {
		sim_wait(sim, sends[i], TCPX_OK);
		sim_wait(sim, recvs[i], TCPX_OK);
	}
}

void case_sends_are_filled_in_their_order(void *arg)
{
	(void)arg;
	sim_case(sends_are_filled_in_their_order, all_staged());
}

static void sources_that_cannot_be_read(struct sim *sim)
{
	struct sim_xfer *recv = sim_start(sim, 1, TCPX_OP_RECV, 40 << 10, 1);
	struct sim_xfer *send = sim_start(sim, 0, TCPX_OP_SEND, 40 << 10, 2);
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 2);
	struct sim_xfer *read = sim_start(sim, 0, TCPX_OP_READ, 40 << 10, 2);

	sim_wait(sim, write, TCPX_ERR_CORRUPT);
	sim_wait(sim, send, TCPX_ERR_CORRUPT);
	sim_wait(sim, read, TCPX_ERR_REMOTE);
	sim_wait(sim, recv, TCPX_ERR_REMOTE);
}

void case_sources_that_cannot_be_read(void *arg)
{
	struct sim_profile p = *all_staged();

	(void)arg;
	p.fill_fail = 100;
	sim_case(sources_that_cannot_be_read, &p);
}

static bool filling(struct sim *sim, void *arg)
{
	return sim_fill_under_way(&sim->side[0], arg);
}

static void cancel_within_a_fill_waits_for_it(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);

	sim_until(sim, filling, xfer, "a fill is under way");
	sim_cancel(xfer, TCPX_ERR_CANCELLED);
	SIM_CHECK(sim, xfer->active, "it ended within a fill");
	sim_wait(sim, xfer, TCPX_ERR_CANCELLED);
}

void case_cancel_within_a_fill_waits_for_it(void *arg)
{
	(void)arg;
	sim_case(cancel_within_a_fill_waits_for_it, all_staged());
}

static bool ready(struct sim *sim, void *arg)
{
	const struct core_job *job = &((struct sim_xfer *)arg)->x.job;

	(void)sim;
	return job->fill.ready > job->linear && job->linear;
}

/* What was taken back is asked for again, and goes out as it should. */
static void room_is_taken_back(struct sim *sim)
{
	struct sim_xfer *xfer = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 5);

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	while (xfer->active) {
		if (ready(sim, xfer) && sim_chance(sim, 50)) {
			SIM_ENTER(sim);
			SIM_CHECK(sim, core_fill_back(&sim->side[0].link, &xfer->x.job),
				  "there is something to take back");
			SIM_CHECK(sim, !core_fill_back(&sim->side[0].link, &xfer->x.job),
				  "taken back twice");
			SIM_LEAVE(sim);
		}
		sim_step(sim);
	}
	SIM_CHECK(sim, xfer->status == TCPX_OK, "ended with %d", xfer->status);
}

void case_room_is_taken_back(void *arg)
{
	(void)arg;
	sim_case(room_is_taken_back, all_staged());
}

/* A slice holds so many pieces as a frame may, and frames begin where another one's grant ended. */
static void slices_of_many_pieces(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 50000, 10000);
	struct sim_xfer *read = sim_start(sim, 1, TCPX_OP_READ, 50000, 10000);
	struct sim_xfer *send = sim_start(sim, 0, TCPX_OP_SEND, 12000, 6000);
	struct sim_xfer *recv = sim_start(sim, 1, TCPX_OP_RECV, 12000, 1);

	sim_wait(sim, write, TCPX_OK);
	sim_wait(sim, read, TCPX_OK);
	sim_wait(sim, send, TCPX_OK);
	sim_wait(sim, recv, TCPX_OK);
}

void case_slices_of_many_pieces(void *arg)
{
	struct sim_profile p = *all_staged();

	(void)arg;
	p.chunk_bytes = 16 << 10;
	p.stage_pool[0] = p.stage_pool[1] = 7777;
	p.fill_back = 20;
	sim_case_of(slices_of_many_pieces, &p, 5);
}
