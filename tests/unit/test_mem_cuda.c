/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "cuda" over the stand-in driver: merging, order, data, failures, stopping. */
#include <dirent.h>
#include <limits.h>
#include <pthread.h>

#include "cuda_rig.h"
#include "mem/cuda_owner.h"

#define MIB (1u << 20)

static void slots_are_pinned_pages(void **state)
{
	struct fakecuda_live before, after;
	uint8_t *slot;

	(void)state;
	fake.live(&before);
	slot = cuda->slot_alloc(100001, 0);
	assert_non_null(slot);
	assert_int_equal((uintptr_t)slot % 4096, 0);
	memset(slot, 1, 100001);
	fake.live(&after);
	assert_int_equal(after.registrations, before.registrations + 1);
	cuda->slot_free(slot, 100001, 0);
	fake.live(&after);
	assert_memory_equal(&before, &after, sizeof(before));
	assert_null(cuda->slot_alloc(SIZE_MAX, 0));
	assert_null(cuda->slot_alloc(4096, 99));
	assert_int_equal(error_last()->status, TCPX_ERR_INVALID);
	fake.live(&after);
	assert_memory_equal(&before, &after, sizeof(before));
}

/* Two groups are under way; what is queued behind them goes out as few large copies. */
static void neighbours_become_one_copy(void **state)
{
	enum { PIECE = 256 << 10, COUNT = 20 };
	static struct rig_copy jobs[2 + COUNT];
	uint8_t *slot = cuda->slot_alloc((2 + COUNT) * PIECE, 0);
	cuda_ptr gpu = rig_alloc(0, (2 + COUNT) * PIECE);
	uint64_t calls = fake.calls("cuMemcpyAsync");
	uint64_t flags;

	(void)state;
	assert_non_null(slot);
	for (unsigned i = 0; i < (2 + COUNT) * PIECE; i++)
		slot[i] = (uint8_t)(i / 4096 + i);
	rig_ended = 0;
	fake.hold(1);
	for (unsigned i = 0; i < 2 + COUNT; i++) {
		rig_init(&jobs[i], 0, slot + i * PIECE, gpu + i * PIECE, PIECE);
		assert_int_equal(cuda->commit(&jobs[i].copy), TCPX_OK);
		if (i < 2) /* each its own group */
			rig_calls("cuMemcpyAsync", calls + i + 1);
	}
	assert_int_equal(fake.calls("cuMemcpyAsync"), calls + 2);
	flags = fake.calls("cuStreamWriteValue32");
	fake.hold(0);
	rig_wait(2 + COUNT);
	/* 20 of 256 KiB: 16 as 4 MiB, then 4 as 1 MiB. */
	assert_int_equal(fake.calls("cuMemcpyAsync"), calls + 2 + 2);
	assert_true(fake.calls("cuStreamWriteValue32") <= flags + 2 + 1);
	for (unsigned i = 0; i < 2 + COUNT; i++) {
		assert_int_equal(jobs[i].ends, 1);
		assert_int_equal(jobs[i].status, TCPX_OK);
		assert_int_equal(jobs[i].place, i);
	}
	{
		uint8_t *back = malloc((2 + COUNT) * PIECE);

		assert_non_null(back);
		assert_int_equal(fake.read(gpu, back, (2 + COUNT) * PIECE), 0);
		assert_memory_equal(back, slot, (2 + COUNT) * PIECE);
		free(back);
	}
	rig_free(0, gpu);
	cuda->slot_free(slot, (2 + COUNT) * PIECE, 0);
}

/* Neighbours on one side only stay apart, in both directions. */
static void strangers_stay_apart(void **state)
{
	enum { PIECE = 4096, COUNT = 8 };
	static struct rig_copy jobs[2 + COUNT];
	uint8_t *slot = cuda->slot_alloc(64 * PIECE, 0);
	cuda_ptr gpu = rig_alloc(0, 64 * PIECE);
	uint64_t calls = fake.calls("cuMemcpyAsync");
	unsigned at = 0, there = 0;

	(void)state;
	rig_ended = 0;
	fake.hold(1);
	for (unsigned i = 0; i < 2 + COUNT; i++) {
		rig_init(&jobs[i], 0, slot + at * PIECE, gpu + there * PIECE, PIECE);
		at += 1 + i % 2;
		there += 2 - i % 2;
		assert_int_equal(cuda->fill(&jobs[i].copy), TCPX_OK);
		if (i < 2)
			rig_calls("cuMemcpyAsync", calls + i + 1);
	}
	fake.hold(0);
	rig_wait(2 + COUNT);
	assert_int_equal(fake.calls("cuMemcpyAsync"), calls + 2 + COUNT);
	rig_free(0, gpu);
	cuda->slot_free(slot, 64 * PIECE, 0);
}

/* A copy of several pieces: one call for each stretch of them. */
static void pieces_go_by_stretches(void **state)
{
	struct rig_copy job;
	uint8_t *slot = cuda->slot_alloc(4096, 0), back[64];
	cuda_ptr gpu = rig_alloc(0, 4096);
	uint64_t calls = fake.calls("cuMemcpyAsync");

	(void)state;
	for (int i = 0; i < 64; i++)
		slot[i] = (uint8_t)(i + 1);
	rig_init(&job, 0, slot, gpu + 100, 10);
	job.pieces[1] = (struct mem_piece){(void *)(uintptr_t)(gpu + 110), 5};
	job.pieces[2] = (struct mem_piece){(void *)(uintptr_t)(gpu + 20), 3};
	job.pieces[3] = (struct mem_piece){(void *)(uintptr_t)(gpu + 23), 0};
	job.copy.npieces = 4;
	rig_ended = 0;
	assert_int_equal(cuda->commit(&job.copy), TCPX_OK);
	rig_wait(1);
	assert_int_equal(job.status, TCPX_OK);
	assert_int_equal(fake.calls("cuMemcpyAsync"), calls + 2);
	assert_int_equal(fake.read(gpu + 100, back, 15), 0);
	assert_memory_equal(back, slot, 15);
	assert_int_equal(fake.read(gpu + 20, back, 3), 0);
	assert_memory_equal(back, slot + 15, 3);
	rig_free(0, gpu);
	cuda->slot_free(slot, 4096, 0);
}

/* Pieces that touch may lie in two allocations, which no call of the driver may join: tensors of a
 * cache are often so. */
static void pieces_of_adjacent_allocations_are_copied(void **state)
{
	enum { GRAIN = 2 << 20, MOST = 8 };
	cuda_ptr gpu[MOST], at = 0;
	struct rig_copy job;
	uint8_t *slot = cuda->slot_alloc(4096, 0), back[200];

	(void)state;
	for (int i = 0; i < MOST; i++)
		gpu[i] = rig_alloc(0, GRAIN);
	for (int i = 0; i < MOST && !at; i++)
		for (int k = 0; k < MOST; k++)
			if (gpu[k] == gpu[i] + GRAIN)
				at = gpu[k];
	assert_true(at != 0); /* some are neighbours */
	for (int i = 0; i < 200; i++)
		slot[i] = (uint8_t)(i + 1);
	rig_init(&job, 0, slot, at - 100, 100);
	job.pieces[1] = (struct mem_piece){(void *)(uintptr_t)at, 60};
	job.pieces[2] = (struct mem_piece){(void *)(uintptr_t)(at + 60), 40};
	job.copy.npieces = 3;
	for (int out = 0; out < 2; out++) {
		rig_ended = 0;
		assert_int_equal((out ? cuda->fill : cuda->commit)(&job.copy), TCPX_OK);
		rig_wait(1);
		assert_int_equal(job.status, TCPX_OK);
		assert_int_equal(fake.read(at - 100, back, 100), 0);
		assert_int_equal(fake.read(at, back + 100, 100), 0);
		assert_memory_equal(back, slot, 200);
		assert_int_equal(slot[199], 200);
		memset(slot, 0, out ? 0 : 200);
	}
	for (int i = 0; i < MOST; i++)
		rig_free(0, gpu[i]);
	cuda->slot_free(slot, 4096, 0);
}

/* Many threads, both directions, against a model on the host. */
#define PUSHERS 4
#define PER_PUSHER 150
#define SPACE (PUSHERS * PER_PUSHER * 4 * 1000)

struct pusher {
	struct rig_copy *jobs;
	uint64_t random;
	uint32_t begin; /* of its part of the space */
	uint8_t *slot;
	cuda_ptr gpu;
	int to_slot;
};

static uint32_t pusher_random(struct pusher *p, uint32_t below)
{
	p->random = p->random * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(p->random >> 33) % below;
}

/* Its part in slot order; on the GPU the halves of the part are swapped, so that some pieces go on
 * where others end and some do not. */
static void *pusher_main(void *arg)
{
	struct pusher *p = arg;
	const uint32_t part = SPACE / PUSHERS;
	uint32_t at = 0;

	for (int i = 0; i < PER_PUSHER; i++) {
		struct rig_copy *job = &p->jobs[i];
		uint32_t pieces = 1 + (pusher_random(p, 3) ? 0 : pusher_random(p, 4));
		uint32_t begin = at;

		rig_init(job, 0, p->slot + p->begin + begin, 0, 0);
		for (uint32_t k = 0; k < pieces; k++) {
			uint32_t length = 1 + pusher_random(p, 1000);
			uint32_t there = (at + part / 2) % part;

			if (length > part / 2 - there % (part / 2))
				length = part / 2 - there % (part / 2);
			job->pieces[k] = (struct mem_piece){
				(void *)(uintptr_t)(p->gpu + p->begin + there), length};
			at += length;
		}
		job->copy.npieces = pieces;
		if ((p->to_slot ? cuda->fill : cuda->commit)(&job->copy))
			return arg;
	}
	return NULL;
}

static uint32_t model_at(uint32_t at)
{
	const uint32_t part = SPACE / PUSHERS;

	return at / part * part + (at % part + part / 2) % part;
}

static void random_copies_move_the_right_bytes(void **state)
{
	static struct rig_copy jobs[2 * PUSHERS][PER_PUSHER];
	struct pusher pushers[2 * PUSHERS];
	pthread_t threads[2 * PUSHERS];
	uint8_t *slot[2], *there[2];
	cuda_ptr gpu[2];

	(void)state;
	for (int way = 0; way < 2; way++) {
		slot[way] = cuda->slot_alloc(SPACE, 0);
		there[way] = calloc(1, SPACE);
		assert_true(slot[way] && there[way]);
		gpu[way] = rig_alloc(0, SPACE);
		for (uint32_t i = 0; i < SPACE; i++)
			(way ? there[way] : slot[way])[i] = (uint8_t)(i * 7 + i / 251 + 1);
		assert_int_equal(fake.write(gpu[way], there[way], SPACE), 0);
	}
	rig_ended = 0;
	for (int i = 0; i < 2 * PUSHERS; i++) {
		int way = i / PUSHERS;

		pushers[i] = (struct pusher){.jobs = jobs[i],
					     .random = (uint64_t)i + 1,
					     .begin = (uint32_t)(i % PUSHERS) * (SPACE / PUSHERS),
					     .slot = slot[way],
					     .gpu = gpu[way],
					     .to_slot = way};
		assert_int_equal(pthread_create(&threads[i], NULL, pusher_main, &pushers[i]), 0);
	}
	for (int i = 0; i < 2 * PUSHERS; i++) {
		void *failed;

		pthread_join(threads[i], &failed);
		assert_null(failed);
	}
	rig_wait(2 * PUSHERS * PER_PUSHER);
	assert_int_equal(fake.read(gpu[0], there[0], SPACE), 0);
	for (int i = 0; i < 2 * PUSHERS; i++) {
		int way = i / PUSHERS;

		for (int k = 0; k < PER_PUSHER; k++) {
			struct rig_copy *job = &jobs[i][k];
			uint32_t at = (uint32_t)((uint8_t *)job->copy.slot - slot[way]);

			assert_int_equal(job->ends, 1);
			assert_int_equal(job->status, TCPX_OK);
			assert_true(!k || job->place > jobs[i][k - 1].place);
			for (uint64_t b = 0; b < job->copy.bytes; b++, at++)
				if (slot[way][at] != there[way][model_at(at)])
					fail_msg("way %d: byte %u", way, at);
		}
	}
	for (int way = 0; way < 2; way++) {
		rig_free(0, gpu[way]);
		free(there[way]);
		cuda->slot_free(slot[way], SPACE, 0);
	}
}

/* done may queue the next copy. */
struct chain {
	struct rig_copy job;
	int left;
};

static void chain_done(struct mem_copy *copy, tcpx_status status)
{
	struct rig_copy *job = copy->owner;
	struct chain *chain = (struct chain *)job;

	if (status || !chain->left) {
		rig_done(copy, status);
		return;
	}
	chain->left--;
	if ((chain->left % 2 ? cuda->fill : cuda->commit)(copy))
		rig_done(copy, TCPX_ERR_INTERNAL);
}

static void done_may_queue_the_next(void **state)
{
	struct chain chain = {.left = 50};
	uint8_t *slot = cuda->slot_alloc(4096, 0);
	cuda_ptr gpu = rig_alloc(0, 4096);

	(void)state;
	rig_init(&chain.job, 0, slot, gpu, 4096);
	chain.job.copy.done = chain_done;
	rig_ended = 0;
	assert_int_equal(cuda->fill(&chain.job.copy), TCPX_OK);
	rig_wait(1);
	assert_int_equal(chain.job.status, TCPX_OK);
	assert_int_equal(chain.left, 0);
	rig_free(0, gpu);
	cuda->slot_free(slot, 4096, 0);
}

/* Slots that spilled to the heap. */
static void heap_slots_work(void **state)
{
	struct rig_copy jobs[2];
	uint8_t *slot = calloc(2, 70000);
	cuda_ptr gpu = rig_alloc(0, 70000);

	(void)state;
	assert_non_null(slot);
	for (int i = 0; i < 70000; i++)
		slot[i] = (uint8_t)(i * 3 + 1);
	rig_ended = 0;
	rig_init(&jobs[0], 0, slot, gpu, 70000);
	assert_int_equal(cuda->commit(&jobs[0].copy), TCPX_OK);
	rig_wait(1);
	rig_init(&jobs[1], 0, slot + 70000, gpu, 70000);
	assert_int_equal(cuda->fill(&jobs[1].copy), TCPX_OK);
	rig_wait(2);
	assert_memory_equal(slot, slot + 70000, 70000);
	rig_free(0, gpu);
	free(slot);
}

/* Voluntary switches of the device's thread; *out_state as in /proc, '?': there is none. Threads
 * that it started have its name too, and higher numbers. */
static unsigned long thread_switches(const char *name, char *out_state)
{
	unsigned long switches = 0;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/task");
	int owner = INT_MAX;

	assert_non_null(dir);
	*out_state = '?';
	while ((entry = readdir(dir))) {
		char path[300], line[200], is[200] = "";
		int ours = 0;
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/task/%s/status", entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			if (sscanf(line, "Name: %199s", is) == 1)
				ours = !strcmp(is, name) && atoi(entry->d_name) < owner;
			if (!ours)
				continue;
			owner = atoi(entry->d_name);
			sscanf(line, "State: %c", out_state);
			sscanf(line, "voluntary_ctxt_switches: %lu", &switches);
		}
		if (file)
			fclose(file);
	}
	closedir(dir);
	return switches;
}

static void some_copies(uint32_t device, unsigned count)
{
	struct rig_copy job;
	uint8_t *slot = cuda->slot_alloc(4096, device);
	cuda_ptr gpu = rig_alloc(device, 4096);

	assert_non_null(slot);
	for (unsigned i = 0; i < count; i++) {
		rig_init(&job, device, slot, gpu, 4096);
		rig_ended = 0;
		assert_int_equal(cuda->fill(&job.copy), TCPX_OK);
		rig_wait(1);
		assert_int_equal(job.status, TCPX_OK);
	}
	rig_free(device, gpu);
	cuda->slot_free(slot, 4096, device);
}

/* What the other device's thread does meanwhile takes much longer than any pause of this one. */
static void idle_owner_sleeps(void **state)
{
	unsigned long before, after;
	char is;

	(void)state;
	some_copies(0, 1);
	do {
		before = thread_switches("tcpx-gpu-0", &is);
		some_copies(1, 10);
	} while (is != 'S' || thread_switches("tcpx-gpu-0", &is) != before);
	some_copies(1, 300);
	after = thread_switches("tcpx-gpu-0", &is);
	assert_int_equal(is, 'S');
	assert_int_equal(after, before);
}

static void stops_and_starts_again(void **state)
{
	char is;

	(void)state;
	for (int i = 0; i < 3; i++) {
		some_copies(0, 2);
		some_copies(1, 2);
		mem_kinds_stop();
		assert_int_equal(fake.settle(0), 0);
		do /* the kernel shows a thread a little longer than it runs */
			thread_switches("tcpx-gpu-0", &is);
		while (is != '?');
	}
	mem_kinds_stop();
}

/* A copy of a page that stands in its stream until held_end. */
struct held {
	struct rig_copy job;
	uint8_t *slot;
	cuda_ptr gpu;
};

static void held_begin(struct held *held, tcpx_status (*push)(struct mem_copy *copy))
{
	held->slot = cuda->slot_alloc(4096, 0);
	held->gpu = rig_alloc(0, 4096);
	rig_init(&held->job, 0, held->slot, held->gpu, 4096);
	rig_ended = 0;
	fake.hold(1);
	assert_int_equal(push(&held->job.copy), TCPX_OK);
}

static void held_end(struct held *held)
{
	fake.hold(0);
	rig_wait(1);
	assert_int_equal(held->job.ends, 1);
	assert_int_equal(held->job.status, TCPX_OK);
	rig_free(0, held->gpu);
	cuda->slot_free(held->slot, 4096, 0);
}

/* With a copy in a stream that does not end, stop does not wait, the copy is not called done, and
 * the thread ends behind it. */
static void stuck_copy_outlives_stop(void **state)
{
	struct held held;
	uint64_t id;

	(void)state;
	held_begin(&held, cuda->commit);
	rig_calls("cuStreamQuery", fake.calls("cuStreamQuery") + 2); /* 100 ms each */
	mem_kinds_stop();
	assert_int_equal(held.job.ends, 0);
	held_end(&held);
	assert_int_equal(fake.settle(0), 0); /* the thread lets go */
	/* One that lingers is taken over by the next session. */
	held_begin(&held, cuda->commit);
	mem_kinds_stop();
	assert_int_equal(cuda->probe((void *)(uintptr_t)held.gpu, 4096, 0, &id), TCPX_OK);
	held_end(&held);
	some_copies(0, 2);
	mem_kinds_stop();
	assert_int_equal(fake.settle(0), 0);
}

/* A thread that is roused calls the driver at once, on the streams of that direction. The next copy
 * ends when it has moved its bytes, and not by what that call wrote. */
static void roused_owner_calls_the_driver(void **state)
{
	static const char write[] = "cuStreamWriteValue32", query[] = "cuStreamQuery";
	const unsigned cores = mem_owner_cores_to_spin;
	uint64_t writes, each;
	struct held held;

	(void)state;
	mem_owner_cores_to_spin = 1;
	some_copies(0, 1);
	for (int to_slot = 0; to_slot < 2; to_slot++) {
		writes = fake.calls(write);
		while (fake.calls(write) == writes) { /* nothing happens until it sleeps */
			cuda->rouse(0, to_slot ? MEM_CALL_FILL : MEM_CALL_COMMIT);
			sched_yield();
		}
		held_begin(&held, to_slot ? cuda->fill : cuda->commit);
		rig_calls(query, fake.calls(query) + 1); /* 100 ms after the copy was issued */
		assert_int_equal(held.job.ends, 0);
		held_end(&held);
	}
	mem_kinds_stop();
	/* One that must not spin is not roused. */
	mem_owner_cores_to_spin = UINT_MAX;
	writes = fake.calls(write);
	some_copies(0, 1);
	each = fake.calls(write) - writes;
	for (int i = 0; i < 1000; i++)
		cuda->rouse(0, MEM_CALL_FILL);
	some_copies(0, 1);
	assert_int_equal(fake.calls(write), writes + 2 * each);
	mem_kinds_stop();
	mem_owner_cores_to_spin = cores;
}

static int child_calls(void)
{
	struct rig_copy job;
	char slot[16];

	mem_kinds_stop();
	rig_init(&job, 0, slot, 0, 16);
	if (cuda->fill(&job.copy) != TCPX_ERR_UNSUPPORTED)
		return 1;
	mem_kinds_stop();
	return job.ends ? 2 : 0;
}

static void forked_child_is_refused(void **state)
{
	struct held held;

	(void)state;
	held_begin(&held, cuda->fill);
	assert_int_equal(in_child(child_calls), 0);
	held_end(&held);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_pinned_pages),
		cmocka_unit_test(neighbours_become_one_copy),
		cmocka_unit_test(strangers_stay_apart),
		cmocka_unit_test(pieces_go_by_stretches),
		cmocka_unit_test(pieces_of_adjacent_allocations_are_copied),
		cmocka_unit_test(random_copies_move_the_right_bytes),
		cmocka_unit_test(done_may_queue_the_next),
		cmocka_unit_test(heap_slots_work),
		cmocka_unit_test(idle_owner_sleeps),
		cmocka_unit_test(stops_and_starts_again),
		cmocka_unit_test(stuck_copy_outlives_stop),
		cmocka_unit_test(roused_owner_calls_the_driver),
		cmocka_unit_test(forked_child_is_refused),
	};

	if (rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
