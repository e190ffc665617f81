/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattered copies of the kind "cuda" over the stand-in driver, the kernels being their references:
 * who copies, how many launches, failures, launches that do not begin. Run once for each value of
 * TCPX_GPU_COPY.
 */
#include <pthread.h>

#include "cuda_wide.h"

static enum config_copies mode;

static void a_list_is_one_launch(void **state)
{
	struct wide wide;

	(void)state;
	for (int to_slot = 0; to_slot < 2; to_slot++) {
		rig_ended = 0;
		count_from_here();
		wide_init(&wide, 3, 5, 1000, PIECE);
		wide_push(&wide, to_slot);
		rig_wait(1);
		assert_int_equal(launches_made(), mode == CONFIG_COPIES_ENGINE ? 0 : 1);
		assert_int_equal(calls_made(), mode == CONFIG_COPIES_ENGINE ? 1000 : 0);
		wide_check(&wide);
	}
}

/* What waits behind two groups goes together: 64 slices, contiguous and scattered ones. */
static void many_copies_are_one_launch(void **state)
{
	enum { COUNT = 64, EACH = 16, BYTES = 512 };
	static struct wide wide[2 + COUNT];

	(void)state;
	fake.hold(1);
	for (unsigned i = 0; i < 2 + COUNT; i++) {
		/* slots side by side, pushed in another order */
		unsigned at = i < 2 ? i : 2 + (i - 2) * 37 % COUNT;

		wide_init(&wide[i], at * EACH * BYTES, at * EACH * 2 * BYTES, i % 2 ? EACH : 1,
			  i % 2 ? BYTES : EACH * BYTES);
		(i < 2 ? wide_push_alone : wide_push)(&wide[i], 1);
	}
	count_from_here();
	fake.hold(0);
	rig_wait(2 + COUNT);
	if (mode != CONFIG_COPIES_ENGINE) {
		assert_int_equal(launches_made(), 1);
		assert_int_equal(calls_made(), 0);
	}
	for (unsigned i = 0; i < 2 + COUNT; i++) {
		if (mode != CONFIG_COPIES_ENGINE) /* by slot */
			assert_int_equal(wide[i].job.place,
					 ((uint8_t *)wide[i].job.copy.slot - slots) /
						 (EACH * BYTES));
		wide_check(&wide[i]);
	}
}

static void few_calls_are_no_launch(void **state)
{
	struct wide wide;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		rig_ended = 0;
		count_from_here();
		wide_init(&wide, 0, 0, 9 - i, 64);
		wide_push(&wide, 0);
		rig_wait(1);
		assert_int_equal(launches_made(),
				 mode == CONFIG_COPIES_AUTO ? 1 - i : mode == CONFIG_COPIES_KERNEL);
		assert_int_equal(calls_made(), launches_made() ? 0 : 9 - i);
		wide_check(&wide);
	}
}

/* Slots far apart are launches of their own, */
static void far_slots_are_launches(void **state)
{
	struct wide wide[2 + 4];

	(void)state;
	fake.hold(1);
	for (unsigned i = 0; i < 6; i++) {
		wide_init(&wide[i], i * (1u << 20), i * (1u << 20), 20, 1000);
		(i < 2 ? wide_push_alone : wide_push)(&wide[i], 1);
	}
	count_from_here();
	fake.hold(0);
	rig_wait(6);
	if (mode != CONFIG_COPIES_ENGINE)
		assert_int_equal(launches_made(), 4);
	assert_int_equal(calls_made(), mode == CONFIG_COPIES_ENGINE ? 80 : 0);
	for (unsigned i = 0; i < 6; i++)
		wide_check(&wide[i]);
}

/* where that is worth it. */
static void far_small_slots_are_calls(void **state)
{
	struct wide wide[2 + 12];

	(void)state;
	fake.hold(1);
	for (unsigned i = 0; i < 14; i++) {
		wide_init(&wide[i], i * (1u << 19), i * (1u << 19), 1, 1000);
		(i < 2 ? wide_push_alone : wide_push)(&wide[i], 0);
	}
	count_from_here();
	fake.hold(0);
	rig_wait(14);
	assert_int_equal(launches_made(), mode == CONFIG_COPIES_KERNEL ? 12 : 0);
	assert_int_equal(calls_made(), mode == CONFIG_COPIES_KERNEL ? 0 : 12);
	for (unsigned i = 0; i < 14; i++)
		wide_check(&wide[i]);
}

/* Kernels must not touch what is not pinned. */
static void heap_slots_are_no_launch(void **state)
{
	uint8_t *heap = malloc(100 * PIECE);
	struct wide wide;

	(void)state;
	assert_non_null(heap);
	wide_init(&wide, 0, 0, 100, PIECE);
	wide.job.copy.slot = heap;
	wide_push(&wide, 1);
	rig_wait(1);
	assert_int_equal(launches_made(), 0);
	assert_int_equal(calls_made(), 100);
	wide_check(&wide);
	free(heap);
}

/* Of a group's launches the nth fails: all of it by the copy engine, behind what was launched. */
static void failed_launches_are_made_up_for(void **state)
{
	struct wide wide[4];

	(void)state;
	for (unsigned nth = 1; nth <= 2; nth++)
		for (int to_slot = 0; to_slot < 2; to_slot++) {
			rig_ended = 0;
			fake.hold(1);
			for (unsigned i = 0; i < 4; i++) {
				wide_init(&wide[i], i * (1u << 20), i * (1u << 20), 20, 999);
				(i < 2 ? wide_push_alone : wide_push)(&wide[i], to_slot);
			}
			fake.fail_call("cuLaunchKernel", nth, CUDA_ERR_OUT_OF_MEMORY);
			count_from_here();
			fake.hold(0);
			rig_wait(4);
			assert_int_equal(launches_made(), mode == CONFIG_COPIES_ENGINE ? 0 : nth);
			assert_int_equal(calls_made(), 40);
			for (unsigned i = 0; i < 4; i++)
				wide_check(&wide[i]);
			fake.fail_call("cuLaunchKernel", 1, 0);
		}
}

/* What a session needs for its kernels fails: it does without them. */
static void works_without_kernels(void **state)
{
	static const char *const needs[] = {"cuModuleLoadData", "cuModuleGetFunction", "cuMemAlloc",
					    "cuMemsetD8Async"};
	struct wide wide;

	(void)state;
	for (unsigned i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
		for (int to_slot = 0; to_slot < 2; to_slot++) {
			mem_kinds_stop();
			rig_ended = 0;
			count_from_here();
			assert_int_equal(fake.fail_call(needs[i], 0, CUDA_ERR_OUT_OF_MEMORY), 0);
			wide_init(&wide, 0, 0, 100, 100);
			wide_push(&wide, to_slot);
			rig_wait(1);
			fake.fail_call(needs[i], 0, 0);
			assert_int_equal(launches_made(), 0);
			assert_int_equal(calls_made(), 100);
			wide_check(&wide);
		}
	mem_kinds_stop();
}

/* Random pieces on both sides, from several threads. */
#define PUSHERS 3
#define PER_PUSHER 60
#define PART (SPACE / 2 / PUSHERS)

struct pusher {
	struct wide wide[PER_PUSHER];
	struct rng rng;
	uint64_t begin; /* of its part, on both sides */
	int to_slot;
};

/* Pieces cover about half of the GPU's part, shuffled in pairs; the slots have gaps, too. */
static void *pusher_main(void *arg)
{
	struct pusher *p = arg;
	uint64_t at = p->begin, there = p->begin;

	for (unsigned i = 0; i < PER_PUSHER; i++) {
		struct wide *wide = &p->wide[i];
		uint32_t count = rng_one_in(&p->rng, 3) ? 1 : (uint32_t)rng_range(&p->rng, 1, 80);
		uint64_t bytes = 0;

		wide_init(wide, at, 0, count, 0);
		for (uint32_t k = 0; k < count; k++) {
			uint64_t length = rng_range(&p->rng, 1, 10000 / count + 1);

			wide->pieces[k].addr = (void *)(uintptr_t)(gpu + there);
			wide->pieces[k].length = length;
			there += length + (rng_one_in(&p->rng, 2) ? rng_below(&p->rng, 50) : 0);
			bytes += length;
		}
		for (uint32_t k = 0; k + 1 < count; k += 2) {
			struct mem_piece piece = wide->pieces[k];

			wide->pieces[k] = wide->pieces[k + 1];
			wide->pieces[k + 1] = piece;
		}
		at += bytes + (rng_one_in(&p->rng, 2) ? rng_below(&p->rng, 10000) : 0);
		if (at > p->begin + PART || there > p->begin + PART)
			return arg;
		if ((p->to_slot ? cuda->fill : cuda->commit)(&wide->job.copy))
			return arg;
	}
	return NULL;
}

static void random_copies_move_the_right_bytes(void **state)
{
	static struct pusher pushers[2 * PUSHERS];
	pthread_t threads[2 * PUSHERS];
	uint8_t *before = malloc(SPACE), *after = malloc(SPACE);

	(void)state;
	assert_true(before && after);
	memcpy(before, slots, SPACE);
	for (unsigned i = 0; i < 2 * PUSHERS; i++) {
		pushers[i].begin = (uint64_t)i * PART;
		pushers[i].to_slot = i % 2;
		rng_seed(&pushers[i].rng, 100 + i);
		assert_int_equal(pthread_create(&threads[i], NULL, pusher_main, &pushers[i]), 0);
	}
	for (unsigned i = 0; i < 2 * PUSHERS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	rig_wait(2 * PUSHERS * PER_PUSHER);
	if (mode != CONFIG_COPIES_AUTO)
		assert_int_equal(mode == CONFIG_COPIES_KERNEL ? calls_made() : launches_made(), 0);
	/* The model of each side by the CPU: what belongs to no piece must be as it was. */
	assert_int_equal(fake.read(gpu, after, SPACE), 0);
	for (unsigned i = 0; i < 2 * PUSHERS; i++)
		for (unsigned k = 0; k < PER_PUSHER; k++) {
			struct wide *wide = &pushers[i].wide[k];
			uint64_t at = (uint64_t)((uint8_t *)wide->job.copy.slot - slots);

			assert_int_equal(wide->job.ends, 1);
			assert_int_equal(wide->job.status, TCPX_OK);
			for (uint32_t n = 0; n < wide->job.copy.npieces; n++) {
				const struct mem_piece *piece = &wide->pieces[n];
				uint64_t there = (uintptr_t)piece->addr - gpu;

				if (pushers[i].to_slot)
					memcpy(before + at, model + there, piece->length);
				else
					memcpy(model + there, before + at, piece->length);
				at += piece->length;
			}
			free(wide->pieces);
		}
	assert_memory_equal(before, slots, SPACE);
	assert_memory_equal(model, after, SPACE);
	free(before);
	free(after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_list_is_one_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(many_copies_are_one_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(few_calls_are_no_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(far_slots_are_launches, setup, teardown),
		cmocka_unit_test_setup_teardown(far_small_slots_are_calls, setup, teardown),
		cmocka_unit_test_setup_teardown(heap_slots_are_no_launch, setup, teardown),
		cmocka_unit_test_setup_teardown(failed_launches_are_made_up_for, setup, teardown),
		cmocka_unit_test_setup_teardown(works_without_kernels, setup, teardown),
		cmocka_unit_test_setup_teardown(random_copies_move_the_right_bytes, setup,
						teardown),
	};

	if (rig_open())
		return 1;
	mode = (enum config_copies)config_u64(CONFIG_GPU_COPY);
	mem_lane_patience_ns = FOR_EVER; /* counts must not depend on a clock */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
