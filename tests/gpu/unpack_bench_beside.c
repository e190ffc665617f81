/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel that stays and unpacks what a ring tells it; what unpacking costs a kernel beside it. */
#include "unpack_bench.h"

#define RING_BLOCKS 16u
#define FEED_NS 20972.0 /* 512 KiB at 25 GB/s */
#define FEED_JOBS 64u
#define WORK_SECONDS 0.1
#define WORK_WAVES                                                                                 \
	4000u /* blocks of it that follow one another: short ones, as of an application */
#define SAMPLES 65536u

static uint32_t ring_number;

void bench_ring_open(struct bench *b, const struct bench_row *row, uint32_t mode)
{
	struct unpack_ring_args args = {
		.args = {.src = b->pool,
			 .pieces = b->lists_at,
			 .word = b->words_at,
			 .state = b->state},
		.heads = b->heads_at,
		.go = b->state + 64,
		.mode = mode,
	};
	void *params[] = {&args};

	CHECK(row->count <= UNPACK_RING_PIECES);
	ring_number = 0;
	for (unsigned i = 0; i < UNPACK_RING; i++)
		atomic_store(&b->heads[i], 0);
	atomic_store(&b->words[0], 0);
	UNPACK_MUST(b->api->set_async(b->state, 0, 128, b->stream));
	UNPACK_MUST(b->api->launch(b->ring, RING_BLOCKS, 1, 1, MEM_UNPACK_THREADS, 1, 1, 0,
				   b->stream, params, NULL));
}

static uint32_t ring_publish(struct bench *b, uint32_t count)
{
	uint32_t number = ++ring_number;

	atomic_store_explicit(&b->heads[number % UNPACK_RING], (uint64_t)number << 32 | count,
			      memory_order_release);
	return number;
}

/* What a worker would do: descriptors to the list, the head behind them. */
static uint32_t ring_put(struct bench *b, uint32_t count, cuda_ptr to,
			 const struct base_frag *frags)
{
	struct base_frag *list =
		b->lists + (size_t)((ring_number + 1) % UNPACK_RING) * UNPACK_RING_PIECES;

	for (uint32_t k = 0; k < count; k++)
		list[k] = (struct base_frag){frags[k].src, frags[k].len, frags[k].dst + to};
	return ring_publish(b, count);
}

double bench_ring_trip(struct bench *b, const struct bench_row *row, uint64_t i)
{
	static struct base_frag frags[512];
	cuda_ptr to = bench_chunk(b, row, i, frags);
	double begin = check_seconds();

	bench_await(&b->words[0], ring_put(b, row->count, to, frags));
	return check_seconds() - begin;
}

void bench_ring_close(struct bench *b)
{
	(void)ring_publish(b, UNPACK_RING_STOP);
	UNPACK_MUST(b->api->stream_synchronize(b->stream));
	b->serial = ring_number; /* words[0] has been it */
}

/* Puts the application's kernel into its stream, and behind it a word. */
static void work_launch(struct bench *b, uint32_t rounds, uint32_t number)
{
	struct unpack_work_args args = {.sink = b->state, .rounds = rounds};
	void *params[] = {&args};

	UNPACK_MUST(b->api->launch(b->work, b->gpu->sms * 8 * WORK_WAVES, 1, 1, 256, 1, 1, 0,
				   b->other, params, NULL));
	UNPACK_MUST(b->api->stream_write(b->other, b->words_at + 128, number, 0));
}

/* Chunks at a rate until the work is over. */
struct feed {
	struct bench *b;
	const struct bench_row *row;
	struct mem_unpack *u; /* NULL: nothing is fed, or by the ring */
	int ring;
	struct mem_unpack_job jobs[FEED_JOBS];
	struct base_frag frags[FEED_JOBS][512];
	double since[FEED_JOBS], took[SAMPLES];
	uint64_t put, ended;
};

static void feed_end_one(struct feed *f, double now)
{
	if (f->ended < SAMPLES)
		f->took[f->ended] = (now - f->since[f->ended % FEED_JOBS]) * 1e6;
	f->ended++;
}

static void feed_poll(struct feed *f)
{
	while (f->ended < f->put) {
		uint32_t at = (uint32_t)(f->ended % FEED_JOBS);
		tcpx_status status;

		if (f->ring) {
			if ((int32_t)(atomic_load(&f->b->words[0]) - (uint32_t)(f->ended + 1)) < 0)
				return;
		} else {
			status = mem_unpack_test(f->u, &f->jobs[at]);
			if (status == TCPX_IN_PROGRESS)
				return;
			CHECK_EQ(status, TCPX_OK);
		}
		feed_end_one(f, check_seconds());
	}
}

static void feed_put(struct feed *f, double now)
{
	uint32_t at = (uint32_t)(f->put % FEED_JOBS);
	uint64_t most = f->ring ? UNPACK_RING - 1 : FEED_JOBS;

	if (f->put - f->ended >= most)
		return; /* the rate is not reached, and the table says so */
	f->since[at] = now;
	if (f->ring) {
		cuda_ptr to = bench_chunk(f->b, f->row, f->put, f->frags[at]);

		(void)ring_put(f->b, f->row->count, to, f->frags[at]);
	} else {
		f->jobs[at] = bench_job(f->b, f->row, f->put, f->frags[at]);
		if (mem_unpack_push(f->u, &f->jobs[at]) != TCPX_OK)
			return;
		mem_unpack_flush(f->u);
	}
	f->put++;
}

/* Seconds that the work takes with this beside it. */
static double work_beside(struct feed *f, uint32_t rounds)
{
	static uint32_t number;
	struct bench *b = f->b;
	double begin = check_seconds(), next = begin, now, end = 0;

	work_launch(b, rounds, ++number);
	do {
		now = check_seconds();
		if (atomic_load(&b->words[32]) == number && end == 0)
			end = now;
		if (f->u || f->ring) {
			if (end == 0 && now >= next) {
				feed_put(f, now);
				next += FEED_NS * 1e-9;
			}
			feed_poll(f);
		}
	} while (end == 0 || f->ended < f->put);
	return end - begin;
}

static double best_of(struct feed *f, uint32_t rounds)
{
	double best = 0;

	for (int i = 0; i < 5; i++) {
		double took;

		if (f->u)
			f->put = f->ended = 0; /* the ring counts on */
		took = work_beside(f, rounds);
		if (!best || took < best)
			best = took;
	}
	check_alive();
	return best;
}

static void say(const struct feed *f, const char *name, double alone, double with, double rate)
{
	printf("  %-24s %8.3f ms, %+5.2f %% of %.3f ms alone", name, with * 1e3,
	       (with / alone - 1) * 100, alone * 1e3);
	if (rate > 0) {
		static double took[SAMPLES];
		unsigned n = f->ended < SAMPLES ? (unsigned)f->ended : SAMPLES;

		memcpy(took, f->took, n * sizeof(took[0]));
		printf("; last run %.1f GB/s, us a chunk: %.1f (99 %%: %.1f)", rate,
		       bench_percentile(took, n, 50), bench_percentile(took, n, 99));
	}
	printf("\n");
}

static double rate_of(struct feed *f, uint32_t rounds, double *out_best)
{
	uint64_t before;
	double took;

	*out_best = best_of(f, rounds);
	before = f->ring ? f->ended : 0;
	if (!f->ring)
		f->put = f->ended = 0;
	took = work_beside(f, rounds);
	return (double)(f->ended - before) * f->row->frag * f->row->count / took / 1e9;
}

void bench_beside(struct bench *b, const struct bench_row *row)
{
	const struct mem_unpack_opts opts = {.job_bytes = BENCH_CHUNK};
	static struct feed none, by_kernel, by_ring;
	uint32_t rounds = 64;
	double alone, with, rate, again;

	none.b = by_kernel.b = by_ring.b = b;
	none.row = by_kernel.row = by_ring.row = row;
	(void)work_beside(&none, rounds);
	rounds = (uint32_t)(rounds * WORK_SECONDS / work_beside(&none, rounds)) + 1;
	alone = best_of(&none, rounds);

	by_kernel.u = bench_unpacker(b, &opts);
	rate = rate_of(&by_kernel, rounds, &with);
	say(&by_kernel, "launches", alone, with, rate);
	mem_unpack_close(by_kernel.u);

	bench_ring_open(b, row, UNPACK_RING_ONE);
	with = best_of(&none, rounds);
	say(&none, "ring, idle", alone, with, 0);
	by_ring.ring = 1;
	rate = rate_of(&by_ring, rounds, &with);
	say(&by_ring, "ring, fed", alone, with, rate);
	bench_ring_close(b);

	again = best_of(&none, rounds);
	say(&none, "alone once more", alone, again, 0);
}
