/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches that do not begin, or hear of an abort, over the stand-in driver: the copy engine does
 * their work, and what begins later touches nothing. The test's kernels stand for a GPU that is
 * full, and for the moments in which a launch begins.
 */
#include <sched.h>

#include "cuda_wide.h"
#include "mem/copy.h"

static _Atomic int full;	/* kernels wait for room */
static _Atomic uint32_t inside; /* launches that wait */
static _Atomic int told;	/* a kernel finds the abort, the host finds started */
static _Atomic int slow;	/* kernels go on behind their first piece when this is 0 */
static _Atomic int begun;	/* a kernel is there */
static _Atomic uint64_t first;	/* address of that piece */
static _Atomic int ran;		/* launches so far */
static int64_t patience_ns;

static void *at(uint64_t addr, uint64_t bytes)
{
	return fake.translate(addr, bytes);
}

/* The launch has begun and moves its first piece. */
static void *at_slowly(uint64_t addr, uint64_t bytes)
{
	if (addr == atomic_load(&first)) {
		atomic_store(&begun, 1);
		while (atomic_load(&slow))
			sched_yield();
	}
	return at(addr, bytes);
}

/*
 * told: the launch of that number, counted from 1, begins while the host aborts. It finds the
 * abort, the host finds started and lets it be; that the kernel sets the abort makes the moment
 * sure.
 */
static void kernel(void **params, int to_slot)
{
	struct mem_copy_args *args = params[0];
	struct mem_copy_mark *mark = at(args->mark, sizeof(*mark));
	struct mem_copy_piece *pieces = at(args->pieces, sizeof(*pieces));

	atomic_fetch_add(&inside, 1);
	while (atomic_load(&full))
		sched_yield();
	if (atomic_fetch_add(&ran, 1) + 1 == atomic_load(&told))
		atomic_store(&mark->abort, 1);
	atomic_store(&first, pieces->addr);
	mem_copy_cpu(args, to_slot, at_slowly);
	atomic_fetch_sub(&inside, 1);
}

static void gather(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	kernel(params, 1);
}

static void scatter(void **params, unsigned grid, unsigned block)
{
	(void)grid;
	(void)block;
	kernel(params, 0);
}

static void await_inside(uint32_t count)
{
	while (atomic_load(&inside) != count)
		sched_yield();
}

/* The copies end while their launch waits; what the launch then finds, it leaves alone. */
static void the_engine_takes_over(void **state)
{
	static uint8_t was[SPACE], now[SPACE];
	struct wide wide[5];

	(void)state;
	for (int to_slot = 0; to_slot < 2; to_slot++) {
		rig_ended = 0;
		atomic_store(&full, 1);
		count_from_here();
		wide_init(&wide[0], 0, 0, 50, PIECE);
		wide_push(&wide[0], to_slot);
		rig_wait(1);
		assert_int_equal(launches_made(), 1);
		assert_int_equal(calls_made(), 50);
		wide_check(&wide[0]);
		/* What comes now does not wait behind it. */
		for (unsigned i = 1; i < 5; i++) {
			wide_init(&wide[i], i * (1u << 20), i * (1u << 20), 20, 1000);
			wide_push(&wide[i], to_slot);
		}
		rig_wait(5);
		assert_int_equal(launches_made(), 1);
		for (unsigned i = 1; i < 5; i++)
			wide_check(&wide[i]);
		/* Both sides belong to somebody else by now. */
		memset(slots, 0x11 + to_slot, SPACE);
		memset(was, 0x77, SPACE);
		assert_int_equal(fake.write(gpu, was, SPACE), 0);
		memcpy(was, slots, SPACE);
		await_inside(1);
		atomic_store(&full, 0);
		await_inside(0);
		assert_memory_equal(was, slots, SPACE);
		assert_int_equal(fake.read(gpu, now, SPACE), 0);
		for (unsigned i = 0; i < SPACE; i++)
			if (now[i] != 0x77)
				fail_msg("byte %u of the GPU was written", i);
		sides_fill();
	}
}

/* From here on the GPU is full: one list's launch is taken back, and the copy engine moves it. */
static void fill_beside_full(struct wide *wide, uint64_t piece)
{
	atomic_store(&full, 1);
	wide_init(wide, 0, 0, 50, piece);
	wide_push(wide, 1);
	rig_wait(1);
	wide_check(wide);
}

/* When the launch is over, lists are launched again; what it found is no business of theirs. */
static void launches_come_back(void **state)
{
	struct wide wide;

	(void)state;
	fill_beside_full(&wide, 100);
	atomic_store(&full, 0);
	do {
		sides_fill();
		wide_init(&wide, 0, 0, 50, 100);
		wide_push(&wide, 1);
		rig_wait(1);
		wide_check(&wide);
	} while (!launches_made());
}

/* Two groups are in the stream, both are taken back, in their order. */
static void both_groups_are_taken_back(void **state)
{
	struct wide wide[2];

	(void)state;
	atomic_store(&full, 1);
	fake.hold(1);
	for (unsigned i = 0; i < 2; i++) {
		wide_init(&wide[i], i * (1u << 20), i * (1u << 20), 50, 1000);
		wide_push_alone(&wide[i], 0);
	}
	fake.hold(0);
	rig_wait(2);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(wide[i].job.place, i);
		wide_check(&wide[i]);
	}
	atomic_store(&full, 0);
}

/* No lane is open when it returns. */
static void stop(void)
{
	struct fakecuda_live live;

	mem_kinds_stop();
	while (fake.live(&live), live.streams)
		sched_yield();
}

/* No launch is taken back for being late: what happens is what the kernels do. */
static int setup_patient(void **state)
{
	stop();
	mem_lane_patience_ns = FOR_EVER;
	return setup(state);
}

static int teardown_patient(void **state)
{
	(void)teardown(state);
	stop();
	mem_lane_patience_ns = patience_ns;
	return 0;
}

/* It began, heard of the abort and moved nothing: the copy engine does all of it. */
static void a_stopped_launch_is_made_up_for(void **state)
{
	struct wide wide;

	(void)state;
	for (int to_slot = 0; to_slot < 2; to_slot++) {
		count_from_here();
		rig_ended = 0;
		atomic_store(&ran, 0);
		atomic_store(&told, 1);
		wide_init(&wide, 0, 0, 50, 1000);
		wide_push(&wide, to_slot);
		rig_wait(1);
		assert_int_equal(launches_made(), 1);
		assert_int_equal(calls_made(), 50);
		wide_check(&wide);
	}
	atomic_store(&told, 0);
}

/* A list of two launches: what the first of them found goes for both. */
static void a_list_moves_as_a_whole(void **state)
{
	struct wide wide[4];

	(void)state;
	for (int round = 0; round < 4; round++) {
		rig_ended = 0;
		fake.hold(1);
		for (unsigned i = 0; i < 4; i++) {
			wide_init(&wide[i], i * (1u << 20), i * (1u << 20), i < 2 ? 1 : 20, 1000);
			(i < 2 ? wide_push_alone : wide_push)(&wide[i], round / 2);
		}
		count_from_here();
		atomic_store(&ran, 0);
		atomic_store(&told, 1 + round % 2);
		fake.hold(0);
		rig_wait(4);
		assert_int_equal(launches_made(), 2);
		assert_int_equal(calls_made(), round % 2 ? 0 : 40);
		for (unsigned i = 0; i < 4; i++)
			wide_check(&wide[i]);
	}
	atomic_store(&told, 0);
}

/* However long it takes: what began goes on, and nobody else touches its memory meanwhile. */
static void a_launch_that_began_is_waited_for(void **state)
{
	struct wide wide;
	uint64_t asked;

	(void)state;
	for (;;) {
		rig_ended = 0;
		count_from_here();
		atomic_store(&begun, 0);
		atomic_store(&slow, 1);
		wide_init(&wide, 0, 0, 50, 1000);
		wide_push(&wide, 1);
		while (!atomic_load(&begun) && !atomic_load(&wide.job.ends))
			sched_yield();
		if (atomic_load(&begun))
			break;
		wide_check(&wide); /* it was late and taken back, or another one before it */
		atomic_store(&slow, 0);
		await_inside(0);
	}
	asked = fake.calls("cuStreamQuery");
	while (fake.calls("cuStreamQuery") < asked + 2) /* the owner has become impatient */
		sched_yield();
	assert_int_equal(atomic_load(&wide.job.ends), 0);
	atomic_store(&slow, 0);
	rig_wait(1);
	assert_int_equal(launches_made(), 1);
	assert_int_equal(calls_made(), 0);
	wide_check(&wide);
}

/* The session goes while a launch waits: nothing that it reads is let go of. */
static void a_stuck_launch_outlives_stop(void **state)
{
	struct fakecuda_live before, after;
	struct wide wide;

	(void)state;
	fill_beside_full(&wide, 1000);
	fake.live(&before);
	mem_kinds_stop();
	fake.live(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	await_inside(1);
	atomic_store(&full, 0);
	do
		sched_yield();
	while (fake.live(&after), after.streams || after.modules);
}

/* Leaving a slot waits for no kernel, as freeing it would: whoever comes next has it, and in the
 * end the thread frees it. */
static void what_is_left_goes_later(void **state)
{
	struct fakecuda_live before, after;
	struct wide wide;
	uint64_t id;
	void *left;

	(void)state;
	fill_beside_full(&wide, 1000);
	left = cuda->slot_alloc(4 * PIECE, 0);
	fake.live(&before);
	for (int i = 0; i < 2; i++) {
		cuda->slot_leave(left, 4 * PIECE, 0);
		mem_kinds_stop();
		assert_int_equal(cuda->probe((void *)(uintptr_t)gpu, 4096, 0, &id), TCPX_OK);
		assert_ptr_equal(cuda->slot_alloc(4 * PIECE, 0), left);
	}
	fake.live(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	cuda->slot_leave(left, 4 * PIECE, 0);
	await_inside(1);
	atomic_store(&full, 0);
	await_inside(0);
	stop();
	mem_kinds_stop(); /* until the thread is through */
	fake.live(&after);
	assert_int_equal(after.registrations, before.registrations - 2); /* its words too */
	/* Without a thread it goes at once. */
	left = cuda->slot_alloc(4 * PIECE, 0);
	cuda->slot_leave(left, 4 * PIECE, 0);
	fake.live(&after);
	assert_int_equal(after.registrations, before.registrations - 2);
}

static void driver_breaks_the_context(void **state)
{
	struct wide wide[2];

	(void)state;
	fill_beside_full(&wide[0], 1000);
	fake.break_device(0, CUDA_ERR_ILLEGAL_ADDRESS);
	wide_init(&wide[1], 0, 0, 50, 1000);
	if (cuda->fill(&wide[1].job.copy) == TCPX_OK) {
		rig_wait(2);
		assert_int_equal(wide[1].job.status, TCPX_ERR_SYSTEM);
	}
	atomic_store(&full, 0);
	free(wide[1].pieces);
	mem_kinds_stop();
}

int main(void)
{
	static const size_t bytes[] = {sizeof(struct mem_copy_args)};
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_engine_takes_over, setup, teardown),
		cmocka_unit_test_setup_teardown(launches_come_back, setup, teardown),
		cmocka_unit_test_setup_teardown(both_groups_are_taken_back, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stopped_launch_is_made_up_for, setup_patient,
						teardown_patient),
		cmocka_unit_test_setup_teardown(a_list_moves_as_a_whole, setup_patient,
						teardown_patient),
		cmocka_unit_test_setup_teardown(a_launch_that_began_is_waited_for, setup, teardown),
		cmocka_unit_test_setup_teardown(a_stuck_launch_outlives_stop, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_left_goes_later, setup, teardown),
		cmocka_unit_test_setup(driver_breaks_the_context, setup), /* last */
	};

	if (rig_open())
		return 1;
	patience_ns = mem_lane_patience_ns;
	if (fake.kernel_add("mem_gather", gather, bytes, 1) ||
	    fake.kernel_add("mem_scatter", scatter, bytes, 1))
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
