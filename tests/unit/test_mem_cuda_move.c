/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves of the kind "cuda" over the stand-in driver, the kernel being its reference: lists whose
 * sources are addresses. Run once for each value of TCPX_GPU_COPY.
 */
#include <sched.h>
#include <stdlib.h>

#include "base/config.h"
#include "base/rng.h"
#include "cuda_rig.h"
#include "mem/cuda_lane.h"
#include "mem/cuda_owner.h"

#define ARENA (4u << 20)
#define MOST MEM_MOVE_LIST

static enum config_copies mode;
static uint8_t *source, *want, *got; /* what the arenas hold, or should */
static cuda_ptr from, to;
static struct mem_piece pieces[MOST];
static uint64_t sources[MOST];

static uint64_t launches(void)
{
	return fake.calls("cuLaunchKernel");
}

static uint64_t copies(void)
{
	return fake.calls("cuMemcpyAsync");
}

static void move(uint32_t count)
{
	struct rig_copy job = {.status = TCPX_OK};

	job.copy = (struct mem_copy){.sources = sources,
				     .pieces = pieces,
				     .npieces = count,
				     .done = rig_done,
				     .owner = &job};
	rig_ended = 0;
	assert_int_equal(cuda->move(&job.copy), TCPX_OK);
	rig_wait(1);
	assert_int_equal(job.status, TCPX_OK);
	assert_int_equal(fake.read(to, got, ARENA), 0);
	assert_memory_equal(got, want, ARENA);
}

static void piece_set(uint32_t i, uint64_t src, uint64_t dst, uint64_t length)
{
	pieces[i] = (struct mem_piece){(void *)(uintptr_t)(to + dst), length};
	sources[i] = from + src;
	memcpy(want + dst, source + src, length);
}

static void a_list_is_one_launch(void **state)
{
	uint64_t launched = launches(), copied = copies();

	(void)state;
	for (uint32_t i = 0; i < MOST; i++)
		piece_set(i, (uint64_t)(i * 1237u % MOST) * 1024 + 5, (uint64_t)i * 1024 + 3, 1000);
	move(MOST);
	assert_int_equal(launches() - launched, mode == CONFIG_COPIES_ENGINE ? 0 : 1);
	assert_int_equal(copies() - copied, mode == CONFIG_COPIES_ENGINE ? MOST : 0);
}

/* Few pieces need no kernel, unless it is asked for. */
static void two_pieces_are_two_copies(void **state)
{
	uint64_t launched = launches(), copied = copies();

	(void)state;
	piece_set(0, 100, 7000, 3000);
	piece_set(1, 50000, 20000, 1);
	move(2);
	assert_int_equal(launches() - launched, mode == CONFIG_COPIES_KERNEL ? 1 : 0);
	assert_int_equal(copies() - copied, mode == CONFIG_COPIES_KERNEL ? 0 : 2);
}

/* Pieces that touch at the destination alone, at both sides, or of no length. */
static void only_neighbours_on_both_sides_are_joined(void **state)
{
	uint64_t copied = copies();
	uint32_t n = 0;

	(void)state;
	for (uint32_t i = 0; i < 50; i++)
		piece_set(n++, 100000 + (49 - i) * 300, 1000 + i * 100, 100);
	for (uint32_t i = 0; i < 50; i++)
		piece_set(n++, 200000 + i * 100, 6000 + i * 100, 100);
	piece_set(n++, 0, 0, 0);
	move(n);
	if (mode == CONFIG_COPIES_ENGINE)
		assert_int_equal(copies() - copied, 51);
}

static void random_lists_move_the_right_bytes(void **state)
{
	struct rng rng;

	(void)state;
	rng_seed(&rng, 3);
	for (int round = 0; round < 40; round++) {
		uint32_t count = (uint32_t)rng_range(&rng, 1, 300);
		uint64_t at = rng_below(&rng, 100);

		for (uint32_t i = 0; i < count; i++) {
			uint64_t length = rng_range(&rng, 1, 10000);

			piece_set(i, rng_below(&rng, ARENA - length), at, length);
			at += length + (rng_one_in(&rng, 2) ? 0 : rng_below(&rng, 40));
		}
		move(count);
	}
}

/* A thread that is roused launches the kernel once, with nothing to move, or without a kernel calls
 * the driver. The launches of later lists, of which two may be under way, do not miss its slot. */
static void a_roused_owner_launches_nothing(void **state)
{
	const unsigned cores = mem_owner_cores_to_spin;
	static const char write[] = "cuStreamWriteValue32";

	(void)state;
	mem_kinds_stop();
	mem_owner_cores_to_spin = 1;
	for (int round = 0; round < 6; round++) {
		uint64_t launched, writes;

		for (uint32_t i = 0; i < 50; i++)
			piece_set(i, (uint64_t)i * 2000 + 7 * round, 50000 + i * 300, 299);
		move(50);
		launched = launches();
		writes = fake.calls(write);
		while (fake.calls(write) == writes) { /* nothing happens until it sleeps */
			cuda->rouse(0, MEM_CALL_MOVE);
			sched_yield();
		}
		assert_int_equal(launches() - launched, mode == CONFIG_COPIES_ENGINE ? 0 : 1);
	}
	mem_kinds_stop();
	mem_owner_cores_to_spin = cores;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_is_one_launch),
		cmocka_unit_test(two_pieces_are_two_copies),
		cmocka_unit_test(only_neighbours_on_both_sides_are_joined),
		cmocka_unit_test(random_lists_move_the_right_bytes),
		cmocka_unit_test(a_roused_owner_launches_nothing),
	};
	struct rng rng;
	int failed;

	if (rig_open())
		return 1;
	mode = (enum config_copies)config_u64(CONFIG_GPU_COPY);
	mem_lane_patience_ns = INT64_MAX; /* counts must not depend on a clock */
	source = malloc(ARENA);
	want = malloc(ARENA);
	got = malloc(ARENA);
	if (!source || !want || !got)
		return 1;
	from = rig_alloc(0, ARENA);
	to = rig_alloc(0, ARENA);
	rng_seed(&rng, 1);
	rng_fill(&rng, source, ARENA);
	rng_fill(&rng, want, ARENA);
	if (fake.write(from, source, ARENA) || fake.write(to, want, ARENA))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rig_free(0, from);
	rig_free(0, to);
	cuda->stop();
	free(source);
	free(want);
	free(got);
	return failed;
}
