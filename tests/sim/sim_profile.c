/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of schedule a seed stands for. */
#include "sim.h"

#include <string.h>

static uint32_t pick(struct rng *rng, const uint32_t *values, uint32_t count)
{
	return values[rng_below(rng, count)];
}

#define PICK(rng, ...)                                                                             \
	pick(rng, (const uint32_t[]){__VA_ARGS__},                                                 \
	     sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

#define PRIO_SALT 0x4a40000000000ull

/* A healthy link with moderate times: the ground of directed cases. */
void sim_profile_plain(struct sim_profile *p)
{
	int side;

	memset(p, 0, sizeof(*p));
	p->chunk_bytes = 1024;
	p->bulk_channels = 2;
	for (side = 0; side < 2; side++) {
		p->credit[side][FRAME_CREDIT_NOTIFY] = 4096;
		p->credit[side][FRAME_CREDIT_EAGER] = 64 << 10;
		p->credit[side][FRAME_CREDIT_READ] = 16;
		p->stage_pool[side] = 64 << 10;
		p->fill_pool[side] = 64 << 10;
	}
	p->delay = 50;
	p->call = 10;
	p->commit = 50;
	p->consume = 50;
	p->fill = 50;
	p->slow_channel = SIM_CHANNELS;
	p->partial = 30;
	p->segments_max = 8;
	p->bytes_max = 40 << 10;
}

static void draw_faults(struct sim_profile *p, struct rng *rng)
{
	if (rng_one_in(rng, 3))
		return; /* healthy */
	if (rng_one_in(rng, 2)) {
		p->losses = PICK(rng, 1, 2, 4, 8);
		p->no_notice = rng_one_in(rng, 2);
	}
	if (rng_one_in(rng, 4))
		p->control_cuts = PICK(rng, 1, 3);
	if (rng_one_in(rng, 4))
		p->stops = PICK(rng, 1, 2);
	if (rng_one_in(rng, 2)) {
		p->cancel = PICK(rng, 5, 20, 50);
		p->strict = PICK(rng, 0, 30, 100);
	}
	if (rng_one_in(rng, 3))
		p->deregister = PICK(rng, 5, 20);
	if (rng_one_in(rng, 3))
		p->bad = PICK(rng, 5, 20);
	if (rng_one_in(rng, 4))
		p->deadline = PICK(rng, 10, 40);
	if (rng_one_in(rng, 8))
		p->corrupt = PICK(rng, 1, 5);
	if (rng_one_in(rng, 12))
		p->alloc_fail = PICK(rng, 20, 100, 400);
	if (rng_one_in(rng, 8))
		p->hostile = PICK(rng, 1, 5, 20);
	p->fail_link = rng_one_in(rng, 6);
	p->restart = p->fail_link && rng_one_in(rng, 2);
}

/* Slow calls that move parts, so that frames are met half-way. */
const struct sim_profile *sim_profile_parts(void)
{
	static struct sim_profile p;

	sim_profile_plain(&p);
	p.partial = 100;
	p.call = 40;
	return &p;
}

/* The largest slice of any job. */
static uint64_t largest_slice(const struct sim_profile *p)
{
	uint64_t slice = p->bytes_max < CORE_SMALL_BYTES ? p->bytes_max + 1 : CORE_SMALL_BYTES;

	if (slice < p->chunk_bytes)
		slice = p->chunk_bytes;
	return slice < p->filled_chunk_bytes ? p->filled_chunk_bytes : slice;
}

/* All memory is staged, and there is staging for one chunk, room for one slice. */
void sim_profile_harsh(struct sim_profile *p)
{
	int side;

	for (side = 0; side < 2; side++) {
		p->staged[side] = 100;
		p->stage_pool[side] = p->chunk_bytes;
		p->fill_pool[side] = largest_slice(p);
	}
}

/* Drawn from a generator of its own, so that all other schedules are what they were. */
void sim_profile_refs(struct sim_profile *p, struct rng *rng)
{
	int side;

	if (!rng_one_in(rng, 3))
		return;
	p->by_ref = PICK(rng, 50, 100);
	p->ref_chunk = p->chunk_bytes * PICK(rng, 1, 1, 3, 16);
	p->ref_window = PICK(rng, 1, p->ref_chunk, 3 * p->ref_chunk, 1 << 20);
	for (side = 0; side < 2; side++)
		p->staged[side] = PICK(rng, 30, 100, 100);
}

/* A generator of its own: the schedules of the list of seeds are as they were. */
void sim_profile_lane(struct sim_profile *p, uint64_t seed)
{
	struct rng rng;

	rng_seed(&rng, seed ^ PRIO_SALT);
	if (rng_one_in(&rng, 4))
		p->by_prio = PICK(&rng, 20, 60, 100);
	if (rng_one_in(&rng, 2))
		p->ref_most = p->ref_chunk * PICK(&rng, 1, 2, 7, 40);
}

/* Room for one slice of any job, or for more. Drawn last: seeds older than filling keep their
 * meaning where nothing is staged. */
static void draw_filling(struct sim_profile *p, struct rng *rng)
{
	uint64_t slice = largest_slice(p);
	int side;

	for (side = 0; side < 2; side++)
		p->fill_pool[side] = slice + slice * (uint64_t)PICK(rng, 0, 0, 1, 3, 1000) / 2;
	p->fill = PICK(rng, 1, 50, 2000);
	p->fill_back = PICK(rng, 0, 0, 5, 30);
	p->fill_fail = rng_one_in(rng, 10) ? PICK(rng, 1, 10) : 0;
	p->filled_chunk_bytes = p->chunk_bytes * PICK(rng, 0, 1, 2, 3, 4);
	slice = largest_slice(p);
	for (side = 0; side < 2; side++)
		if (p->fill_pool[side] < slice)
			p->fill_pool[side] = slice;
}

void sim_profile_draw(struct sim_profile *p, struct rng *rng)
{
	int side, kind;

	sim_profile_plain(p);
	p->chunk_bytes = PICK(rng, 64, 256, 1024, 4096);
	p->bulk_channels = PICK(rng, 1, 2, 3, 4);
	for (side = 0; side < 2; side++) {
		p->credit[side][FRAME_CREDIT_NOTIFY] = PICK(rng, 200, 700, 4096, 100000);
		p->credit[side][FRAME_CREDIT_EAGER] = PICK(rng, CORE_NOTE_COST, 500, 20000, 200000);
		p->credit[side][FRAME_CREDIT_READ] = PICK(rng, 1, 2, 7, 8, 9, 64);
		if (p->chunk_bytes == 256 || p->chunk_bytes == 4096)
			p->cover[side] = p->credit[side][FRAME_CREDIT_NOTIFY] / 8;
		p->stage_pool[side] = PICK(rng, 4096, 5000, 20000, 100000);
		p->staged[side] = PICK(rng, 0, 0, 30, 100);
	}
	p->delay = PICK(rng, 1, 20, 100, 1000);
	p->call = PICK(rng, 1, 10, 100);
	p->commit = PICK(rng, 1, 50, 2000);
	p->consume = PICK(rng, 1, 100, 3000);
	p->slow_channel = PICK(rng, 0, 1, 2, SIM_CHANNELS, SIM_CHANNELS);
	p->partial = PICK(rng, 0, 20, 60);
	p->actions = PICK(rng, 2, 8, 16, 24);
	p->action_gap = PICK(rng, 0, 10, 100, 1000);
	p->bytes_max = p->chunk_bytes * (uint64_t)PICK(rng, 1, 4, 32, 64);
	if (rng_one_in(rng, 20)) { /* more chunks than a ring holds */
		p->chunk_bytes = 64;
		p->bytes_max = 48 << 10;
		p->bulk_channels = 1;
		p->call = 1;
		p->delay = 1000;
		p->action_gap = 1;
	}
	if (p->bytes_max > 48 << 10)
		p->bytes_max = 48 << 10;
	p->small_bytes = PICK(rng, 0, 1, 200, 2000);
	p->segments_max = PICK(rng, 1, 4, 40);
	p->repost = PICK(rng, 0, 20, 50);
	p->spurious = PICK(rng, 0, 0, 20);
	for (kind = 0; kind < 5; kind++)
		p->mix[kind] = PICK(rng, 0, 1, 1, 1, 3);
	p->mix[3] = p->mix[2];
	p->mix[rng_below(rng, 2)] += 1;
	draw_faults(p, rng);
	draw_filling(p, rng);
}
