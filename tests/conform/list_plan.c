/* SPDX-License-Identifier: Apache-2.0 */
/* Pieces of a plan and the image its destination must have. */
#include "list_plan.h"

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static uint64_t slots_per_region(const struct plan *plan)
{
	return plan->region_bytes / plan->slot_bytes;
}

uint32_t plan_count(const struct plan *plan)
{
	uint64_t slots = slots_per_region(plan) * PLAN_REGIONS;

	CHECK(slots > 0);
	return (uint32_t)(plan->count < slots ? plan->count : slots);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
	return b ? gcd(b, a % b) : a;
}

/* A permutation of 0 .. n-1: index times a number prime to n, plus another. */
static uint64_t shuffle(uint64_t seed, uint64_t index, uint64_t n)
{
	uint64_t step = mix(seed) % n, add = mix(seed + 1) % n;

	while (step == 0 || gcd(step, n) != 1)
		step = step + 1 > n ? 1 : step + 1;
	return (uint64_t)(((unsigned __int128)index * step + add) % n);
}

struct piece plan_piece(const struct plan *plan, uint32_t index)
{
	uint64_t per = slots_per_region(plan), all = per * PLAN_REGIONS;
	uint64_t from = index, to = index, lead = 0, shift = 0, len = plan->slot_bytes;
	uint64_t random = mix(plan->seed * 1000003 + index);

	switch (plan->kind) {
	case PLAN_RANDOM:
		len = 1 + random % plan->slot_bytes;
		lead = mix(random) % (plan->slot_bytes - len + 1);
		shift = mix(random + 1) % (plan->slot_bytes - len + 1);
		/* fall through */
	case PLAN_EQUAL:
		from = shuffle(plan->seed, index, all);
		to = shuffle(plan->seed + 7, index, all);
		break;
	case PLAN_REVERSE:
		from = plan_count(plan) - 1 - index;
		/* fall through */
	case PLAN_STRIDE:
		len = plan->slot_bytes / 2 + 1;
		lead = 1;
		shift = 3;
		break;
	}
	return (struct piece){
		.from = (uint32_t)(from / per),
		.from_off = from % per * plan->slot_bytes + lead,
		.to = (uint32_t)(to / per),
		.to_off = to % per * plan->slot_bytes + shift,
		.len = len,
	};
}

uint64_t plan_compare(const struct plan *plan, const struct buf *regions)
{
	uint32_t n = plan_count(plan);
	uint64_t wrong = 0;

	for (uint32_t r = 0; r < PLAN_REGIONS; r++) {
		uint8_t *image = malloc(plan->region_bytes);

		CHECK(image);
		memset(image, POISON, plan->region_bytes);
		for (uint32_t i = 0; i < n; i++) {
			struct piece piece = plan_piece(plan, i);

			if (piece.to == r)
				pat_fill(image + piece.to_off, piece.len, PLAN_SEED + piece.from,
					 piece.from_off);
		}
		wrong += buf_differ(&regions[r], 0, image, plan->region_bytes);
		free(image);
	}
	return wrong;
}
