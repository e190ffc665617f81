/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacking on a GPU against the CPU reference, byte for byte; --bench: what it reaches. */
#include "gpu_unpack.h"
#include "unpack_lists.h"

#define POOL (32u << 20)
#define MEMORY (32u << 20)
#define PAGES (POOL / UNPACK_PAGE)
#define GUARD 4096u
#define JOBS 24u

struct options {
	uint64_t seed;
	unsigned rounds;
};

/* A batch of jobs side by side in memory. */
struct batch {
	struct unpack_gpu *g;
	struct base_frag *frags; /* [JOBS][MEM_UNPACK_FRAGS] */
	struct mem_unpack_job jobs[JOBS];
	unsigned n;
	uint64_t at; /* of the next one */
};

void unpack_gpu_fail(const char *file, int line, cuda_result result, const char *call)
{
	(void)sys_cuda_error(result, call);
	check_fail(file, line, "%s", error_last()->what);
}

static void open_peer(struct unpack_gpu *g)
{
	struct sys_cuda_scope scope;
	int can = 0;

	if (g->api->devices < 2)
		SKIP("one GPU");
	UNPACK_OK(sys_cuda_get(1, &g->peer));
	UNPACK_MUST(g->api->device_can_access(&can, g->gpu->device, g->peer->device));
	if (!can)
		SKIP("no peer access between GPU 0 and GPU 1");
	UNPACK_OK(sys_cuda_push(g->peer, &scope));
	UNPACK_MUST(g->api->mem_alloc(&g->memory, g->memory_bytes));
	sys_cuda_pop(&scope);
}

struct unpack_gpu *unpack_gpu_open(size_t pool_bytes, size_t memory_bytes, int relay,
				   struct rng *rng)
{
	static struct unpack_gpu g;
	tcpx_status status = sys_cuda_get(0, &g.gpu);

	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	g.api = g.gpu->api;
	g.peer = g.gpu;
	g.pool_bytes = pool_bytes;
	g.memory_bytes = memory_bytes;
	UNPACK_OK(sys_cuda_push(g.gpu, &g.scope));
	UNPACK_MUST(g.api->mem_alloc(&g.pool, pool_bytes));
	if (relay)
		open_peer(&g);
	else
		UNPACK_MUST(g.api->mem_alloc(&g.memory, memory_bytes));
	g.pool_image = malloc(pool_bytes);
	g.want = malloc(memory_bytes);
	g.have = malloc(memory_bytes);
	CHECK(g.pool_image && g.want && g.have);
	rng_fill(rng, g.pool_image, pool_bytes);
	UNPACK_MUST(g.api->copy(g.pool, (uintptr_t)g.pool_image, pool_bytes));
	UNPACK_MUST(g.api->ctx_synchronize());
	return &g;
}

struct mem_unpack *unpack_gpu_unpacker(struct unpack_gpu *g, enum mem_unpack_mode mode)
{
	const struct mem_unpack_opts opts = {
		.mode = mode, .device = 0, .job_bytes = MEM_UNPACK_JOB_MAX};
	struct mem_unpack *u = NULL;
	tcpx_status status = mem_unpack_open(&opts, &u);

	if (status == TCPX_ERR_UNSUPPORTED)
		SKIP("%s", error_last()->what);
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	UNPACK_OK(mem_unpack_reach(u, g->peer->ordinal));
	return u;
}

static void batch_begin(struct batch *b, struct unpack_gpu *g)
{
	b->g = g;
	if (!b->frags)
		b->frags = calloc((size_t)JOBS * MEM_UNPACK_FRAGS, sizeof(*b->frags));
	CHECK(b->frags);
	b->n = 0;
	b->at = GUARD;
	memset(g->want, 0xa5, g->memory_bytes);
	UNPACK_MUST(g->api->copy(g->memory, (uintptr_t)g->want, g->memory_bytes));
}

static struct base_frag *batch_list(struct batch *b)
{
	CHECK(b->n < JOBS);
	return b->frags + (size_t)b->n * MEM_UNPACK_FRAGS;
}

/* The list that batch_list gave becomes a job, off bytes behind the one before. */
static void batch_add(struct batch *b, uint32_t count, uint64_t sum, uint64_t span, uint64_t off)
{
	struct unpack_gpu *g = b->g;

	b->at += off;
	CHECK(b->at + span + GUARD <= g->memory_bytes);
	b->jobs[b->n] = (struct mem_unpack_job){.frags = batch_list(b),
						.nfrags = count,
						.src = g->pool,
						.src_bytes = g->pool_bytes,
						.dst = g->memory + b->at,
						.dst_bytes = span,
						.expect = sum};
	mem_unpack_frags(batch_list(b), count, g->pool_image, g->want + b->at);
	b->at += span;
	b->n++;
}

static void tell_frag(const struct batch *b, uint64_t at)
{
	for (unsigned i = 0; i < b->n; i++) {
		const struct mem_unpack_job *job = &b->jobs[i];
		uint64_t off = at - (job->dst - b->g->memory);

		for (uint32_t k = 0; off < job->dst_bytes && k < job->nfrags; k++)
			if (off - job->frags[k].dst < job->frags[k].len)
				fprintf(stderr,
					"  job %u of %u, fragment %u of %" PRIu64
					": source %% 16 = %u, "
					"destination %% 16 = %u, %u bytes, its byte %u\n",
					i, b->n, k, job->nfrags, job->frags[k].src % 16,
					(unsigned)((job->dst + job->frags[k].dst) % 16),
					job->frags[k].len, (unsigned)(off - job->frags[k].dst));
	}
}

/* All of the memory, so what nobody wrote to as well. */
static void batch_check(struct batch *b, const char *what)
{
	struct unpack_gpu *g = b->g;
	size_t at = 0;

	UNPACK_MUST(g->api->copy((uintptr_t)g->have, g->memory, g->memory_bytes));
	if (!memcmp(g->have, g->want, g->memory_bytes))
		return;
	while (g->have[at] == g->want[at])
		at++;
	tell_frag(b, at);
	check_fail(__FILE__, __LINE__, "%s: byte %zu is %02x, not %02x", what, at, g->have[at],
		   g->want[at]);
}

static void end_job(struct mem_unpack *u, struct mem_unpack_job *job)
{
	tcpx_status status;

	while ((status = mem_unpack_test(u, job)) == TCPX_IN_PROGRESS)
		;
	CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
	CHECK(job->moved);
}

/* flush_in: 1: behind each job; n: behind one of n. */
static void batch_run(struct batch *b, struct mem_unpack *u, struct rng *rng, unsigned flush_in)
{
	for (unsigned i = 0; i < b->n; i++) {
		tcpx_status status;

		while ((status = mem_unpack_push(u, &b->jobs[i])) == TCPX_ERR_AGAIN)
			(void)mem_unpack_test(u, &b->jobs[0]);
		CHECK_MSG(status == TCPX_OK, "%s", error_last()->what);
		if (rng_one_in(rng, flush_in))
			mem_unpack_flush(u);
	}
	for (unsigned i = b->n; i-- > 0;)
		end_job(u, &b->jobs[i]);
}

/* Every alignment of source and destination, lengths about the sizes of accesses and steps. */
static void every_alignment(struct unpack_gpu *g, struct mem_unpack *u, struct rng *rng)
{
	static const uint32_t longer[] = {63,	64,   65,   127,  128,	129,  255,  256,  257,
					  511,	512,  513,  1447, 1448, 1449, 4079, 4080, 4081,
					  4095, 4096, 4097, 4111, 4112, 4113, 8000, 8150};
	uint32_t lengths = 48 + sizeof(longer) / sizeof(longer[0]);
	static struct batch b;

	for (uint32_t dst = 0; dst < 16; dst++) {
		batch_begin(&b, g);
		for (uint32_t src = 0; src < 16; src++) {
			struct base_frag *list = batch_list(&b);
			uint64_t at = 0, sum = 0;

			for (uint32_t k = 0; k < lengths; k++) {
				uint32_t len = k < 48 ? k + 1 : longer[k - 48];
				uint32_t page = (uint32_t)rng_below(rng, PAGES);

				list[k] = (struct base_frag){page * UNPACK_PAGE + src, len, at};
				at += (len + 47) / 16 * 16; /* a gap, so that strays are seen */
				sum += len;
			}
			batch_add(&b, lengths, sum, at, 16 - b.at % 16 + dst);
		}
		batch_run(&b, u, rng, 4);
		batch_check(&b, "every alignment");
		check_alive();
	}
}

static void random_lists(struct unpack_gpu *g, struct mem_unpack *u, struct rng *rng,
			 unsigned rounds)
{
	static struct batch b;

	for (unsigned round = 0; round < rounds; round++) {
		uint32_t njobs = (uint32_t)rng_range(rng, 1, JOBS);

		batch_begin(&b, g);
		for (uint32_t i = 0; i < njobs; i++) {
			struct unpack_shape shape = {
				.count = (uint32_t)rng_range(
					rng, 1, rng_one_in(rng, 4) ? MEM_UNPACK_FRAGS : 300),
				.gaps = rng_one_in(rng, 3),
				.shuffled = rng_one_in(rng, 3),
				.exactly = rng_one_in(rng, 2),
				.skew = rng_one_in(rng, 3) ? 0 : 90,
			};
			uint32_t most = (1u << 20) / shape.count;
			uint64_t span, sum;

			shape.most = (uint32_t)rng_range(rng, 1, most < 8000 ? most : 8000);
			sum = unpack_list_make(rng, &shape, PAGES, UNPACK_PAGE, batch_list(&b),
					       &span);
			batch_add(&b, shape.count, sum, span, rng_below(rng, 40));
		}
		batch_run(&b, u, rng, (unsigned)rng_range(rng, 1, 8));
		batch_check(&b, "random lists");
		check_alive();
	}
}

/* As chunks arrive: 128 pages, 1448 bytes a packet, and as many as a plugin can list. */
static void chunks(struct unpack_gpu *g, struct mem_unpack *u, struct rng *rng, int jobs)
{
	static const struct unpack_shape shapes[] = {
		{.count = 128, .most = 4096, .exactly = 1},
		{.count = 362, .most = 1448, .exactly = 1},
		{.count = 128, .most = 4096, .exactly = 1, .skew = 64},
		{.count = 2047, .most = 512, .exactly = 1},
		{.count = 2047, .most = 300, .exactly = 1, .skew = 16, .shuffled = 1},
	};
	static struct batch b;

	for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++)
		for (uint32_t align = 0; align < 16; align += 5) {
			batch_begin(&b, g);
			for (int i = 0; i < jobs; i++) {
				uint64_t span,
					sum = unpack_list_make(rng, &shapes[k], PAGES, UNPACK_PAGE,
							       batch_list(&b), &span);

				batch_add(&b, shapes[k].count, sum, span, 16 - b.at % 16 + align);
			}
			batch_run(&b, u, rng, 3);
			batch_check(&b, "chunks");
			check_alive();
		}
}

static void run_mode(const struct options *options, enum mem_unpack_mode mode, int relay)
{
	struct unpack_gpu *g;
	struct mem_unpack *u;
	struct rng rng;

	rng_seed(&rng, options->seed);
	g = unpack_gpu_open(POOL, MEMORY, relay, &rng);
	u = unpack_gpu_unpacker(g, mode);
	chunks(g, u, &rng, mode == MEM_UNPACK_KERNEL ? 16 : 1); /* else a copy a fragment */
	random_lists(g, u, &rng, options->rounds);
	if (mode == MEM_UNPACK_KERNEL)
		every_alignment(g, u, &rng);
	mem_unpack_close(u);
}

static void by_kernel(void *arg)
{
	run_mode(arg, MEM_UNPACK_KERNEL, 0);
}

static void by_device_copies(void *arg)
{
	run_mode(arg, MEM_UNPACK_D2D, 0);
}

static void through_host(void *arg)
{
	run_mode(arg, MEM_UNPACK_HOST, 0);
}

static void relay_by_kernel(void *arg)
{
	run_mode(arg, MEM_UNPACK_KERNEL, 1);
}

static void relay_by_device_copies(void *arg)
{
	run_mode(arg, MEM_UNPACK_D2D, 1);
}

/* Two workers of one GPU: their launches overlap, and neither's end is the other's. */
static void two_at_once(void *arg)
{
	const struct options *options = arg;
	static struct batch b[2];
	struct mem_unpack *u[2];
	struct unpack_gpu *g;
	struct rng rng;

	rng_seed(&rng, options->seed);
	g = unpack_gpu_open(POOL, MEMORY, 0, &rng);
	for (int i = 0; i < 2; i++)
		u[i] = unpack_gpu_unpacker(g, MEM_UNPACK_KERNEL);
	for (unsigned round = 0; round < options->rounds * 2; round++) {
		batch_begin(&b[1], g);
		batch_begin(&b[0], g);
		for (int i = 0; i < 16; i++) {
			struct batch *one = &b[i % 2], *other = &b[1 - i % 2];
			struct unpack_shape shape = {.count = 300, .most = 2000, .skew = 20};
			uint64_t span, sum = unpack_list_make(&rng, &shape, PAGES, UNPACK_PAGE,
							      batch_list(one), &span);

			one->at = other->at > one->at ? other->at : one->at;
			batch_add(one, shape.count, sum, span, 1);
			UNPACK_OK(mem_unpack_push(u[i % 2], &one->jobs[one->n - 1]));
			mem_unpack_flush(u[i % 2]);
		}
		for (int i = 15; i >= 0; i--)
			end_job(u[i % 2], &b[i % 2].jobs[i / 2]);
		batch_check(&b[0], "two at once");
	}
	mem_unpack_close(u[0]);
	mem_unpack_close(u[1]);
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"by_kernel", by_kernel},
		{"by_device_copies", by_device_copies},
		{"through_host", through_host},
		{"two_at_once", two_at_once},
		{"relay_by_kernel", relay_by_kernel},
		{"relay_by_device_copies", relay_by_device_copies},
	};
	static const struct check_case bench = {"bench", unpack_bench_run};
	struct options options = {.seed = 1, .rounds = 30};
	const char *only = NULL;
	int measure = 0, relay = 0;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bench"))
			measure = 1;
		else if (!strcmp(argv[i], "--relay"))
			relay = 1;
		else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
			options.seed = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--rounds") && i + 1 < argc)
			options.rounds = (unsigned)strtoul(argv[++i], NULL, 0);
		else if (argv[i][0] != '-')
			only = argv[i];
		else
			return fprintf(stderr,
				       "usage: %s [--seed N] [--rounds N] [CASE] | --bench "
				       "[--relay]\n",
				       argv[0]),
			       2;
	}
	if (measure)
		return check_main(&bench, 1, NULL, &relay);
	return check_main(cases, sizeof(cases) / sizeof(cases[0]), only, &options);
}
