/* SPDX-License-Identifier: Apache-2.0 */
/* What unpacking reaches beside a copy of the same bytes, in one run. GB are 10^9 bytes. */
#include "unpack_bench.h"

#define LIST_PIECES (512u << 10) /* of all lists together */
#define TOTAL (16ull << 30)	 /* bytes of a measurement */
#define LAUNCHES_MOST 20000u
#define TRIPS 2000u
#define TIMES 3 /* the best of */

#ifdef TEST_WITH_NVCC
extern const unsigned char unpack_ring_fatbin[]; /* made from unpack_ring.cu */
static const void *const image = unpack_ring_fatbin;
#else
static const void *const image = NULL;
#endif

static const struct bench_row rows[] = {
	{"128 x 4096", 4096, 128, 0, 0},
	{"362 x 1448", 1448, 362, 0, 0},
	{"128 x 4096, odd", 4096, 128, 15, 3},
	{"362 x 1448, odd", 1448, 362, 15, 3},
};
#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void *mapped(struct bench *b, size_t bytes, cuda_ptr *out_at)
{
	void *memory = NULL;

	UNPACK_MUST(b->api->host_alloc(&memory, bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED));
	UNPACK_MUST(b->api->host_device_ptr(out_at, memory, 0));
	memset(memory, 0, bytes);
	return memory;
}

/* Memory to unpack to: here, or on GPU 1. */
static void open_memory(struct bench *b, int relay)
{
	struct sys_cuda_gpu *peer;
	struct sys_cuda_scope scope;
	cuda_result result;

	if (!relay) {
		UNPACK_MUST(b->api->mem_alloc(&b->memory, BENCH_BYTES + 4096));
		return;
	}
	b->peer = 1;
	if (sys_cuda_get(1, &peer) != TCPX_OK)
		SKIP("%s", error_last()->what);
	result = b->api->ctx_enable_peer(peer->ctx, 0);
	if (result == CUDA_ERR_PEER_ACCESS_UNSUPPORTED)
		SKIP("no peer access between GPU 0 and GPU 1");
	UNPACK_MUST(result);
	UNPACK_OK(sys_cuda_push(peer, &scope));
	UNPACK_MUST(b->api->mem_alloc(&b->memory, BENCH_BYTES + 4096));
	sys_cuda_pop(&scope);
}

struct mem_unpack *bench_unpacker(const struct bench *b, const struct mem_unpack_opts *opts)
{
	struct mem_unpack *u = NULL;

	UNPACK_OK(mem_unpack_open(opts, &u));
	UNPACK_OK(mem_unpack_reach(u, b->peer));
	return u;
}

static void bench_open(struct bench *b, int relay)
{
	struct sys_cuda_gpu *gpu;
	cuda_module module;
	int least = 0, greatest = 0;

	if (!image)
		SKIP("built without nvcc: no kernels");
	if (sys_cuda_get(0, &gpu) != TCPX_OK)
		SKIP("%s", error_last()->what);
	b->gpu = gpu;
	b->api = gpu->api;
	UNPACK_OK(sys_cuda_push(gpu, &b->scope));
	UNPACK_OK(mem_unpack_kernels_load(gpu, &b->kernels));
	UNPACK_MUST(b->api->module_load(&module, image));
	UNPACK_MUST(b->api->module_function(&b->ring, module, "unpack_ring"));
	UNPACK_MUST(b->api->module_function(&b->work, module, "unpack_work"));
	UNPACK_MUST(b->api->ctx_priorities(&least, &greatest));
	UNPACK_MUST(b->api->stream_create(&b->stream, CUDA_STREAM_NON_BLOCKING, greatest));
	UNPACK_MUST(b->api->stream_create(&b->second, CUDA_STREAM_NON_BLOCKING, greatest));
	UNPACK_MUST(b->api->stream_create(&b->other, CUDA_STREAM_NON_BLOCKING, least));
	UNPACK_MUST(b->api->mem_alloc(&b->pool, BENCH_BYTES));
	open_memory(b, relay);
	UNPACK_MUST(b->api->mem_alloc(&b->state, 128));
	UNPACK_MUST(b->api->set_async(b->pool, 0x5a, BENCH_BYTES, b->stream));
	UNPACK_MUST(b->api->set_async(b->state, 0, 128, b->stream));
	b->lists = mapped(b, LIST_PIECES * sizeof(*b->lists), &b->lists_at);
	b->words = mapped(b, 4096, &b->words_at);
	b->heads = mapped(b, 4096, &b->heads_at);
	UNPACK_MUST(b->api->ctx_synchronize());
}

cuda_ptr bench_chunk(const struct bench *b, const struct bench_row *row, uint64_t i,
		     struct base_frag *frags)
{
	uint64_t stride = 4096 + (row->skew_src ? 128 : 0), pages = BENCH_BYTES / stride - 1;
	uint64_t chunks = BENCH_BYTES / BENCH_CHUNK - 1;

	for (uint32_t k = 0; k < row->count; k++) {
		uint64_t page = (i * row->count + k) * 7919 % pages;

		frags[k] = (struct base_frag){(uint32_t)(page * stride), row->frag,
					      (uint64_t)k * row->frag};
		if (row->skew_src)
			frags[k].src += 1 + (uint32_t)(page * 5 % row->skew_src);
	}
	return b->memory + i % chunks * BENCH_CHUNK + row->skew_dst;
}

struct mem_unpack_job bench_job(const struct bench *b, const struct bench_row *row, uint64_t i,
				struct base_frag *frags)
{
	uint64_t bytes = (uint64_t)row->frag * row->count;

	return (struct mem_unpack_job){
		.frags = frags,
		.nfrags = row->count,
		.src = b->pool,
		.src_bytes = BENCH_BYTES,
		.dst = bench_chunk(b, row, i, frags),
		.dst_bytes = bytes,
		.expect = bytes,
	};
}

void bench_await(const _Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load_explicit(word, memory_order_acquire) != value)
		;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_percentile(double *samples, unsigned n, double p)
{
	qsort(samples, n, sizeof(*samples), by_size);
	return samples[(unsigned)((n - 1) * p / 100)];
}

/* Lists of so many launches, each of so many chunks, one behind the other. */
static void make_lists(struct bench *b, const struct bench_row *row, uint32_t launches,
		       uint32_t chunks)
{
	struct base_frag *at = b->lists;

	for (uint64_t i = 0; i < (uint64_t)launches * chunks; i++, at += row->count) {
		cuda_ptr to = bench_chunk(b, row, i, at);

		for (uint32_t k = 0; k < row->count; k++)
			at[k].dst += to;
	}
}

/* second: in the second stream, with a word and a state of its own. */
static void launch(struct bench *b, const struct mem_unpack_kernels *kernels, uint32_t pieces,
		   uint64_t first, int second)
{
	const struct mem_unpack_args args = {
		.src = b->pool,
		.pieces = b->lists_at + first * sizeof(struct base_frag),
		.word = b->words_at + (second ? 192 : 0),
		.state = b->state + (second ? 64 : 0),
		.serial = ++b->serial,
		.count = pieces,
		.blocks = mem_unpack_blocks(b->gpu, pieces),
	};

	UNPACK_MUST(mem_unpack_kernels_launch(kernels, second ? b->second : b->stream, &args,
					      b->lists + first));
}

/* GB/s of launches in a row, in one stream or in two in turn. */
static double kernel_rate(struct bench *b, const struct bench_row *row, uint32_t lists,
			  uint32_t chunks, uint32_t launches, int streams)
{
	uint32_t pieces = row->count * chunks;
	double best = 0;

	for (int time = 0; time < TIMES + 1; time++) { /* the first one warms up */
		double begin = check_seconds(), took;

		for (uint32_t i = 0; i < launches; i++)
			launch(b, &b->kernels, pieces, (uint64_t)(i % lists) * pieces,
			       i % 2 && streams == 2);
		/* the last two launches, each in its stream */
		bench_await(&b->words[streams == 2 && launches % 2 == 0 ? 48 : 0], b->serial);
		if (streams == 2 && launches > 1)
			bench_await(&b->words[launches % 2 ? 48 : 0], b->serial - 1);
		took = check_seconds() - begin;
		if (time && (!best || took < best))
			best = took;
	}
	return (double)row->frag * pieces * launches / best / 1e9;
}

/* The same by copies of as many bytes as a launch moves. */
static double copy_rate(struct bench *b, uint64_t bytes, uint32_t copies)
{
	double best = 0;

	for (int time = 0; time < TIMES + 1; time++) {
		uint64_t room = BENCH_BYTES - BENCH_BYTES % bytes;
		double begin = check_seconds(), took;

		for (uint64_t i = 0; i < copies; i++)
			UNPACK_MUST(b->api->copy_async(b->memory + i * bytes % room,
						       b->pool + i * bytes % room, bytes,
						       b->stream));
		UNPACK_MUST(b->api->stream_write(b->stream, b->words_at + 64, ++b->serial, 0));
		bench_await(&b->words[16], b->serial);
		took = check_seconds() - begin;
		if (time && (!best || took < best))
			best = took;
	}
	return (double)bytes * copies / best / 1e9;
}

static void bulk_row(struct bench *b, const struct bench_row *row)
{
	static const uint32_t fused[] = {1, 4, 16, 64};

	for (size_t k = 0; k < sizeof(fused) / sizeof(fused[0]); k++) {
		uint32_t chunks = fused[k], lists, launches;
		uint64_t bytes;
		double by_kernel, by_two, by_copy;

		if (chunks * row->count > MEM_UNPACK_PIECES)
			chunks = MEM_UNPACK_PIECES / row->count;
		bytes = (uint64_t)chunks * row->count * row->frag;
		lists = LIST_PIECES / (chunks * row->count);
		launches = (uint32_t)(TOTAL / bytes);
		if (launches > LAUNCHES_MOST)
			launches = LAUNCHES_MOST;
		make_lists(b, row, lists, chunks);
		by_kernel = kernel_rate(b, row, lists, chunks, launches, 1);
		by_two = kernel_rate(b, row, lists, chunks, launches, 2);
		by_copy = copy_rate(b, bytes, launches);
		printf("  %-16s %2u chunks a launch: %7.1f, a copy of as many bytes %7.1f, ratio "
		       "%.2f; in two streams %7.1f, %.2f\n",
		       row->name, chunks, by_kernel, by_copy, by_kernel / by_copy, by_two,
		       by_two / by_copy);
		fflush(stdout);
		check_alive();
	}
}

/* All of it as the engine does: descriptors checked, launched, waited for; 112 jobs under way. */
static void through_interface(struct bench *b, const struct bench_row *row)
{
	enum { JOBS = 112, ROUNDS = 200 };
	const struct mem_unpack_opts opts = {.job_bytes = BENCH_CHUNK};
	static struct mem_unpack_job jobs[JOBS];
	static struct base_frag frags[JOBS][512];
	struct mem_unpack_counts counts;
	struct mem_unpack *u = bench_unpacker(b, &opts);
	double begin;

	for (unsigned i = 0; i < JOBS; i++)
		jobs[i] = bench_job(b, row, i * 17, frags[i]);
	begin = check_seconds();
	for (unsigned i = 0; i < JOBS * ROUNDS; i++) {
		struct mem_unpack_job *job = &jobs[i % JOBS];
		tcpx_status status;

		while (i >= JOBS && mem_unpack_test(u, job) == TCPX_IN_PROGRESS)
			;
		while ((status = mem_unpack_push(u, job)) == TCPX_ERR_AGAIN)
			(void)mem_unpack_test(u, &jobs[(i + 1) % JOBS]);
		CHECK_EQ(status, TCPX_OK);
		if (i % 8 == 7)
			mem_unpack_flush(u);
	}
	for (unsigned i = 0; i < JOBS; i++)
		while (mem_unpack_test(u, &jobs[i]) == TCPX_IN_PROGRESS)
			;
	begin = check_seconds() - begin;
	mem_unpack_counts(u, &counts);
	printf("  %-16s by the interface, one thread: %.1f GB/s, %.2f us a chunk, %.1f chunks a "
	       "launch\n",
	       row->name, (double)counts.bytes / begin / 1e9, begin * 1e6 / (JOBS * ROUNDS),
	       (double)counts.jobs / (double)counts.launches);
	mem_unpack_close(u);
}

/* One chunk at a time, from its descriptors to the knowledge that it is in place. */
static void trips(struct bench *b, const struct bench_row *row, enum mem_unpack_mode mode,
		  const char *name)
{
	static double whole[TRIPS], push[TRIPS], flush[TRIPS];
	const struct mem_unpack_opts opts = {.mode = mode, .job_bytes = BENCH_CHUNK};
	unsigned n = mode == MEM_UNPACK_KERNEL ? TRIPS : TRIPS / 10;
	static struct base_frag frags[512];
	struct mem_unpack *u = bench_unpacker(b, &opts);

	for (unsigned i = 0; i < n; i++) {
		struct mem_unpack_job job = bench_job(b, row, i, frags);
		double begin = check_seconds(), pushed, flushed;

		CHECK_EQ(mem_unpack_push(u, &job), TCPX_OK);
		pushed = check_seconds();
		mem_unpack_flush(u);
		flushed = check_seconds();
		while (mem_unpack_test(u, &job) == TCPX_IN_PROGRESS)
			;
		whole[i] = (check_seconds() - begin) * 1e6;
		push[i] = (pushed - begin) * 1e6;
		flush[i] = (flushed - pushed) * 1e6;
	}
	printf("  %-16s %-7s %6.2f (99 %%: %6.2f; 1 %%: %.2f), of it checking %.2f, launching "
	       "%.2f\n",
	       row->name, name, bench_percentile(whole, n, 50), bench_percentile(whole, n, 99),
	       bench_percentile(whole, n, 1), bench_percentile(push, n, 50),
	       bench_percentile(flush, n, 50));
	mem_unpack_close(u);
}

/* A launch by itself, its list made before: carried in the launch, or read over the bus. */
static void launch_trips(struct bench *b, int by_list, uint32_t pieces)
{
	struct mem_unpack_kernels kernels = b->kernels;
	static double samples[TRIPS];

	if (by_list)
		kernels.in_params = kernels.list;
	make_lists(b, &rows[0], TRIPS, 1);
	for (unsigned i = 0; i < TRIPS; i++) {
		double begin = check_seconds();

		launch(b, &kernels, pieces, (uint64_t)i * rows[0].count, 0);
		bench_await(&b->words[0], b->serial);
		samples[i] = (check_seconds() - begin) * 1e6;
	}
	printf("  %-16s the launch alone, %s: %.2f (99 %%: %.2f)\n",
	       pieces ? rows[0].name : "nothing",
	       by_list ? "its list over the bus" : "its list with it",
	       bench_percentile(samples, TRIPS, 50), bench_percentile(samples, TRIPS, 99));
}

static void ring_trips(struct bench *b, uint32_t mode)
{
	static double samples[TRIPS];

	bench_ring_open(b, &rows[0], mode);
	for (unsigned i = 0; i < TRIPS; i++)
		samples[i] = bench_ring_trip(b, &rows[0], i) * 1e6;
	bench_ring_close(b);
	printf("  %-16s ring    %6.2f (99 %%: %6.2f): a kernel that stays, 16 blocks, %s%s\n",
	       rows[0].name, bench_percentile(samples, TRIPS, 50),
	       bench_percentile(samples, TRIPS, 99),
	       mode & UNPACK_RING_ONE ? "one polls" : "each polls",
	       mode & UNPACK_RING_FENCE ? ", a fence at the end" : "");
}

static void latencies(struct bench *b)
{
	static double samples[TRIPS];

	for (size_t i = 0; i < ROWS; i++)
		trips(b, &rows[i], MEM_UNPACK_KERNEL, "kernel");
	launch_trips(b, 0, rows[0].count);
	launch_trips(b, 1, rows[0].count);
	launch_trips(b, 1, 0); /* what no kernel is below */
	trips(b, &rows[0], MEM_UNPACK_D2D, "d2d");
	trips(b, &rows[0], MEM_UNPACK_HOST, "host");
	for (unsigned i = 0; i < TRIPS; i++) {
		double begin = check_seconds();

		UNPACK_MUST(b->api->copy_async(b->memory,
					       b->pool + (uint64_t)i % 1024 * BENCH_CHUNK,
					       BENCH_CHUNK, b->stream));
		UNPACK_MUST(b->api->stream_write(b->stream, b->words_at + 64, ++b->serial, 0));
		bench_await(&b->words[16], b->serial);
		samples[i] = (check_seconds() - begin) * 1e6;
	}
	printf("  one device copy of 512 KiB and a flag: %.2f\n",
	       bench_percentile(samples, TRIPS, 50));
	for (uint32_t mode = 0; mode < 4; mode++)
		ring_trips(b, mode);
}

void unpack_bench_run(void *arg)
{
	static struct bench b;

	bench_open(&b, *(const int *)arg);
	printf("%s, %u SMs, to memory of GPU %u\nBulk, GB/s (wanted: 4096 >= 0.95 with many "
	       "chunks, 1448 >= 0.85, odd "
	       ">= 0.6):\n",
	       b.gpu->name, b.gpu->sms, b.peer);
	for (size_t i = 0; i < ROWS; i++)
		bulk_row(&b, &rows[i]);
	for (size_t i = 0; i < 2; i++)
		through_interface(&b, &rows[i]);
	printf("One chunk, us from its descriptors to its end, median (wanted: kernel <= 8):\n");
	latencies(&b);
	check_alive();
	printf("Beside a kernel that computes on every SM, fed at 25 GB/s (wanted: < 5 %%):\n");
	bench_beside(&b, &rows[0]);
}
