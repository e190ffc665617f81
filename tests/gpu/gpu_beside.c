/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An application's own work on the GPUs beside transfers: neither hangs, neither is hung, and
 * between transfers nothing of ours is in its way. One process has both ends, so that all of it is
 * in one context a GPU.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "beside.h"

#define ROUNDS 50	   /* of the application's work, beside transfers */
#define MOVES 50	   /* transfers meanwhile */
#define REOPENS 4	   /* of all sessions, beside captures */
#define QUIET_NS 100000000 /* the promise: so long after the last transfer */
#define WATCH_NS 500000000 /* is looked at */
#define BUSY_NS 10000000   /* CPU time of all our threads in it: beats and timers */
#define LOOKS 1000

struct options {
	uint64_t bytes;
	int local;
};

static struct beside *begin(const struct options *options, uint32_t far)
{
	struct beside *b = beside_open(options->bytes, options->local, far);

	beside_connect(b);
	return b;
}

static void nap(int64_t ns)
{
	struct timespec ts = {ns / 1000000000, ns % 1000000000};

	while (nanosleep(&ts, &ts))
		;
}

/* The application's kernel holds every SM of every GPU, whole, from here on. */
static void fill(struct beside *b, enum beside_where where, struct beside_run runs[2])
{
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_open(b, i, where, &runs[i]);
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_launch(&runs[i], runs[i].end->gpu->sms, 1);
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_meet(&runs[i]);
}

static void still_full(struct beside *b, struct beside_run runs[2])
{
	for (unsigned i = 0; i < b->gpus; i++)
		CHECK_MSG(beside_run_busy(&runs[i]), "the kernel did not last");
}

static uint64_t launches(const struct beside *b)
{
	return b->fake ? b->fake->calls("cuLaunchKernel") : 0;
}

/* All of them end while the kernel runs, the first ones of these sessions among them: a kernel of
 * ours was never launched before. */
static void full_gpu(const struct options *options, enum beside_where where)
{
	struct beside *b = begin(options, UINT32_MAX);
	struct beside_run runs[2];
	uint64_t before;

	fill(b, where, runs);
	before = launches(b);
	for (int i = 0; i < 3; i++)
		beside_move_all(b);
	still_full(b, runs);
	beside_say(b, "beside the kernel");
	if (b->fake) /* kernels of ours were in line, and gave way */
		CHECK_CMP(launches(b), >, before);
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_stop(&runs[i]);
	before = launches(b);
	do /* and then they come back; only the stand-in can tell */
		beside_move_all(b);
	while (b->fake && launches(b) == before);
	beside_say(b, "behind it");
	beside_close(b);
}

static void full_gpu_default_priority(void *arg)
{
	full_gpu(arg, BESIDE_DEFAULT);
}

static void full_gpu_highest_priority(void *arg)
{
	full_gpu(arg, BESIDE_HIGHEST);
}

static void full_gpu_legacy_stream(void *arg)
{
	full_gpu(arg, BESIDE_LEGACY);
}

/* A thread of the application's that does one thing over and over. */
struct worker {
	struct beside *b;
	void (*round)(struct worker *worker);
	struct beside_graph graph;
	_Atomic unsigned rounds;
	_Atomic int stop;
	pthread_t thread;
};

static void *worker_main(void *arg)
{
	struct worker *worker = arg;

	while (!atomic_load(&worker->stop)) {
		worker->round(worker);
		atomic_fetch_add(&worker->rounds, 1);
	}
	return NULL;
}

static void worker_start(struct worker *worker)
{
	CHECK_EQ(pthread_create(&worker->thread, NULL, worker_main, worker), 0);
}

static unsigned worker_stop(struct worker *worker)
{
	atomic_store(&worker->stop, 1);
	CHECK_EQ(pthread_join(worker->thread, NULL), 0);
	return atomic_load(&worker->rounds);
}

/* Waits for all work of the context, ours too. */
static void sync_round(struct worker *worker)
{
	struct beside *b = worker->b;
	cuda_ctx popped;

	for (unsigned i = 0; i < b->gpus; i++) {
		BESIDE_MUST(b->api->ctx_push(b->end[i].gpu->ctx));
		BESIDE_MUST(b->api->ctx_synchronize());
		BESIDE_MUST(b->api->stream_synchronize(NULL));
		BESIDE_MUST(b->api->ctx_pop(&popped));
	}
}

/* Transfers never pause, so there is always work of ours that is new. Both go on. */
static void device_sync(void *arg)
{
	struct beside *b = begin(arg, UINT32_MAX);
	struct worker worker = {.b = b, .round = sync_round};
	unsigned moves = 0;

	beside_load_begin(b);
	worker_start(&worker);
	for (; moves < MOVES || atomic_load(&worker.rounds) < ROUNDS; moves++)
		beside_load_next(b);
	printf("  %u transfers, %u synchronises of each GPU\n", moves, worker_stop(&worker));
	beside_load_stop(b);
	beside_close(b);
}

static void capture_round(struct worker *worker)
{
	beside_graph_round(&worker->graph);
}

/* The end's sessions are as they were afterwards. */
static void register_again(struct beside *b, struct beside_end *end)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = TCPX_MEM_CUDA, .device = end->gpu->ordinal);
	tcpx_session *session;
	tcpx_region region;

	for (int i = 0; i < 2; i++) {
		session = end->session;
		if (i)
			BESIDE_OK(tcpx_session_open(NULL, &session));
		BESIDE_OK(tcpx_region_register(session, (void *)(uintptr_t)end->mem, b->bytes,
					       &opts, &region));
		BESIDE_OK(tcpx_region_deregister(session, region, 0));
		if (i)
			tcpx_session_close(session);
	}
}

/* Captures in global mode, one behind the other, beside all that the library does: its threads and
 * pools begin and end too, with the last session. */
static void capture(void *arg)
{
	const struct options *options = arg;
	struct beside *b = beside_open(options->bytes, options->local, UINT32_MAX);
	struct worker worker = {.b = b, .round = capture_round};
	unsigned opens = 0, moves = 0;

	beside_graph_open(b, 0, &worker.graph);
	worker_start(&worker);
	while (opens < REOPENS || atomic_load(&worker.rounds) < ROUNDS) {
		beside_connect(b);
		opens++;
		beside_load_begin(b);
		for (int i = 0; i < MOVES; i++, moves++) {
			beside_load_next(b);
			if (i % 8 == 0)
				register_again(b, &b->end[i / 8 % 2]);
		}
		beside_load_stop(b);
		beside_close(b);
	}
	printf("  %u captures, %u transfers, %u times all sessions\n", worker_stop(&worker), moves,
	       opens);
}

/* A block that stays on one SM: the others cannot meet as long as it does, so that meeting says
 * something. */
static void probe_sees_a_held_sm(void *arg)
{
	const struct options *options = arg;
	struct beside *b = beside_open(options->bytes, options->local, 0);
	struct beside_run holder, meeting;
	uint32_t sms = b->end[0].gpu->sms;

	beside_run_open(b, 0, BESIDE_DEFAULT, &holder);
	beside_run_open(b, 0, BESIDE_HIGHEST, &meeting);
	beside_run_launch(&holder, 1, 1);
	beside_run_meet(&holder);
	beside_run_launch(&meeting, sms, 0);
	beside_run_await(&meeting, sms - 1);
	for (int i = 0; i < LOOKS; i++) {
		CHECK_MSG(beside_run_busy(&meeting), "it is over without the SM");
		CHECK_EQ(atomic_load(&meeting.mark->all), 0);
		CHECK_EQ(atomic_load(&meeting.mark->here[sms - 1]), 0);
	}
	beside_run_stop(&holder);
	beside_run_meet(&meeting);
	beside_run_stop(&meeting);
	printf("  %u SMs meet, and do not while one is held\n", sms);
}

/* The library's threads, over a time in which nothing moves. */
static void look_idle(void)
{
	unsigned threads, after;
	int64_t cpu_ns;

	nap(QUIET_NS);
	cpu_ns = beside_cpu_ns(&threads, 0);
	nap(WATCH_NS);
	cpu_ns = beside_cpu_ns(&after, 0) - cpu_ns;
	printf("  %u threads, %.3f ms of CPU in %d ms\n", threads, (double)cpu_ns / 1e6,
	       WATCH_NS / 1000000);
	CHECK_EQ(after, threads);
	if (cpu_ns >= BUSY_NS)
		(void)beside_cpu_ns(&after, 1);
	CHECK_CMP(cpu_ns, <, BUSY_NS);
}

static void idle(void *arg)
{
	struct beside *b = begin(arg, UINT32_MAX);
	struct beside_run runs[2];
	unsigned threads, moves = 0;
	int64_t cpu_ns;

	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_open(b, i, BESIDE_DEFAULT, &runs[i]);
	cpu_ns = beside_cpu_ns(&threads, 0);
	CHECK_CMP(threads, >, 0);
	beside_load_begin(b);
	/* at least until the meter would tell */
	for (; moves < MOVES || beside_cpu_ns(&threads, 0) - cpu_ns < BUSY_NS; moves++)
		beside_load_next(b);
	beside_load_stop(b);
	look_idle();
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_launch(&runs[i], runs[i].end->gpu->sms, 0);
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_meet(&runs[i]);
	for (unsigned i = 0; i < b->gpus; i++)
		beside_run_stop(&runs[i]);
	printf("  behind %u transfers every SM is free\n", moves);
	beside_move_all(b);
	beside_close(b);
}

/* Both sessions close while the kernel runs; the application goes on; and all that they leave goes
 * when the kernel is over. threads: those of the driver's that began on one of ours. */
static void close_and_look(struct beside *b, struct beside_run runs[2], unsigned threads)
{
	double from = check_seconds();
	unsigned left;

	beside_close(b);
	(void)beside_cpu_ns(&left, 0);
	printf("  both closed in %.3f s, %u threads are left\n", check_seconds() - from, left);
	for (int i = 0; i < LOOKS; i++)
		still_full(b, runs);
	printf("  the application's calls go on\n");
	beside_run_stop(&runs[0]);
	check_alive();
	do
		(void)beside_cpu_ns(&left, 0);
	while (left > threads);
}

/* Two sessions of one GPU: with transfers under way and launches that never began, and idle. */
static void close_beside_full(void *arg)
{
	struct beside *b = begin(arg, 0);
	struct beside_run runs[2];
	unsigned threads;

	beside_move_all(b);
	beside_say(b, "first");
	beside_close(b);
	do /* the stand-in's end with their streams */
		(void)beside_cpu_ns(&threads, 0);
	while (b->fake && threads);

	beside_connect(b);
	fill(b, BESIDE_DEFAULT, runs);
	beside_move_all(b);
	beside_say(b, "beside the kernel");
	beside_load_begin(b);
	close_and_look(b, runs, threads);

	beside_connect(b);
	beside_move_all(b);
	beside_say(b, "without it");
	beside_run_launch(&runs[0], runs[0].end->gpu->sms, 1);
	beside_run_meet(&runs[0]);
	close_and_look(b, runs, threads);

	beside_connect(b);
	beside_move_all(b);
	beside_close(b);
}

int main(int argc, char **argv)
{
	static const struct check_case cases[] = {
		{"full_gpu_default_priority", full_gpu_default_priority},
		{"full_gpu_highest_priority", full_gpu_highest_priority},
		{"full_gpu_legacy_stream", full_gpu_legacy_stream},
		{"device_sync", device_sync},
		{"capture", capture},
		{"probe_sees_a_held_sm", probe_sees_a_held_sm},
		{"idle", idle},
		{"close_beside_full", close_beside_full},
	};
	struct options options = {.bytes = 64u << 20};
	const char *only = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0); /* what a case said before it hung is there */
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--bytes") && i + 1 < argc)
			options.bytes = strtoull(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--local"))
			options.local = 1;
		else if (argv[i][0] != '-')
			only = argv[i];
		else
			return fprintf(stderr, "usage: %s [--bytes N] [--local] [CASE]\n", argv[0]),
			       2;
	}
	return check_main(cases, sizeof(cases) / sizeof(cases[0]), only, &options);
}
