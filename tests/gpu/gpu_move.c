/* SPDX-License-Identifier: Apache-2.0 */
/* The move kernel on a GPU against the CPU reference, byte for byte; what an abort promises; with
 * --bench its rate. The sources are on a second GPU if there is one that the first can read. */
#include <stdatomic.h>

#include "base/error.h"
#include "base/rng.h"
#include "check.h"
#include "mem/copy.h"
#include "mem/cuda_kernels.h"
#include "mem/move.h"

#define ARENA (16u << 20)
#define BENCH_BYTES (512ull << 20)

struct options {
	uint64_t seed;
	unsigned rounds;
	size_t bytes; /* of an arena */
};

/* One GPU that moves, and memory of both sides with the CPU's picture of it. */
struct rig {
	struct sys_cuda_gpu *gpu, *source;
	const struct sys_cuda *api;
	struct sys_cuda_scope scope;
	struct mem_cuda_kernels kernels;
	cuda_stream stream;
	struct mem_move_piece *pieces;
	struct mem_copy_mark *mark;
	cuda_ptr pieces_gpu, mark_gpu, state, src, dst;
	uint8_t *src_model, *dst_model, *image;
	size_t bytes;
	struct mem_move_args args;
	uint32_t serial;
};

static struct rig *the_rig;

#define MUST(call)                                                                                 \
	do {                                                                                       \
		cuda_result must_result = (call);                                                  \
		if (must_result != CUDA_OK)                                                        \
			(void)sys_cuda_error(must_result, #call);                                  \
		CHECK_MSG(must_result == CUDA_OK, "%s", error_last()->what);                       \
	} while (0)

static void *pinned(const struct rig *rig, size_t bytes, cuda_ptr *out_gpu)
{
	void *memory = NULL;

	MUST(rig->api->host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	MUST(rig->api->host_device_ptr(out_gpu, memory, 0));
	return memory;
}

/* The memory of the sources: on another GPU if the first one can read it. */
static cuda_ptr source_alloc(struct rig *rig, size_t bytes)
{
	struct sys_cuda_scope scope;
	int can = 0;
	cuda_ptr at;

	rig->source = rig->gpu;
	if (rig->api->devices > 1 && sys_cuda_get(1, &rig->source) == TCPX_OK) {
		MUST(rig->api->device_can_access(&can, rig->gpu->device, rig->source->device));
		if (can)
			MUST(rig->api->ctx_enable_peer(rig->source->ctx, 0));
		else
			rig->source = rig->gpu;
	}
	CHECK_EQ(sys_cuda_push(rig->source, &scope), TCPX_OK);
	MUST(rig->api->mem_alloc(&at, bytes));
	sys_cuda_pop(&scope);
	return at;
}

static struct rig *rig_open(size_t bytes)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	tcpx_status status;

	CHECK(rig);
	rig->bytes = bytes;
	status = sys_cuda_get(0, &rig->gpu);
	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	CHECK_MSG(sys_cuda_push(rig->gpu, &rig->scope) == TCPX_OK, "%s", error_last()->what);
	rig->api = rig->gpu->api;
	status = mem_cuda_kernels_load(rig->gpu, &rig->kernels);
	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	MUST(rig->api->stream_create(&rig->stream, CUDA_STREAM_NON_BLOCKING, 0));
	rig->pieces = pinned(rig, MEM_MOVE_PIECES * sizeof(*rig->pieces), &rig->pieces_gpu);
	rig->mark = pinned(rig, sizeof(*rig->mark), &rig->mark_gpu);
	MUST(rig->api->mem_alloc(&rig->state, sizeof(struct mem_copy_state)));
	MUST(rig->api->set_async(rig->state, 0, sizeof(struct mem_copy_state), rig->stream));
	MUST(rig->api->stream_synchronize(rig->stream));
	MUST(rig->api->mem_alloc(&rig->dst, bytes));
	rig->src = source_alloc(rig, bytes);
	the_rig = rig;
	return rig;
}

/* Fills both sides with random bytes. */
static void rig_fill(struct rig *rig, struct rng *rng)
{
	rig->src_model = malloc(rig->bytes);
	rig->dst_model = malloc(rig->bytes);
	rig->image = malloc(rig->bytes);
	CHECK(rig->src_model && rig->dst_model && rig->image);
	rng_fill(rng, rig->src_model, rig->bytes);
	rng_fill(rng, rig->dst_model, rig->bytes);
	MUST(rig->api->copy(rig->src, (cuda_ptr)(uintptr_t)rig->src_model, rig->bytes));
	MUST(rig->api->copy(rig->dst, (cuda_ptr)(uintptr_t)rig->dst_model, rig->bytes));
	MUST(rig->api->ctx_synchronize());
}

static struct rig *begin(const struct options *options, struct rng *rng)
{
	struct rig *rig = rig_open(options->bytes);

	rng_seed(rng, options->seed);
	rig_fill(rig, rng);
	return rig;
}

static void plan(struct rig *rig, uint32_t count, uint32_t blocks)
{
	CHECK_MSG(mem_move_plan(rig->pieces, count, blocks, &rig->args) == TCPX_OK, "%s",
		  error_last()->what);
	rig->args.pieces = rig->pieces_gpu;
	rig->args.mark = rig->mark_gpu;
	rig->args.state = rig->state;
	rig->args.serial = rig->serial += 2;
	atomic_store(&rig->mark->abort, 0);
	atomic_store(&rig->mark->stopped, 0);
	atomic_store(&rig->mark->started, 0);
}

static void launch(struct rig *rig)
{
	CHECK_MSG(mem_cuda_kernels_move(&rig->kernels, rig->stream, &rig->args) == TCPX_OK, "%s",
		  error_last()->what);
}

/* The CPU's picture of an address of the rig. */
static void *model_at(uint64_t addr, uint64_t bytes)
{
	static struct mem_copy_state state;
	static struct mem_copy_mark mark;
	struct rig *rig = the_rig;

	if (addr == rig->mark_gpu)
		return &mark;
	if (addr == rig->state)
		return &state;
	if (addr == rig->pieces_gpu)
		return rig->pieces;
	if (addr - rig->src < rig->bytes && bytes <= rig->bytes - (addr - rig->src))
		return rig->src_model + (addr - rig->src);
	CHECK_MSG(addr - rig->dst < rig->bytes && bytes <= rig->bytes - (addr - rig->dst),
		  "the test's own list leaves its memory");
	return rig->dst_model + (addr - rig->dst);
}

/* The destination is as the model says, with what lies between the pieces. */
static void check_dst(const struct rig *rig, const char *what)
{
	MUST(rig->api->copy((cuda_ptr)(uintptr_t)rig->image, rig->dst, rig->bytes));
	if (!memcmp(rig->image, rig->dst_model, rig->bytes))
		return;
	for (size_t i = 0; i < rig->bytes; i++)
		CHECK_MSG(rig->image[i] == rig->dst_model[i], "%s: byte %zu of the destination",
			  what, i);
}

static void move_once(struct rig *rig, uint32_t count, uint32_t blocks, const char *what)
{
	plan(rig, count, blocks);
	launch(rig);
	mem_move_cpu(&rig->args, model_at);
	MUST(rig->api->stream_synchronize(rig->stream));
	CHECK_EQ(atomic_load(&rig->mark->started), rig->args.serial);
	CHECK_EQ(atomic_load(&rig->mark->stopped), 0);
	check_dst(rig, what);
}

/* Every alignment of the source with every one of the destination, lengths about the sizes of
 * accesses and units. */
static void every_alignment_moves_exactly(void *arg)
{
	static const uint32_t lengths[] = {1,  2,   3,	 7,   15,   16,	  17,	31,   32,  33,
					   47, 511, 512, 529, 4080, 4095, 4096, 4097, 8207};
	struct rng rng;
	struct rig *rig = begin(arg, &rng);
	char what[64];

	for (uint32_t from = 0; from < 16; from++) {
		uint64_t src = 0, dst = 0;
		uint32_t n = 0;

		for (uint32_t to = 0; to < 16; to++)
			for (size_t k = 0; k < sizeof(lengths) / sizeof(lengths[0]); k++) {
				rig->pieces[n++] =
					(struct mem_move_piece){.src = rig->src + src + from,
								.dst = rig->dst + dst + to,
								.length = lengths[k]};
				src += (from + lengths[k] + 15) / 16 * 16;
				dst += (to + lengths[k] + 15) / 16 * 16;
			}
		CHECK(src <= rig->bytes && dst <= rig->bytes);
		snprintf(what, sizeof(what), "source at %u", from);
		move_once(rig, n, 1, what);
		move_once(rig, n, MEM_MOVE_BLOCKS, what);
		check_alive();
	}
}

/* Pieces that touch the ends of both allocations: nothing beyond them is accessed, which a
 * sanitizer sees. */
static void ends_of_allocations_are_kept(void *arg)
{
	struct rng rng;
	struct rig *rig = begin(arg, &rng);
	uint64_t end = rig->bytes - 5; /* and no multiple of 16 */

	for (uint32_t length = 1; length < 80; length++) {
		rig->pieces[0] = (struct mem_move_piece){rig->src, rig->dst + 7, length, 0};
		rig->pieces[1] = (struct mem_move_piece){rig->src + end - length,
							 rig->dst + rig->bytes - length, length, 0};
		move_once(rig, 2, 1, "ends");
	}
}

static uint32_t random_list(struct rig *rig, struct rng *rng, uint32_t count)
{
	uint64_t most = rig->bytes / count - 64, dst = rng_below(rng, 64);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t length =
			(uint32_t)rng_range(rng, 1, rng_one_in(rng, 3) && most > 40 ? 40 : most);

		rig->pieces[i] = (struct mem_move_piece){.src = rig->src +
								rng_below(rng, rig->bytes - length),
							 .dst = rig->dst + dst,
							 .length = length};
		dst += length + (rng_one_in(rng, 3) ? 0 : rng_below(rng, 40));
	}
	CHECK(dst <= rig->bytes);
	return count;
}

static void random_lists_move_exactly(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct rig *rig = begin(options, &rng);
	char what[96];

	for (unsigned round = 0; round < options->rounds; round++) {
		uint32_t most = 1u << rng_range(&rng, 0, 13);
		uint32_t blocks = (uint32_t)rng_range(&rng, 1, MEM_MOVE_BLOCKS);

		snprintf(what, sizeof(what), "seed %" PRIu64 " round %u", options->seed, round);
		move_once(rig, random_list(rig, &rng, (uint32_t)rng_range(&rng, 1, most)), blocks,
			  what);
		check_alive();
	}
}

static void extreme_lists_move_exactly(void *arg)
{
	struct rng rng;
	struct rig *rig = begin(arg, &rng);
	uint32_t least = (uint32_t)(rig->bytes / MEM_MOVE_PIECES);

	for (uint32_t blocks = 1; blocks <= MEM_MOVE_BLOCKS; blocks *= 8) {
		rig->pieces[0] = (struct mem_move_piece){rig->src + 3, rig->dst + 1,
							 (uint32_t)rig->bytes - 3, 0};
		move_once(rig, 1, blocks, "one huge piece");
		for (uint32_t i = 0; i < MEM_MOVE_PIECES; i++)
			rig->pieces[i] =
				(struct mem_move_piece){rig->src + 5 * i, rig->dst + 3 * i, 1, 0};
		move_once(rig, MEM_MOVE_PIECES, blocks, "single bytes");
		for (uint32_t i = 0; i < MEM_MOVE_PIECES; i++)
			rig->pieces[i] = (struct mem_move_piece){
				rig->src + (uint64_t)least * (MEM_MOVE_PIECES - 1 - i),
				rig->dst + (uint64_t)least * i, least, 0};
		move_once(rig, MEM_MOVE_PIECES, blocks, "as many as go in");
	}
}

/* Bytes that the sources' own GPU wrote just before the launch are seen. */
static void sources_written_just_before_are_seen(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct rig *rig = begin(options, &rng);

	for (unsigned round = 0; round < options->rounds; round++) {
		struct sys_cuda_scope scope;
		uint8_t value = (uint8_t)(round + 1);

		CHECK_EQ(sys_cuda_push(rig->source, &scope), TCPX_OK);
		MUST(rig->api->set_async(rig->src, value, rig->bytes, NULL));
		MUST(rig->api->ctx_synchronize());
		sys_cuda_pop(&scope);
		memset(rig->src_model, value, rig->bytes);
		move_once(rig, random_list(rig, &rng, 300), 32, "written just before");
	}
}

static void abort_before_the_launch_touches_nothing(void *arg)
{
	struct rng rng;
	struct rig *rig = begin(arg, &rng);
	uint32_t count = random_list(rig, &rng, 100);

	plan(rig, count, 32);
	atomic_store(&rig->mark->abort, 1);
	launch(rig);
	MUST(rig->api->stream_synchronize(rig->stream));
	CHECK_EQ(atomic_load(&rig->mark->stopped), 1);
	check_dst(rig, "aborted before");
	move_once(rig, count, 32, "after an abort");
}

/* The host aborts at any time: all blocks move or none, as stopped says. */
static void abort_stops_all_or_nothing(void *arg)
{
	const struct options *options = arg;
	struct rng rng;
	struct rig *rig = begin(options, &rng);
	uint32_t unseen = 0, stopped = 0, whole = 0;

	for (unsigned round = 0; round < options->rounds * 5; round++) {
		uint64_t spins = rng_below(&rng, 1u << rng_below(&rng, 16));
		uint32_t count = random_list(rig, &rng, 64);
		int seen, stop;

		plan(rig, count, (uint32_t)rng_range(&rng, 1, MEM_MOVE_BLOCKS));
		launch(rig);
		for (uint64_t i = 0; i < spins; i++)
			(void)atomic_load_explicit(&rig->mark->abort, memory_order_relaxed);
		atomic_store(&rig->mark->abort, 1);
		seen = atomic_load(&rig->mark->started) == rig->args.serial;
		MUST(rig->api->stream_synchronize(rig->stream));
		stop = atomic_load(&rig->mark->stopped) != 0;
		stopped += (uint32_t)stop;
		whole += !stop;
		unseen += !seen;
		CHECK_MSG(seen || stop, "started was not seen, and the list went on");
		if (!stop)
			mem_move_cpu(&rig->args, model_at);
		check_dst(rig, stop ? "stopped" : "not stopped");
	}
	printf("  %u unseen, %u stopped, %u whole\n", unseen, stopped, whole);
}

static double bench_once(struct rig *rig, int engine, uint32_t count, uint32_t bytes)
{
	double begin = check_seconds();

	for (uint32_t done = 0; done < count;) {
		uint32_t n = count - done < 4096 ? count - done : 4096;

		if (engine)
			for (uint32_t i = 0; i < n; i++)
				MUST(rig->api->copy_async(rig->pieces[i].dst, rig->pieces[i].src,
							  bytes, rig->stream));
		else
			launch(rig);
		done += n;
	}
	MUST(rig->api->stream_synchronize(rig->stream));
	return check_seconds() - begin;
}

/* Rates: pieces in random order, from the second GPU if there is one, 4096 pieces a launch. */
static void bench(void *arg)
{
	static const uint32_t sizes[] = {256, 1024, 4096, 16384, 65536, 131072};
	static const uint32_t blocks[] = {0, 4, 8, 16, 24, 32, 64};
	struct rig *rig = rig_open(BENCH_BYTES);
	struct rng rng;

	(void)arg;
	rng_seed(&rng, 1);
	printf("  GB/s, median of 9, from GPU %u to GPU %u; 0 blocks: the copy engine\n",
	       rig->source->ordinal, rig->gpu->ordinal);
	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		uint32_t size = sizes[s], places = (uint32_t)(BENCH_BYTES / size), count = 4096;

		for (uint32_t i = 0; i < count; i++)
			rig->pieces[i] = (struct mem_move_piece){
				.src = rig->src + rng_below(&rng, places) * size,
				.dst = rig->dst + (uint64_t)(i * 7919 % places) * size,
				.length = size};
		for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
			double times[9];

			if (blocks[b])
				plan(rig, count, blocks[b]);
			for (int r = -1; r < 9; r++) {
				double t = bench_once(rig, !blocks[b], count, size);

				for (int i = r; i >= 0; i--)
					if (i == 0 || times[i - 1] <= t) {
						times[i] = t;
						break;
					} else {
						times[i] = times[i - 1];
					}
			}
			printf("  %6u x %4u by %2u: %7.1f (%.1f us)\n", size, count, blocks[b],
			       (double)size * count / times[4] / 1e9, times[4] * 1e6);
			check_alive();
		}
	}
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"every_alignment_moves_exactly", every_alignment_moves_exactly},
		{"ends_of_allocations_are_kept", ends_of_allocations_are_kept},
		{"random_lists_move_exactly", random_lists_move_exactly},
		{"extreme_lists_move_exactly", extreme_lists_move_exactly},
		{"sources_written_just_before_are_seen", sources_written_just_before_are_seen},
		{"abort_before_the_launch_touches_nothing",
		 abort_before_the_launch_touches_nothing},
		{"abort_stops_all_or_nothing", abort_stops_all_or_nothing},
	};
	static const struct check_case measure = {"bench", bench};
	struct options options = {.seed = 1, .rounds = 60, .bytes = ARENA};
	const char *only = NULL;
	int measures = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bench"))
			measures = 1;
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			options.rounds = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			options.seed = strtoull(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--bytes") && i + 1 < argc)
			options.bytes = strtoull(argv[++i], NULL, 10);
		else if (argv[i][0] != '-')
			only = argv[i];
		else
			return fprintf(stderr,
				       "usage: %s [--seed N] [--rounds N] [--bytes N] [CASE] | "
				       "--bench\n",
				       argv[0]),
			       2;
	}
	if (measures)
		return check_main(&measure, 1, NULL, &options);
	return check_main(cases, sizeof(cases) / sizeof(cases[0]), only, &options);
}
