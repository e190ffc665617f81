/* SPDX-License-Identifier: Apache-2.0 */
/* One schedule from its seed to its last check. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* Any number by which the seeds that seeds.txt had before do not go by reference: they mean what
 * they meant. */
#define REF_SALT 0x2b000000000ull

static void cancel_rest(struct sim *sim)
{
	uint32_t i;
	int s;

	for (s = 0; s < 2; s++)
		for (i = 0; i < sim->side[s].nxfers; i++)
			if (sim->side[s].xfers[i]->active)
				sim_cancel(sim->side[s].xfers[i], TCPX_ERR_CANCELLED);
}

static void finish(struct sim *sim)
{
	uint32_t i;
	int s;

	sim_run_all(sim);
	if (sim->side[0].alive && sim->side[1].alive) {
		bool disturbed = sim->disturbed;

		sim_quiet_check(sim);
		cancel_rest(sim);
		sim->disturbed = disturbed;
		for (s = 0; s < 2; s++) {
			SIM_ENTER(sim);
			core_link_ask(&sim->side[s].link);
			SIM_LEAVE(sim);
		}
		sim_run_all(sim);
	}
	sim_final_check(sim);
	for (s = 0; s < 2; s++) {
		sim->count.resent += sim->side[s].link.count.resent;
		sim->count.aborted += sim->side[s].link.count.aborted;
		sim->count.refused += sim->side[s].link.count.refused;
		sim->p.restart = false;
		sim_link_fail(&sim->side[s], TCPX_ERR_DISCONNECTED);
	}
	sim_run_all(sim);
	for (s = 0; s < 2; s++)
		for (i = 0; i < sim->side[s].nxfers; i++)
			SIM_CHECK(sim, !sim->side[s].xfers[i]->active, "transfer %u never ended",
				  sim->side[s].xfers[i]->number);
	sim_world_fini(sim);
}

int sim_schedule(struct sim *sim, uint64_t seed, const struct sim_profile *profile,
		 void (*script)(struct sim *sim))
{
	bool verbose = sim->verbose, harsh = sim->harsh;
	struct sim_event *heap = sim->heap;
	uint32_t cap = sim->cap_heap;

	sim_arena_reset();
	memset(sim, 0, sizeof(*sim));
	sim->heap = heap;
	sim->cap_heap = cap;
	sim->verbose = verbose;
	sim->harsh = harsh;
	sim->seed = seed;
	rng_seed(&sim->rng, seed);
	rng_seed(&sim->ref_rng, seed ^ REF_SALT);
	if (profile)
		sim->p = *profile;
	else
		sim_profile_draw(&sim->p, &sim->rng);
	if (!profile) {
		sim_profile_refs(&sim->p, &sim->ref_rng);
		sim_msg_profile(&sim->p, &sim->ref_rng);
		sim_profile_lane(&sim->p, seed);
	}
	if (harsh)
		sim_profile_harsh(&sim->p);
	if (setjmp(sim->out))
		return -1;
	sim_world_init(sim);
	if (script)
		script(sim);
	else
		sim_app_start(sim);
	finish(sim);
	return 0;
}
