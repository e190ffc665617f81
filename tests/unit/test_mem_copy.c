/* SPDX-License-Identifier: Apache-2.0 */
/* The host's half of the copy kernels: a block for each byte, checked lists, the reference. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/rng.h"
#include "mem/copy.h"
#include "unit.h"

#define SLOT_BYTES 40000
#define ROUNDS 300
#define SERIAL 78

struct rig {
	struct mem_copy_piece pieces[64];
	struct mem_copy_mark mark;
	struct mem_copy_state state;
	struct mem_copy_args args;
	uint32_t count;
	uint8_t *memory[64];
	uint8_t slot[SLOT_BYTES], want[SLOT_BYTES];
};

static void rig_free(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->count; i++)
		free(rig->memory[i]);
	free(rig);
}

/* Random pieces with gaps between them, random bytes everywhere. */
static struct rig *rig_make(struct rng *rng)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	uint64_t at = rng_below(rng, 100);

	assert_non_null(rig);
	rig->count = (uint32_t)rng_range(rng, 1, 64);
	for (uint32_t i = 0; i < rig->count; i++) {
		uint64_t length = rng_range(rng, 1, 500);

		rig->memory[i] = malloc(length);
		assert_non_null(rig->memory[i]);
		rng_fill(rng, rig->memory[i], length);
		rig->pieces[i] = (struct mem_copy_piece){(uintptr_t)rig->memory[i], length, at};
		at += length + (rng_one_in(rng, 2) ? rng_below(rng, 40) : 0);
	}
	rng_fill(rng, rig->slot, SLOT_BYTES);
	memcpy(rig->want, rig->slot, SLOT_BYTES);
	assert_int_equal(
		mem_copy_plan(rig->pieces, rig->count, (uintptr_t)rig->slot, 64, &rig->args),
		TCPX_OK);
	rig->args.pieces = (uintptr_t)rig->pieces;
	rig->args.mark = (uintptr_t)&rig->mark;
	rig->args.state = (uintptr_t)&rig->state;
	rig->args.serial = SERIAL;
	return rig;
}

/* The slow way to what first[] says. */
static uint32_t first_beyond(const struct mem_copy_piece *pieces, uint32_t count, uint64_t lead,
			     uint64_t pos)
{
	uint32_t i = 0;

	while (i < count && lead + pieces[i].slot_off + pieces[i].length <= pos)
		i++;
	return i;
}

static void check_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
		       uint32_t blocks)
{
	uint64_t lead = slot % 128, last = pieces[count - 1].slot_off + pieces[count - 1].length;
	struct mem_copy_args a;

	assert_int_equal(mem_copy_plan(pieces, count, slot, blocks, &a), TCPX_OK);
	assert_in_range(a.blocks, 1, blocks);
	assert_int_equal(a.slot, slot);
	assert_int_equal(a.count, count);
	assert_int_equal(a.begin % 128, 0);
	assert_int_equal(a.share % 128, 0);
	assert_true(a.begin <= lead + pieces[0].slot_off);
	assert_int_equal(a.end, lead + last);
	/* all of it, and no block without bytes */
	assert_true(a.begin + (uint64_t)a.share * a.blocks >= a.end);
	assert_true(a.begin + (uint64_t)a.share * (a.blocks - 1) < a.end);
	for (uint32_t b = 0; b < a.blocks; b++)
		assert_int_equal(a.first[b], first_beyond(pieces, count, lead,
							  a.begin + (uint64_t)b * a.share));
	for (uint32_t b = a.blocks; b <= MEM_COPY_BLOCKS; b++)
		assert_int_equal(a.first[b], count);
}

static void every_byte_has_one_block(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 5);
	for (int round = 0; round < ROUNDS; round++) {
		uint32_t count = (uint32_t)rng_range(&rng, 1, round % 10 ? 300 : MEM_COPY_PIECES);
		uint64_t most = MEM_COPY_BYTES / count, at = rng_below(&rng, 5000);
		struct mem_copy_piece *pieces = calloc(count, sizeof(*pieces));

		assert_non_null(pieces);
		for (uint32_t i = 0; i < count; i++) {
			uint64_t length = rng_range(&rng, 1, rng_one_in(&rng, 4) ? most : 20);

			pieces[i] = (struct mem_copy_piece){.length = length, .slot_off = at};
			at += length + (rng_one_in(&rng, 3) ? rng_below(&rng, 300) : 0);
		}
		check_plan(pieces, count, rng_below(&rng, 1 << 20),
			   (uint32_t)rng_range(&rng, 1, MEM_COPY_BLOCKS));
		free(pieces);
	}
}

static uint32_t blocks_of(const struct mem_copy_piece *pieces, uint32_t count, uint32_t blocks)
{
	struct mem_copy_args a;

	assert_int_equal(mem_copy_plan(pieces, count, 0, blocks, &a), TCPX_OK);
	return a.blocks;
}

static void work_decides_the_blocks(void **state)
{
	static struct mem_copy_piece many[MEM_COPY_PIECES];
	struct mem_copy_piece one = {.length = 100};

	(void)state;
	assert_int_equal(blocks_of(&one, 1, 0), 1);
	one.length = 64 << 10;
	assert_int_equal(blocks_of(&one, 1, 0), 4);
	one.length = MEM_COPY_BYTES;
	assert_int_equal(blocks_of(&one, 1, 0), 16);
	assert_int_equal(blocks_of(&one, 1, 64), 64);
	assert_int_equal(blocks_of(&one, 1, 5), 5);
	assert_int_equal(blocks_of(&one, 1, UINT32_MAX), MEM_COPY_BLOCKS);
	/* single bytes are work too, as far as lines of the host allow */
	for (uint32_t i = 0; i < MEM_COPY_PIECES; i++)
		many[i] = (struct mem_copy_piece){.length = 1, .slot_off = i};
	assert_int_equal(blocks_of(many, MEM_COPY_PIECES, 0), 16);
	assert_int_equal(blocks_of(many, MEM_COPY_PIECES, 64), MEM_COPY_PIECES / 128);
	assert_int_equal(blocks_of(many, 300, 0), 3);
}

static void refuse(const struct mem_copy_piece *pieces, uint32_t count)
{
	struct mem_copy_args a = {.serial = 9, .count = 1234};

	assert_int_equal(mem_copy_plan(pieces, count, 0, 64, &a), TCPX_ERR_INVALID);
	assert_int_equal(a.count, 1234);
}

static void bad_lists_are_refused(void **state)
{
	static struct mem_copy_piece p[MEM_COPY_PIECES + 1];

	(void)state;
	for (uint32_t i = 0; i <= MEM_COPY_PIECES; i++)
		p[i] = (struct mem_copy_piece){.length = 8, .slot_off = i * 8};
	refuse(p, 0);
	refuse(p, MEM_COPY_PIECES + 1);
	p[3].length = 0;
	refuse(p, 5);
	p[3].length = 9; /* into the next */
	refuse(p, 5);
	p[3].length = UINT64_MAX;
	refuse(p, 4);
	p[3].length = 8;
	p[4].slot_off = 0; /* backwards */
	refuse(p, 5);
	p[4].slot_off = UINT64_MAX - 3;
	refuse(p, 5);
	p[4].slot_off = UINT32_MAX;
	refuse(p, 5);
}

/* What the slot is when all pieces moved to it. */
static void want_all(struct rig *rig)
{
	for (uint32_t i = 0; i < rig->count; i++)
		memcpy(rig->want + rig->pieces[i].slot_off, rig->memory[i], rig->pieces[i].length);
}

static void gather_moves_pieces_alone(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 1);
	for (int round = 0; round < ROUNDS; round++) {
		struct rig *rig = rig_make(&rng);

		want_all(rig);
		mem_copy_cpu(&rig->args, 1, NULL);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		assert_int_equal(rig->mark.started, SERIAL);
		assert_int_equal(rig->mark.stopped, 0);
		rig_free(rig);
	}
}

static void scatter_moves_pieces_alone(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 2);
	for (int round = 0; round < ROUNDS; round++) {
		struct rig *rig = rig_make(&rng);

		mem_copy_cpu(&rig->args, 0, NULL);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		for (uint32_t i = 0; i < rig->count; i++)
			assert_memory_equal(rig->memory[i], rig->slot + rig->pieces[i].slot_off,
					    rig->pieces[i].length);
		rig_free(rig);
	}
}

static void abort_before_touches_nothing(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	for (int round = 0; round < 20; round++) {
		struct rig *rig = rig_make(&rng);

		atomic_store(&rig->mark.abort, 1);
		mem_copy_cpu(&rig->args, 1, NULL);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		assert_int_equal(rig->mark.started, SERIAL);
		assert_int_equal(rig->mark.stopped, 1);
		/* a later launch of the list agrees, whatever the host has come to since */
		atomic_store(&rig->mark.abort, 0);
		mem_copy_cpu(&rig->args, 1, NULL);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		/* the next list finds out for itself */
		atomic_store(&rig->mark.stopped, 0);
		rig->args.serial += 2;
		mem_copy_cpu(&rig->args, 1, NULL);
		want_all(rig);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		assert_int_equal(rig->mark.started, SERIAL + 2);
		assert_int_equal(rig->mark.stopped, 0);
		rig_free(rig);
	}
}

static struct rig *hooked;

/* Asks for the stop when the third piece is looked up. */
static void *at_third(uint64_t addr, uint64_t bytes)
{
	(void)bytes;
	if (addr == hooked->pieces[2].addr)
		atomic_store(&hooked->mark.abort, 1);
	return (void *)(uintptr_t)addr;
}

static void abort_midway_is_not_heard(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 4);
	do {
		if (hooked)
			rig_free(hooked);
		hooked = rig_make(&rng);
	} while (hooked->count < 4);
	mem_copy_cpu(&hooked->args, 1, at_third);
	assert_int_equal(hooked->mark.abort, 1);
	want_all(hooked);
	assert_memory_equal(hooked->slot, hooked->want, SLOT_BYTES);
	assert_int_equal(hooked->mark.stopped, 0);
	/* nor by a later launch of the list */
	memset(hooked->slot, 0, SLOT_BYTES);
	memset(hooked->want, 0, SLOT_BYTES);
	mem_copy_cpu(&hooked->args, 1, NULL);
	want_all(hooked);
	assert_memory_equal(hooked->slot, hooked->want, SLOT_BYTES);
	assert_int_equal(hooked->mark.stopped, 0);
	rig_free(hooked);
}

static _Atomic int over;

static void *copies(void *arg)
{
	struct rig *rig = arg;

	mem_copy_cpu(&rig->args, 1, NULL);
	atomic_store(&over, 1);
	return NULL;
}

/* Somebody else is finding out: what he says counts, and nothing moves before. */
static void another_block_finds_out(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 6);
	for (uint32_t stop = 0; stop < 2; stop++) {
		struct rig *rig = rig_make(&rng);
		pthread_t thread;

		atomic_store(&over, 0);
		atomic_store(&rig->mark.abort, !stop); /* is not its business */
		atomic_store(&rig->state.claimed, SERIAL);
		atomic_store(&rig->state.verdict, (SERIAL - 2) | !stop); /* of the list before */
		assert_int_equal(pthread_create(&thread, NULL, copies, rig), 0);
		for (int i = 0; i < 100; i++)
			sched_yield();
		assert_int_equal(atomic_load(&over), 0);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		atomic_store(&rig->state.verdict, SERIAL | stop);
		assert_int_equal(pthread_join(thread, NULL), 0);
		if (!stop)
			want_all(rig);
		assert_memory_equal(rig->slot, rig->want, SLOT_BYTES);
		assert_int_equal(rig->mark.started, 0);
		rig_free(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_has_one_block),
		cmocka_unit_test(work_decides_the_blocks),
		cmocka_unit_test(bad_lists_are_refused),
		cmocka_unit_test(gather_moves_pieces_alone),
		cmocka_unit_test(scatter_moves_pieces_alone),
		cmocka_unit_test(abort_before_touches_nothing),
		cmocka_unit_test(abort_midway_is_not_heard),
		cmocka_unit_test(another_block_finds_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
