/* SPDX-License-Identifier: Apache-2.0 */
/* What the copy kernels reach, beside the copy engine, in one run. GB are 10^9 bytes. */
#include <stdatomic.h>

#include "check.h"
#include "gpu_rig.h"

#define ARENA (256u << 20)
#define BLOCK MEM_COPY_BYTES
#define RING 8u	  /* slots of a block in the pinned ring */
#define TABLES 4u /* launches with a list and a mark of their own */
#define TOTAL (2048ull << 20)
#define TRIPS 2000

/* Slots, lists, marks and words of launches under way: a launch uses those of its number. */
struct bench {
	struct gpu_rig *rig;
	const struct sys_cuda *api;
	uint8_t *ring;
	struct mem_copy_piece *lists;
	struct mem_copy_mark *marks;
	_Atomic uint32_t *words; /* serials of launches that are over: their streams say so */
	cuda_ptr ring_gpu, lists_gpu, marks_gpu, words_gpu, states;
	struct mem_copy_args args[RING];
};

static void *mapped(struct bench *b, size_t bytes, cuda_ptr *out_gpu)
{
	void *memory = NULL;

	RIG_MUST(b->api->host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	RIG_MUST(b->api->host_device_ptr(out_gpu, memory, 0));
	memset(memory, 0, bytes);
	return memory;
}

static void bench_open(struct bench *b)
{
	struct rng rng;

	rng_seed(&rng, 1);
	b->rig = gpu_rig_open(4096, ARENA, &rng);
	b->api = b->rig->api;
	b->ring = mapped(b, (size_t)RING * BLOCK, &b->ring_gpu);
	b->lists = mapped(b, (size_t)RING * MEM_COPY_PIECES * sizeof(*b->lists), &b->lists_gpu);
	b->marks = mapped(b, TABLES * sizeof(*b->marks), &b->marks_gpu);
	b->words = mapped(b, TABLES * sizeof(*b->words), &b->words_gpu);
	RIG_MUST(b->api->mem_alloc(&b->states, TABLES * sizeof(struct mem_copy_state)));
	RIG_MUST(b->api->set_async(b->states, 0, TABLES * sizeof(struct mem_copy_state),
				   b->rig->lane[0].stream));
	RIG_MUST(b->api->ctx_synchronize());
}

/* Lists of RING blocks, pieces strewn over the arena; skew: bytes off alignment. */
static void bench_plan(struct bench *b, uint32_t piece, uint32_t count, uint32_t blocks,
		       uint32_t skew)
{
	uint64_t places = ARENA / ((uint64_t)piece + 64);

	for (uint32_t i = 0; i < RING; i++) {
		struct mem_copy_piece *list = b->lists + i * MEM_COPY_PIECES;

		for (uint32_t k = 0; k < count; k++)
			list[k] = (struct mem_copy_piece){
				b->rig->arena +
					((uint64_t)i * count + k) * 7919 % places *
						(((uint64_t)piece + 63) / 64 * 64) +
					skew,
				piece, (uint64_t)k * piece};
		CHECK_EQ(mem_copy_plan(list, count, b->ring_gpu + (uint64_t)i * BLOCK, blocks,
				       &b->args[i]),
			 TCPX_OK);
		b->args[i].pieces = b->lists_gpu +
				    (uint64_t)i * MEM_COPY_PIECES * sizeof(struct mem_copy_piece);
	}
}

static void await(struct bench *b, uint32_t table, uint32_t serial)
{
	while (atomic_load_explicit(&b->words[table], memory_order_acquire) != serial)
		;
}

static void launch(struct bench *b, int to_slot, uint32_t list, uint32_t table, uint32_t serial,
		   cuda_stream stream)
{
	struct mem_copy_args args = b->args[list];

	args.mark = b->marks_gpu + table * sizeof(struct mem_copy_mark);
	args.state = b->states + table * sizeof(struct mem_copy_state);
	args.serial = serial;
	CHECK_EQ(mem_cuda_kernels_launch(&b->rig->kernels, to_slot, stream, &args), TCPX_OK);
	RIG_MUST(b->api->stream_write(stream, b->words_gpu + table * sizeof(uint32_t), serial, 0));
}

/* Launches with at most so many under way, on streams in turn; GB/s. */
static double bench_rate(struct bench *b, int to_slot, uint64_t bytes, uint32_t streams)
{
	uint32_t launches = (uint32_t)(TOTAL / bytes), base = b->rig->serial + 2;
	double begin = check_seconds();

	if (launches > 20000)
		launches = 20000;
	for (uint32_t i = 0; i < launches; i++) {
		if (i >= 2)
			await(b, (i - 2) % TABLES, base + 2 * (i - 2));
		launch(b, to_slot, i % RING, i % TABLES, base + 2 * i,
		       b->rig->lane[i % streams].stream);
	}
	await(b, (launches - 1) % TABLES, base + 2 * (launches - 1));
	if (launches > 1)
		await(b, (launches - 2) % TABLES, base + 2 * (launches - 2));
	b->rig->serial = base + 2 * launches;
	return (double)launches * (double)bytes / (check_seconds() - begin) / 1e9;
}

/* The copy engine's blocks with a word written behind each, two under way: what kernels lose to. */
static double engine_rate(struct bench *b, int to_slot)
{
	uint32_t copies = (uint32_t)(TOTAL / BLOCK), base = b->rig->serial + 2;
	cuda_stream stream = b->rig->lane[0].stream;
	double begin = check_seconds();

	for (uint32_t i = 0; i < copies; i++) {
		cuda_ptr slot = b->ring_gpu + (uint64_t)(i % RING) * BLOCK;
		cuda_ptr gpu = b->rig->arena + (uint64_t)i * BLOCK % ARENA;

		while (i >= 2 && (int32_t)(atomic_load(b->words) - (base + i - 2)) < 0)
			;
		RIG_MUST(b->api->copy_async(to_slot ? slot : gpu, to_slot ? gpu : slot, BLOCK,
					    stream));
		RIG_MUST(b->api->stream_write(stream, b->words_gpu, base + i, 0));
	}
	await(b, 0, base + copies - 1);
	b->rig->serial = base + 2 * copies; /* even */
	return (double)copies * BLOCK / (check_seconds() - begin) / 1e9;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* From the call to the word, one launch at a time; microseconds, median. */
static double bench_trip(struct bench *b, int to_slot)
{
	static double took[TRIPS];

	for (uint32_t i = 0; i < TRIPS; i++) {
		double begin = check_seconds();

		b->rig->serial += 2;
		launch(b, to_slot, i % RING, 0, b->rig->serial, b->rig->lane[0].stream);
		await(b, 0, b->rig->serial);
		took[i] = check_seconds() - begin;
	}
	qsort(took, TRIPS, sizeof(took[0]), by_size);
	return took[TRIPS / 2] * 1e6;
}

static void bench_row(struct bench *b, int to_slot, uint32_t piece, uint32_t count, uint32_t skew)
{
	static const uint32_t blocks[] = {4, 8, 16, 32, 64};

	printf("%-7s %6u B x %4u, +%u:", to_slot ? "gather" : "scatter", piece, count, skew);
	for (size_t k = 0; k < sizeof(blocks) / sizeof(blocks[0]); k++) {
		double one, two;

		bench_plan(b, piece, count, blocks[k], skew);
		(void)bench_rate(b, to_slot, (uint64_t)piece * count * 16, 1); /* warm */
		one = bench_rate(b, to_slot, (uint64_t)piece * count, 1);
		two = bench_rate(b, to_slot, (uint64_t)piece * count, 2);
		printf("  %2u: %5.1f / %5.1f", blocks[k], one, two);
		fflush(stdout);
		check_alive();
	}
	printf("\n");
}

void gpu_bench_run(void *arg)
{
	static const struct {
		uint32_t piece, count, skew;
	} rows[] = {{65536, 64, 0},  {65536, 64, 4},  {4096, 1024, 0},
		    {4096, 1024, 1}, {1024, 4096, 0}, {1024, 4096, 8},
		    {4 << 20, 1, 0}, {256, 4096, 0},  {4096, 64, 0}};
	static struct bench b;

	(void)arg;
	bench_open(&b);
	printf("%s, GB/s; by blocks: one stream / two streams in turn, two launches under way\n",
	       b.rig->gpu->name);
	for (int to_slot = 1; to_slot >= 0; to_slot--) {
		(void)engine_rate(&b, to_slot);
		printf("%-7s 4 MiB by the copy engine, a word behind each: %.1f\n",
		       to_slot ? "gather" : "scatter", engine_rate(&b, to_slot));
		for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
			bench_row(&b, to_slot, rows[i].piece, rows[i].count, rows[i].skew);
		for (uint32_t count = 16; count <= 1024; count *= 8) {
			bench_plan(&b, 4096, count, 0, 0);
			printf("%-7s 4096 B x %4u, %2u blocks, call to word: %.1f us\n",
			       to_slot ? "gather" : "scatter", count, b.args[0].blocks,
			       bench_trip(&b, to_slot));
		}
	}
}
