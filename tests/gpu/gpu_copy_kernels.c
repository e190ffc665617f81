/* SPDX-License-Identifier: Apache-2.0 */
/* The copy kernels on a GPU against the CPU reference, byte for byte, and what abort promises. */
#include <stdatomic.h>

#include "check.h"
#include "gpu_rig.h"

#define ARENA (16u << 20)
#define FILLERS 16 /* launches of 64 blocks: no GPU has room for so many */

/* What a run of the program says: --seed, --rounds, --serial. */
struct options {
	uint64_t seed;
	unsigned rounds;
	int serial; /* launches wait for each other: none may wait for the host */
};

static void shuffle(struct rng *rng, uint32_t *order, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		order[i] = i;
	for (uint32_t i = count; i > 1; i--) {
		uint32_t j = (uint32_t)rng_below(rng, i), keep = order[i - 1];

		order[i - 1] = order[j];
		order[j] = keep;
	}
}

/* Pieces at ascending places of the arena, neighbours often touch; in the slot in any order. */
static uint32_t random_list(struct gpu_rig *rig, struct gpu_lane *lane, struct rng *rng,
			    uint32_t count)
{
	static uint64_t addr[MEM_COPY_PIECES], length[MEM_COPY_PIECES];
	static uint32_t order[MEM_COPY_PIECES];
	uint64_t most = MEM_COPY_BYTES / count, gap = (ARENA - MEM_COPY_BYTES) / count;
	uint64_t at = rng_below(rng, 64), off = 0;
	int gaps = rng_one_in(rng, 4);

	for (uint32_t i = 0; i < count; i++) {
		length[i] = rng_range(rng, 1, rng_one_in(rng, 3) && most > 40 ? 40 : most);
		if (gaps && length[i] + 40 > most)
			length[i] = length[i] > 40 ? length[i] - 40 : 1;
		addr[i] = rig->arena + at;
		at += length[i];
		if (!rng_one_in(rng, 3))
			at += rng_below(rng, rng_one_in(rng, 2) ? 17 : gap - 64 / count);
	}
	CHECK(at <= ARENA);
	shuffle(rng, order, count);
	if (gaps)
		off = rng_below(rng, 40);
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bytes = length[order[i]];

		if (off + bytes > rig->slot_bytes - 256)
			return i;
		lane->pieces[i] = (struct mem_copy_piece){addr[order[i]], bytes, off};
		off += bytes + (gaps ? rng_below(rng, 40) : 0);
	}
	return count;
}

static void gather_once(struct gpu_rig *rig, struct gpu_lane *lane, uint32_t count, size_t slot_at,
			uint32_t blocks, const char *what)
{
	memset(lane->slot, 0xa5, rig->slot_bytes + 2 * RIG_GUARD);
	memset(lane->model, 0xa5, rig->slot_bytes + 2 * RIG_GUARD);
	gpu_rig_plan(rig, lane, count, slot_at, blocks);
	gpu_rig_launch(rig, lane, 1);
	gpu_rig_expect(rig, lane, 1);
	gpu_rig_wait(rig, lane);
	CHECK_EQ(atomic_load(&lane->mark->started), lane->args.serial);
	CHECK_EQ(atomic_load(&lane->mark->stopped), 0);
	gpu_rig_check_slot(rig, lane, what);
}

static void scatter_once(struct gpu_rig *rig, struct gpu_lane *lane, struct rng *rng,
			 uint32_t count, size_t slot_at, uint32_t blocks, const char *what)
{
	rng_fill(rng, lane->slot, rig->slot_bytes + 2 * RIG_GUARD);
	memcpy(lane->model, lane->slot, rig->slot_bytes + 2 * RIG_GUARD);
	gpu_rig_plan(rig, lane, count, slot_at, blocks);
	gpu_rig_launch(rig, lane, 0);
	gpu_rig_expect(rig, lane, 0);
	gpu_rig_wait(rig, lane);
	CHECK_EQ(atomic_load(&lane->mark->stopped), 0);
	gpu_rig_check_arena(rig, lane, what);
	gpu_rig_check_slot(rig, lane, what);
}

static struct gpu_rig *begin(const struct options *options, struct rng *rng)
{
	rng_seed(rng, options->seed);
	return gpu_rig_open(MEM_COPY_BYTES + 4096, ARENA, rng);
}

static void both_ways(struct gpu_rig *rig, struct rng *rng, uint32_t count, size_t slot_at,
		      uint32_t blocks, const char *what)
{
	gather_once(rig, &rig->lane[0], count, slot_at, blocks, what);
	scatter_once(rig, &rig->lane[0], rng, count, slot_at, blocks, what);
}

/* Every alignment of the slot with every one of GPU memory, lengths about the sizes of accesses. */
static void every_alignment(void *arg)
{
	static const uint64_t lengths[] = {1, 15, 16, 17, 31, 32, 33, 47, 64, 511, 512, 529, 4101};
	struct rng rng;
	struct gpu_rig *rig = begin(arg, &rng);
	char what[64];

	for (size_t slot_at = 0; slot_at < 16; slot_at++) {
		uint64_t at = 0, off = 0;
		uint32_t n = 0;

		for (uint64_t align = 0; align < 16; align++)
			for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
				rig->lane[0].pieces[n++] = (struct mem_copy_piece){
					rig->arena + at + align, lengths[k], off};
				at += (align + lengths[k] + 31) / 16 * 16;
				/* and every place within a word of the slot */
				off += lengths[k] + (k % 4 == 3);
			}
		snprintf(what, sizeof(what), "slot at %zu", slot_at);
		both_ways(rig, &rng, n, slot_at, 64, what);
		both_ways(rig, &rng, n, slot_at, 1, what);
		check_alive();
	}
}

static void random_lists(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct gpu_rig *rig = begin(options, &rng);
	char what[96];

	for (unsigned round = 0; round < options->rounds; round++) {
		uint32_t most = 1u << rng_range(&rng, 0, 12), blocks, count;
		size_t slot_at = rng_one_in(&rng, 2) ? 0 : rng_below(&rng, 256);

		count = random_list(rig, &rig->lane[0], &rng, (uint32_t)rng_range(&rng, 1, most));
		blocks = (uint32_t)rng_range(&rng, 1, MEM_COPY_BLOCKS);
		snprintf(what, sizeof(what), "seed %" PRIu64 " round %u", options->seed, round);
		both_ways(rig, &rng, count, slot_at, blocks, what);
		check_alive();
	}
}

/* The ends of what one launch takes: one huge piece, only tiny ones, both. */
static void extreme_lists(void *arg)
{
	struct rng rng;
	struct gpu_rig *rig = begin(arg, &rng);
	struct mem_copy_piece *p = rig->lane[0].pieces;

	for (uint32_t blocks = 1; blocks <= MEM_COPY_BLOCKS; blocks *= 8) {
		p[0] = (struct mem_copy_piece){rig->arena + 3, MEM_COPY_BYTES, 0};
		both_ways(rig, &rng, 1, 5, blocks, "one huge piece");
		for (uint32_t i = 0; i < MEM_COPY_PIECES; i++)
			p[i] = (struct mem_copy_piece){rig->arena + 3 * i, 1, i};
		both_ways(rig, &rng, MEM_COPY_PIECES, 0, blocks, "single bytes");
		p[MEM_COPY_PIECES - 1].length = MEM_COPY_BYTES - MEM_COPY_PIECES + 1;
		both_ways(rig, &rng, MEM_COPY_PIECES, 1, blocks, "bytes, then a huge piece");
		for (uint32_t i = 0; i < MEM_COPY_PIECES; i++)
			p[i] = (struct mem_copy_piece){rig->arena + 1030 * i, 1024, 1024 * i};
		both_ways(rig, &rng, MEM_COPY_PIECES, 0, blocks, "as many as go in");
	}
}

/* Launches of both lanes overlap: their states and marks are their own. */
static void two_at_once(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct gpu_rig *rig = begin(options, &rng);

	for (unsigned round = 0; round < options->rounds; round++) {
		for (int i = 0; i < RIG_LANES; i++) {
			struct gpu_lane *lane = &rig->lane[i];
			uint32_t count = random_list(rig, lane, &rng, 200);

			memset(lane->slot, 0x5a, rig->slot_bytes + 2 * RIG_GUARD);
			memset(lane->model, 0x5a, rig->slot_bytes + 2 * RIG_GUARD);
			gpu_rig_plan(rig, lane, count, 0, 16);
		}
		for (int i = 0; i < RIG_LANES; i++)
			gpu_rig_launch(rig, &rig->lane[i], 1);
		for (int i = 0; i < RIG_LANES; i++) {
			gpu_rig_expect(rig, &rig->lane[i], 1);
			gpu_rig_wait(rig, &rig->lane[i]);
			gpu_rig_check_slot(rig, &rig->lane[i], i ? "lane 1" : "lane 0");
		}
	}
}

/* Slot and model are the same, and no list's. */
static void blank(struct gpu_rig *rig, struct gpu_lane *lane)
{
	memset(lane->slot, 0xa5, rig->slot_bytes + 2 * RIG_GUARD);
	memset(lane->model, 0xa5, rig->slot_bytes + 2 * RIG_GUARD);
}

static void abort_before_touches_nothing(void *arg)
{
	struct rng rng;
	struct gpu_rig *rig = begin(arg, &rng);
	struct gpu_lane *lane = &rig->lane[0];

	for (int to_slot = 0; to_slot < 2; to_slot++) {
		uint32_t count = random_list(rig, lane, &rng, 100);

		blank(rig, lane);
		gpu_rig_plan(rig, lane, count, 0, 64);
		atomic_store(&lane->mark->abort, 1);
		gpu_rig_launch(rig, lane, to_slot);
		gpu_rig_wait(rig, lane);
		CHECK_EQ(atomic_load(&lane->mark->stopped), 1);
		gpu_rig_check_slot(rig, lane, "aborted before");
		gpu_rig_check_arena(rig, lane, "aborted before");
		/* a later launch of the list agrees, whatever the host has come to since */
		atomic_store(&lane->mark->abort, 0);
		gpu_rig_launch(rig, lane, to_slot);
		gpu_rig_wait(rig, lane);
		gpu_rig_check_slot(rig, lane, "a later launch");
		gpu_rig_check_arena(rig, lane, "a later launch");
		/* and the next list finds out for itself */
		gather_once(rig, lane, count, 0, 64, "after an abort");
	}
}

/* The second half of a list as a launch of its own; the lane's args become the first half's. */
static struct mem_copy_args split(struct gpu_lane *lane, uint32_t blocks)
{
	uint32_t half = lane->args.count / 2, rest = lane->args.count - half;
	struct mem_copy_args second = lane->args;
	uint64_t slot = lane->args.slot;

	CHECK_EQ(mem_copy_plan(lane->pieces, half, slot, blocks, &lane->args), TCPX_OK);
	CHECK_EQ(mem_copy_plan(lane->pieces + half, rest, slot, blocks, &second), TCPX_OK);
	second.pieces += half * sizeof(struct mem_copy_piece);
	return second;
}

/* The host aborts at any time. All of a list's launches move or none, as stopped says; where the
 * host does not see started, none, ever. */
static void abort_stops_all_or_nothing(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct gpu_rig *rig = begin(options, &rng);
	struct gpu_lane *lane = &rig->lane[0];
	uint32_t unseen = 0, stopped = 0, whole = 0, count = random_list(rig, lane, &rng, 300);
	uint8_t *none = lane->model, *all = malloc(rig->slot_bytes + 2 * RIG_GUARD);

	CHECK(all);
	blank(rig, lane);
	memcpy(all, none, rig->slot_bytes + 2 * RIG_GUARD);
	gpu_rig_plan(rig, lane, count, 0, 1);
	lane->model = all;
	gpu_rig_expect(rig, lane, 1);
	for (unsigned round = 0; round < options->rounds * 5; round++) {
		uint64_t spins = rng_below(&rng, 1u << rng_below(&rng, 16));
		uint32_t blocks = (uint32_t)rng_range(&rng, 1, 64);
		struct mem_copy_args second;
		int seen, stop;

		memset(lane->slot, 0xa5, rig->slot_bytes + 2 * RIG_GUARD);
		gpu_rig_plan(rig, lane, count, 0, blocks);
		second = split(lane, blocks);
		gpu_rig_launch(rig, lane, 1);
		lane->args = second;
		gpu_rig_launch(rig, lane, 1);
		for (uint64_t i = 0; i < spins; i++)
			(void)atomic_load_explicit(&lane->mark->abort, memory_order_relaxed);
		atomic_store(&lane->mark->abort, 1);
		seen = atomic_load(&lane->mark->started) == lane->args.serial;
		gpu_rig_wait(rig, lane);
		stop = atomic_load(&lane->mark->stopped) != 0;
		stopped += (uint32_t)stop;
		whole += !stop;
		unseen += !seen;
		CHECK_MSG(seen || stop, "started was not seen, and the list went on");
		lane->model = stop ? none : all;
		gpu_rig_check_slot(rig, lane, stop ? "stopped" : "not stopped");
	}
	printf("  %u unseen, %u stopped, %u whole\n", unseen, stopped, whole);
	lane->model = none;
	free(all);
}

/* Blocks that find somebody at it wait for what he finds, and for nothing else. */
static void blocks_wait_for_the_verdict(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct gpu_rig *rig = begin(options, &rng);
	struct gpu_lane *lane = &rig->lane[0];

	if (options->serial)
		SKIP("a launch would wait for the host");
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t stop = i % 2, count = random_list(rig, lane, &rng, 100);

		blank(rig, lane);
		gpu_rig_plan(rig, lane, count, 0, i < 2 ? 64 : 1);
		lane->args.state = lane->open_gpu;
		atomic_store(&lane->open->claimed, lane->args.serial);
		/* the list before this one had the other */
		atomic_store(&lane->open->verdict, (lane->args.serial - 2) | !stop);
		atomic_store(&lane->mark->abort, !stop); /* is not their business */
		atomic_store(&lane->mark->started, 0);
		gpu_rig_launch(rig, lane, 1);
		for (int spins = 0; spins < 100; spins++) {
			CHECK_EQ(rig->api->stream_query(lane->stream), CUDA_ERR_NOT_READY);
			gpu_rig_check_slot(rig, lane, "before the verdict");
		}
		atomic_store(&lane->open->verdict, lane->args.serial | stop);
		if (!stop)
			gpu_rig_expect(rig, lane, 1);
		gpu_rig_wait(rig, lane);
		gpu_rig_check_slot(rig, lane, stop ? "told to stop" : "told to go");
		CHECK_EQ(atomic_load(&lane->mark->started), 0);
	}
}

/* Blocks that wait until their verdict comes fill the GPU, and hold whatever they are let go of. */
static void fill_gpu(struct gpu_rig *rig, struct gpu_lane *lane)
{
	lane->pieces[0] = (struct mem_copy_piece){rig->arena, 64 * 128, 0};
	gpu_rig_plan(rig, lane, 1, 0, 64);
	CHECK_EQ(lane->args.blocks, 64);
	lane->args.state = lane->open_gpu;
	atomic_store(&lane->open->claimed, lane->args.serial);
	atomic_store(&lane->open->verdict, 0);
	for (int i = 0; i < FILLERS; i++) {
		cuda_stream stream;

		RIG_MUST(rig->api->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0));
		CHECK_EQ(mem_cuda_kernels_launch(&rig->kernels, 1, stream, &lane->args), TCPX_OK);
	}
}

/* What the owner does when there is no room: abort, then started; then his memory is his own. */
static void full_gpu_is_given_up(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct gpu_rig *rig = begin(options, &rng);
	struct gpu_lane *lane = &rig->lane[0], *filler = &rig->lane[1];
	uint32_t count = random_list(rig, lane, &rng, 300);
	double until;
	int seen;

	if (options->serial)
		SKIP("a launch would wait for the host");
	blank(rig, lane);
	fill_gpu(rig, filler);
	gpu_rig_plan(rig, lane, count, 0, 64);
	gpu_rig_launch(rig, lane, 1);
	until = check_seconds() + 0.02;
	while (atomic_load(&lane->mark->started) != lane->args.serial && check_seconds() < until)
		;
	atomic_store(&lane->mark->abort, 1);
	seen = atomic_load(&lane->mark->started) == lane->args.serial;
	if (!seen) {
		gpu_rig_check_slot(rig, lane, "while the GPU is full");
		/* It is still to come, or it found room after the abort and saw that. */
		CHECK(rig->api->stream_query(lane->stream) == CUDA_ERR_NOT_READY ||
		      atomic_load(&lane->mark->stopped));
	}
	atomic_store(&filler->open->verdict, filler->args.serial | MEM_COPY_STOP);
	gpu_rig_wait(rig, lane);
	printf("  the launch %s\n", seen ? "found room" : "did not begin");
	CHECK(seen || atomic_load(&lane->mark->stopped));
	if (!atomic_load(&lane->mark->stopped))
		gpu_rig_expect(rig, lane, 1);
	gpu_rig_check_slot(rig, lane, "behind what filled the GPU");
	RIG_MUST(rig->api->ctx_synchronize());
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"every_alignment", every_alignment},
		{"random_lists", random_lists},
		{"extreme_lists", extreme_lists},
		{"two_at_once", two_at_once},
		{"abort_before_touches_nothing", abort_before_touches_nothing},
		{"abort_stops_all_or_nothing", abort_stops_all_or_nothing},
		{"blocks_wait_for_the_verdict", blocks_wait_for_the_verdict},
		{"full_gpu_is_given_up", full_gpu_is_given_up},
	};
	static const struct check_case bench = {"bench", gpu_bench_run};
	struct options options = {.seed = 1, .rounds = 60};
	const char *only = NULL;
	int measure = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bench"))
			measure = 1;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			options.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			options.rounds = (unsigned)strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--serial"))
			options.serial = 1;
		else if (argv[i][0] != '-')
			only = argv[i];
		else
			return fprintf(stderr,
				       "usage: %s [--seed N] [--rounds N] [--serial] [CASE] | "
				       "--bench\n",
				       argv[0]),
			       2;
	}
	if (measure)
		return check_main(&bench, 1, NULL, &options);
	return check_main(cases, sizeof(cases) / sizeof(cases[0]), only, &options);
}
