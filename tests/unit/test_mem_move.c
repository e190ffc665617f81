/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the move kernel: the plan covers every byte once, and bad lists are refused. The
 * reference that the stand-in driver runs is held against plain copies. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"
#include "mem/copy.h"
#include "mem/move.h"
#include "unit.h"

#define ARENA (256u << 10)
#define MOST 600

struct world {
	uint8_t *src, *dst, *want;
	struct mem_move_piece pieces[MOST];
	struct mem_copy_mark mark;
	struct mem_copy_state state;
	struct mem_move_args args;
	uint32_t serial;
};

static struct world *world_new(struct rng *rng)
{
	struct world *w = calloc(1, sizeof(*w));

	assert_non_null(w);
	w->src = malloc(ARENA);
	w->dst = malloc(ARENA);
	w->want = malloc(ARENA);
	assert_true(w->src && w->dst && w->want);
	rng_fill(rng, w->src, ARENA);
	rng_fill(rng, w->dst, ARENA);
	memcpy(w->want, w->dst, ARENA);
	return w;
}

static void world_free(struct world *w)
{
	free(w->src);
	free(w->dst);
	free(w->want);
	free(w);
}

static tcpx_status plan(struct world *w, uint32_t count, uint32_t blocks)
{
	tcpx_status status = mem_move_plan(w->pieces, count, blocks, &w->args);

	w->args.pieces = (uintptr_t)w->pieces;
	w->args.mark = (uintptr_t)&w->mark;
	w->args.state = (uintptr_t)&w->state;
	w->args.serial = w->serial += 2;
	return status;
}

static uint32_t random_pieces(struct world *w, struct rng *rng, uint32_t count)
{
	uint64_t at = rng_below(rng, 32);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = (uint32_t)rng_range(rng, 1, rng_one_in(rng, 4) ? 9000 : 100);
		uint64_t from;

		if (at + length > ARENA)
			return i;
		from = rng_below(rng, ARENA - length);
		w->pieces[i] = (struct mem_move_piece){.src = (uintptr_t)w->src + from,
						       .dst = (uintptr_t)w->dst + at,
						       .length = length};
		memcpy(w->want + at, w->src + from, length);
		at += length + (rng_one_in(rng, 2) ? 0 : rng_below(rng, 20));
	}
	return count;
}

static void every_byte_moves_once(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	for (int round = 0; round < 60; round++) {
		struct world *w = world_new(&rng);
		uint32_t count = random_pieces(w, &rng, (uint32_t)rng_range(&rng, 1, MOST));

		assert_int_equal(plan(w, count, (uint32_t)rng_range(&rng, 1, MEM_MOVE_BLOCKS)),
				 TCPX_OK);
		mem_move_cpu(&w->args, NULL);
		assert_memory_equal(w->dst, w->want, ARENA);
		assert_int_equal(atomic_load(&w->mark.started), w->serial);
		world_free(w);
	}
}

/* Blocks have equal shares of the units, none is idle, and each knows its first piece. */
static void blocks_share_the_units(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 6);
	for (int round = 0; round < 60; round++) {
		struct world *w = world_new(&rng);
		uint32_t count = random_pieces(w, &rng, (uint32_t)rng_range(&rng, 1, MOST));
		uint32_t most = (uint32_t)rng_range(&rng, 1, MEM_MOVE_BLOCKS), units = 0;
		const struct mem_move_args *a = &w->args;

		assert_int_equal(plan(w, count, most), TCPX_OK);
		for (uint32_t i = 0; i < count; i++) {
			uint64_t dst = w->pieces[i].dst, end = dst + w->pieces[i].length;

			assert_int_equal(w->pieces[i].unit, units);
			units += (uint32_t)((end - dst / 16 * 16 + MEM_MOVE_UNIT - 1) /
					    MEM_MOVE_UNIT);
		}
		assert_int_equal(a->units, units);
		assert_in_range(a->blocks, 1, most);
		assert_true(a->blocks == 1 || units / a->blocks >= MEM_MOVE_WARPS / 2);
		assert_true((a->blocks - 1) * a->share < units && a->blocks * a->share >= units);
		for (uint32_t b = 0; b < a->blocks; b++) {
			uint32_t p = a->first[b];

			assert_true(w->pieces[p].unit <= b * a->share);
			assert_true(p + 1 == count || w->pieces[p + 1].unit > b * a->share);
		}
		assert_int_equal(a->first[a->blocks], count);
		world_free(w);
	}
}

static void bad_lists_are_refused(void **state)
{
	struct rng rng;
	struct world *w;

	(void)state;
	rng_seed(&rng, 7);
	w = world_new(&rng);
	assert_int_equal(random_pieces(w, &rng, 3), 3);
	assert_int_equal(plan(w, 0, 1), TCPX_ERR_INVALID);
	assert_int_equal(plan(w, MEM_MOVE_PIECES + 1, 1), TCPX_ERR_INVALID);
	assert_int_equal(plan(w, 3, 0), TCPX_ERR_INVALID);
	assert_int_equal(plan(w, 3, MEM_MOVE_BLOCKS + 1), TCPX_ERR_INVALID);
	w->pieces[1].length = 0;
	assert_int_equal(plan(w, 3, 1), TCPX_ERR_INVALID);
	assert_non_null(strstr(error_last()->what, "piece 1"));
	w->pieces[1].length = MEM_MOVE_BYTES;
	assert_int_equal(plan(w, 3, 1), TCPX_ERR_INVALID);
	world_free(w);
}

static void an_abort_before_it_begins_moves_nothing(void **state)
{
	struct rng rng;
	struct world *w;

	(void)state;
	rng_seed(&rng, 8);
	w = world_new(&rng);
	assert_int_equal(random_pieces(w, &rng, 20), 20);
	memcpy(w->want, w->dst, ARENA);
	assert_int_equal(plan(w, 20, 4), TCPX_OK);
	atomic_store(&w->mark.abort, 1);
	mem_move_cpu(&w->args, NULL);
	assert_int_equal(atomic_load(&w->mark.stopped), 1);
	assert_memory_equal(w->dst, w->want, ARENA);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_moves_once),
		cmocka_unit_test(blocks_share_the_units),
		cmocka_unit_test(bad_lists_are_refused),
		cmocka_unit_test(an_abort_before_it_begins_moves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
