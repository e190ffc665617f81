/* SPDX-License-Identifier: Apache-2.0 */
/* Directed schedules: the moments that random ones should meet, met for certain. */
#include "sim_cases.h"

static struct sim sim_world;

/* The script's own ending: everything drains and every check of a random schedule holds too. */
void sim_case_of(void (*script)(struct sim *sim), const struct sim_profile *profile, uint64_t seeds)
{
	struct sim_profile plain;
	uint64_t seed;

	if (!profile)
		sim_profile_plain(&plain);
	for (seed = 1; seed <= seeds; seed++)
		if (sim_schedule(&sim_world, seed, profile ? profile : &plain, script))
			check_fail(__FILE__, __LINE__, "seed %llu at %lld: %s",
				   (unsigned long long)seed, (long long)sim_world.now,
				   sim_world.why);
	sim_arena_free();
	free(sim_world.heap);
	sim_world.heap = NULL;
	sim_world.cap_heap = 0;
}

void sim_case(void (*script)(struct sim *sim), const struct sim_profile *profile)
{
	sim_case_of(script, profile, SIM_CASE_SEEDS);
}

struct sim_xfer *sim_start(struct sim *sim, int side, enum tcpx_op op, uint64_t bytes,
			   uint32_t segments)
{
	struct sim_xfer *xfer = sim_xfer_new(&sim->side[side], op, bytes, segments);
	tcpx_status status = sim_post(xfer);

	SIM_CHECK(sim, status == TCPX_OK, "post says %d", status);
	return xfer;
}

/* Steps until the condition holds; the schedule must come to it. */
void sim_until(struct sim *sim, bool (*cond)(struct sim *sim, void *arg), void *arg,
	       const char *what)
{
	while (!cond(sim, arg))
		SIM_CHECK(sim, sim_step(sim), "it never came to this: %s", what);
}

void sim_case_all_ways(struct sim *sim)
{
	struct sim_xfer *xfers[8];
	int i;

	for (i = 0; i < 2; i++) {
		xfers[4 * i] = sim_start(sim, i, TCPX_OP_WRITE, 40 << 10, 5);
		xfers[4 * i + 1] = sim_start(sim, i, TCPX_OP_READ, 40 << 10, 5);
		xfers[4 * i + 2] = sim_start(sim, i, TCPX_OP_SEND, 40 << 10, 5);
		xfers[4 * i + 3] = sim_start(sim, 1 - i, TCPX_OP_RECV, 40 << 10, 5);
	}
	for (i = 0; i < 8; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
}

/* Between two calls, with chunks of which the memory is lent. */
bool sim_case_lends(struct sim *sim, void *arg)
{
	(void)sim;
	return ((struct sim_xfer *)arg)->x.job.reading > 1 && !((struct sim_xfer *)arg)->x.refs;
}

bool sim_case_over(struct sim *sim, void *arg)
{
	(void)sim;
	return !((struct sim_xfer *)arg)->active;
}

void sim_wait(struct sim *sim, struct sim_xfer *xfer, tcpx_status status)
{
	sim_until(sim, sim_case_over, xfer, "a transfer ends");
	SIM_CHECK(sim, xfer->status == status, "transfer %u ended with %d, not %d", xfer->number,
		  xfer->status, status);
}

bool sim_case_all_up(struct sim *sim, void *arg)
{
	uint32_t i;

	(void)arg;
	for (i = 0; i <= sim->p.bulk_channels; i++)
		if (!sim->side[0].chan[i].up || !sim->side[1].chan[i].up)
			return false;
	return true;
}

/* --- nothing and much --- */

static void zero_bytes(struct sim *sim)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_NOTIFY,
					   TCPX_OP_SEND};
	struct sim_xfer *xfers[4], *recv = sim_start(sim, 1, TCPX_OP_RECV, 0, 0);
	struct sim_xfer *noted = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 0, 0);
	int i;

	for (i = 0; i < 4; i++)
		xfers[i] = sim_start(sim, 0, ops[i], 0, 0);
	noted->x.has_notify = true;
	noted->x.notify_bytes = 20;
	SIM_CHECK(sim, sim_post(noted) == TCPX_OK, "post");
	for (i = 0; i < 4; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
	sim_wait(sim, recv, TCPX_OK);
	sim_wait(sim, noted, TCPX_OK);
}

static void case_zero_bytes(void *arg)
{
	(void)arg;
	sim_case(zero_bytes, NULL);
}

static void long_lists(struct sim *sim)
{
	struct sim_xfer *write = sim_start(sim, 0, TCPX_OP_WRITE, 300000, 100000);
	struct sim_xfer *read = sim_start(sim, 1, TCPX_OP_READ, 300000, 100000);

	SIM_CHECK(sim, write->segs.nseg == 100000, "a list of %u", write->segs.nseg);
	sim_wait(sim, write, TCPX_OK);
	sim_wait(sim, read, TCPX_OK);
}

static void case_lists_of_100000_pieces(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.chunk_bytes = 64 << 10;
	sim_case_of(long_lists, &p, 3);
}

/* --- small beside bulk --- */

static void small_beside_bulk(struct sim *sim)
{
	struct sim_xfer *bulk[10], *small;
	int i;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (i = 0; i < 10; i++)
		bulk[i] = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);
	for (i = 0; i < 100; i++)
		sim_step(sim);
	small = sim_start(sim, 0, TCPX_OP_WRITE, 8, 1);
	sim_wait(sim, small, TCPX_OK);
	SIM_CHECK(sim, bulk[9]->active, "8 bytes waited for 400 KiB");
}

static void case_small_does_not_wait_for_bulk(void *arg)
{
	(void)arg;
	sim_case(small_beside_bulk, NULL);
}

static void priority(struct sim *sim)
{
	struct sim_xfer *low = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1), *high;
	struct sim_xfer *more[4];
	int i;

	for (i = 0; i < 4; i++)
		more[i] = sim_start(sim, 0, TCPX_OP_WRITE, 40 << 10, 1);
	high = sim_xfer_new(&sim->side[0], TCPX_OP_WRITE, 40 << 10, 1);
	high->x.priority = 5;
	SIM_CHECK(sim, sim_post(high) == TCPX_OK, "post");
	sim_wait(sim, high, TCPX_OK);
	SIM_CHECK(sim, more[3]->active, "the priority made no difference");
	sim_wait(sim, low, TCPX_OK);
}

static void case_priority_goes_first(void *arg)
{
	(void)arg;
	sim_case(priority, NULL);
}

/* --- credits --- */

static void note_credit(struct sim *sim)
{
	struct sim_side *side = &sim->side[0];
	struct sim_xfer *xfer = sim_xfer_new(side, TCPX_OP_WRITE, 10, 1);
	uint32_t sent = 0, i;

	side->peer->consuming = true; /* the application does not look */
	while (sim_note(side, 36) == TCPX_OK)
		sent++;
	SIM_CHECK(sim, sent == 10, "%u notifications in a budget of ten", sent);
	xfer->x.has_notify = true;
	xfer->x.notify_bytes = 10;
	SIM_CHECK(sim, sim_post(xfer) == TCPX_ERR_AGAIN, "a reserved notification over the budget");
	sim_run_all(sim);
	SIM_CHECK(sim, sim_note(side, 36) == TCPX_ERR_AGAIN, "credit from nowhere");
	side->peer->consuming = false;
	for (i = 0; i < 20; i++) {
		sim_consume_later(side->peer);
		sim_run_all(sim);
		SIM_CHECK(sim, sim_note(side, 36) == TCPX_OK,
			  "no credit after everything was read");
	}
	sim_run_all(sim);
	SIM_CHECK(sim, sim_post(xfer) == TCPX_OK, "no credit for a transfer");
	sim_wait(sim, xfer, TCPX_OK);
}

/* What was given back while there was plenty is told when it runs short. */
static void credit_before_the_shortage(struct sim *sim)
{
	struct sim_side *side = &sim->side[0];
	int i;

	side->peer->consuming = true; /* the application does not look */
	for (i = 0; i < 8; i++)
		SIM_CHECK(sim, sim_note(side, 36) == TCPX_OK, "post %d", i);
	sim_run_all(sim);
	side->peer->consuming = false;
	sim_consume_one(side->peer);
	side->peer->consuming = true;
	sim_run_all(sim);
	for (i = 0; i < 2; i++)
		SIM_CHECK(sim, sim_note(side, 36) == TCPX_OK, "post of the last two");
	sim_run_all(sim);
	SIM_CHECK(sim, sim_note(side, 36) == TCPX_OK, "one was read, and its credit is not here");
	side->peer->consuming = false;
	sim_consume_later(side->peer);
}

static void case_credit_given_back_before_the_shortage(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.credit[1][FRAME_CREDIT_NOTIFY] = 10 * (36 + CORE_NOTE_COST);
	sim_case(credit_before_the_shortage, &p);
}

static void case_notification_credit_runs_out_and_returns(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.credit[1][FRAME_CREDIT_NOTIFY] = 10 * (36 + CORE_NOTE_COST);
	sim_case(note_credit, &p);
}

static void eager_credit(struct sim *sim)
{
	struct sim_xfer *sends[60], *recvs[60];
	int i;

	for (i = 0; i < 60; i++)
		sends[i] = sim_start(sim, 0, TCPX_OP_SEND, (uint64_t)i * 7, 1);
	sim_run_all(sim);
	for (i = 0; i < 60; i++)
		SIM_CHECK(sim, sends[i]->active, "SEND %d ended without a RECV", i);
	for (i = 0; i < 60; i++)
		recvs[i] = sim_start(sim, 1, TCPX_OP_RECV, 500, 2);
	for (i = 0; i < 60; i++) {
		sim_wait(sim, sends[i], TCPX_OK);
		sim_wait(sim, recvs[i], TCPX_OK);
	}
}

static void case_eager_credit_runs_out_and_returns(void *arg)
{
	struct sim_profile p;
	uint32_t budget;

	(void)arg;
	for (budget = CORE_NOTE_COST; budget <= 1024; budget += 320) {
		sim_profile_plain(&p);
		p.credit[1][FRAME_CREDIT_EAGER] = budget;
		sim_case(eager_credit, &p);
	}
}

static void read_credit(struct sim *sim)
{
	struct sim_xfer *reads[20];
	int i;

	for (i = 0; i < 20; i++)
		reads[i] = sim_start(sim, 0, TCPX_OP_READ, 4000, 2500);
	for (i = 0; i < 20; i++)
		sim_wait(sim, reads[i], TCPX_OK);
}

static void case_read_credit_of_any_size_suffices(void *arg)
{
	struct sim_profile p;
	uint32_t budget;

	(void)arg;
	for (budget = 1; budget <= 10; budget++) {
		sim_profile_plain(&p);
		p.credit[1][FRAME_CREDIT_READ] = budget;
		sim_case(read_credit, &p);
	}
}

static void small_pool(struct sim *sim)
{
	struct sim_xfer *xfers[9];
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ, TCPX_OP_RECV};
	int i;

	for (i = 0; i < 9; i++)
		xfers[i] = sim_start(sim, 1, ops[i % 3], 20000, 5);
	for (i = 0; i < 9; i += 3)
		sim_start(sim, 0, TCPX_OP_SEND, 20000, 3);
	for (i = 0; i < 9; i++)
		sim_wait(sim, xfers[i], TCPX_OK);
}

static void case_staging_smaller_than_a_chunk_suffices(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.staged[0] = p.staged[1] = 100;
	p.stage_pool[0] = p.stage_pool[1] = 100;
	sim_case(small_pool, &p);
}

/* Both directions full of chunks that are all refused: refusals and acknowledgements must still
 * find a place. */
static void refused_both_ways(struct sim *sim)
{
	struct sim_xfer *xfers[2];
	int s;

	sim_until(sim, sim_case_all_up, NULL, "all channels up");
	for (s = 0; s < 2; s++) {
		xfers[s] = sim_xfer_new(&sim->side[s], TCPX_OP_WRITE, 48 << 10, 1);
		xfers[s]->x.strict = true;
		xfers[s]->keys[0] ^= 0x5555000000ull;
		xfers[s]->bad = true;
		xfers[s]->bad_status = TCPX_ERR_REMOTE_KEY;
		SIM_CHECK(sim, sim_post(xfers[s]) == TCPX_OK, "post");
	}
	for (s = 0; s < 2; s++)
		sim_wait(sim, xfers[s], TCPX_ERR_REMOTE_KEY);
}

static void case_full_rings_of_refused_chunks(void *arg)
{
	struct sim_profile p;

	(void)arg;
	sim_profile_plain(&p);
	p.chunk_bytes = 64;
	p.bulk_channels = 1;
	p.call = 1;
	p.delay = 5000;
	sim_case(refused_both_ways, &p);
}

static const struct check_case cases[] = {
	{"zero_bytes", case_zero_bytes},
	{"lists_of_100000_pieces", case_lists_of_100000_pieces},
	{"small_does_not_wait_for_bulk", case_small_does_not_wait_for_bulk},
	{"priority_goes_first", case_priority_goes_first},
	{"notification_credit_runs_out_and_returns", case_notification_credit_runs_out_and_returns},
	{"credit_given_back_before_the_shortage", case_credit_given_back_before_the_shortage},
	{"eager_credit_runs_out_and_returns", case_eager_credit_runs_out_and_returns},
	{"read_credit_of_any_size_suffices", case_read_credit_of_any_size_suffices},
	{"staging_smaller_than_a_chunk_suffices", case_staging_smaller_than_a_chunk_suffices},
	{"full_rings_of_refused_chunks", case_full_rings_of_refused_chunks},
	SIM_LOSS_CASE_LIST(SIM_CASE_ROW) SIM_END_CASE_LIST(SIM_CASE_ROW)
		SIM_BEHIND_CASE_LIST(SIM_CASE_ROW) SIM_FILL_CASE_LIST(SIM_CASE_ROW)
			SIM_LEND_CASE_LIST(SIM_CASE_ROW) SIM_MAIL_CASE_LIST(SIM_CASE_ROW)
				SIM_ALONE_CASE_LIST(SIM_CASE_ROW)};

int main(int argc, char **argv)
{
	return check_main(cases, sizeof(cases) / sizeof(*cases), argc > 1 ? argv[1] : NULL, NULL);
}
