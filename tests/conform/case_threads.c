/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads of the application on one session and one peer. */
#include <pthread.h>
#include <sched.h>

#include "conform.h"
#include "engine/session/calls.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define THREADS 8
#define WRITES(rounds) ((rounds) / 3 + 1) /* of mixer */

struct work {
	struct env *env;
	tcpx_segment segment;
	tcpx_region target;    /* mixer: of WRITEs */
	const struct buf *buf; /* its part: index * segment.length */
	int index, rounds;
};

static void *writer(void *arg)
{
	struct work *work = arg;
	struct env *env = work->env;

	for (int i = 0; i < work->rounds; i++) {
		tcpx_segment segment = work->segment;
		uint64_t seed = (uint64_t)(work->index * 1000 + i + 1);

		segment.length = 1 + (seed * 7919) % work->segment.length;
		buf_fill(work->buf, segment.local_offset, segment.length, seed, 0);
		OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
		buf_set(work->buf, segment.local_offset, segment.length, 0);
		OK(near_run(env, TCPX_OP_READ, &segment, 1, NULL));
		CHECK_EQ(buf_check(work->buf, segment.local_offset, segment.length, seed, 0), -1);
	}
	return NULL;
}

static void case_threads_one_peer(struct env *env)
{
	uint64_t size = 300000;
	struct work work[THREADS];
	pthread_t thread[THREADS];
	tcpx_region local, remote;
	struct buf buf;

	buf_make(&buf, THREADS * size, 0);
	local = near_register(env, &buf, 0);
	remote = far_buf(env, 0, THREADS * size, RW, 0);
	for (int i = 0; i < THREADS; i++) {
		uint64_t at = (uint64_t)i * size;

		work[i] = (struct work){
			.env = env,
			.buf = &buf,
			.index = i,
			.rounds = config.light ? 10 : 50,
			.segment = {.local = local,
				    .local_offset = at,
				    .remote = remote,
				    .remote_offset = at,
				    .length = size},
		};
		CHECK(pthread_create(&thread[i], NULL, writer, &work[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	CHECK(buf_slack_whole(&buf) && far_slack(env, 0));
}

/* Everything at once from several threads: register, transfer, cancel, notify, look. A cancelled
 * WRITE may still land, so each has a place of its own that nobody reads. */
static void *mixer(void *arg)
{
	struct work *work = arg;
	struct env *env = work->env;

	for (int i = 0; i < work->rounds; i++) {
		tcpx_counters counters = {.sz = sizeof(counters)};
		tcpx_segment segment = work->segment;
		tcpx_request request;
		tcpx_status status;

		segment.local = near_part(env, work->buf, (uint64_t)work->index * segment.length,
					  segment.length, 0);
		segment.local_offset = 0;
		if (i % 3 == 0) {
			segment.remote = work->target;
			segment.remote_offset =
				(uint64_t)(work->index * WRITES(work->rounds) + i / 3) *
				segment.length;
		}
		OK(tcpx_request_start(env->session, env->peer,
				      i % 3 == 0 ? TCPX_OP_WRITE : TCPX_OP_READ, &segment, 1, NULL,
				      &request));
		OK(tcpx_notify_send(env->session, env->peer, &i, sizeof(i)));
		if (i % 2)
			(void)tcpx_request_cancel(env->session, request);
		OK(tcpx_session_counters(env->session, &counters));
		status = near_wait(env, request, NULL);
		CHECK(status == TCPX_OK || (i % 2 && status == TCPX_ERR_CANCELLED));
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	}
	return NULL;
}

static void case_threads_mixed(struct env *env)
{
	struct far_take take = {.timeout_ns = LONG_NS};
	uint64_t size = 200000;
	struct work work[THREADS];
	pthread_t thread[THREADS];
	int rounds = config.light ? 10 : 50;
	tcpx_region remote, target;
	struct buf buf;

	buf_make(&buf, THREADS * size, 0);
	remote = far_buf(env, 0, THREADS * size, RW, 0);
	target = far_buf(env, 1, THREADS * WRITES(rounds) * size, RW, 0);
	for (int i = 0; i < THREADS; i++) {
		uint64_t at = (uint64_t)i * size;

		work[i] = (struct work){
			.env = env,
			.buf = &buf,
			.target = target,
			.rounds = rounds,
			.index = i,
			.segment = {.remote = remote, .remote_offset = at, .length = size},
		};
		CHECK(pthread_create(&thread[i], NULL, mixer, &work[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	for (int i = 0; i < THREADS * rounds; i++)
		OK(far_take(env, &take, NULL));
	take.timeout_ns = 0;
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	EXPECT(far_take(env, &take, NULL), TCPX_IN_PROGRESS);
	CHECK(buf_slack_whole(&buf) && far_slack(env, 0) && far_slack(env, 1));
}

/* Several threads wait for the same request: all of them learn its end. */
static void *waiter(void *arg)
{
	struct work *work = arg;

	EXPECT(near_wait(work->env, (tcpx_request){work->segment.length}, NULL),
	       TCPX_ERR_CANCELLED);
	return NULL;
}

static void case_threads_wait_same(struct env *env)
{
	tcpx_segment segment = {.length = 100};
	struct work work = {.env = env};
	pthread_t thread[THREADS];
	tcpx_request request;
	struct buf buf;

	buf_make(&buf, 100, 0);
	segment.local = near_register(env, &buf, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &request));
	work.segment.length = request.id;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, waiter, &work) == 0);
	OK(tcpx_request_cancel(env->session, request));
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
}

#define TRIES 50

static struct engine_request *inside(struct env *env, tcpx_request request)
{
	struct engine_session *session = (struct engine_session *)env->session;

	return handle_find(&session->requests, request.id);
}

static void *gone_waiter(void *arg)
{
	struct work *work = arg;

	EXPECT(near_wait(work->env, (tcpx_request){work->segment.length}, NULL), TCPX_ERR_STALE);
	return NULL;
}

/* Another thread releases what several wait for: they hear that it is gone, and who gets its place
 * meanwhile gets it whole. */
static void release_waited(struct env *env, const tcpx_segment *segment)
{
	struct work work = {.env = env};
	tcpx_request request, next[TRIES];
	pthread_t thread[THREADS];
	uint32_t index;
	int n = 0;

	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, segment, 1, NULL, &request));
	index = inside(env, request)->slot.index;
	work.segment.length = request.id;
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, gone_waiter, &work) == 0);
	while (atomic_load(&inside(env, request)->waiters) < THREADS - 1) /* one may lead */
		sched_yield();
	OK(tcpx_request_release(env->session, request));
	do
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, segment, 1, NULL,
				      &next[n]));
	while (inside(env, next[n++])->slot.index != index && n < TRIES);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	while (n--) {
		CHECK_EQ(atomic_load(&inside(env, next[n])->waiters), 0);
		EXPECT(tcpx_request_test(env->session, next[n], NULL), TCPX_IN_PROGRESS);
		OK(tcpx_request_release(env->session, next[n]));
	}
}

static void case_threads_release_waited(struct env *env)
{
	int rounds = config.light ? 50 : 500;
	tcpx_segment segment = {.length = 100};
	struct buf buf;

	buf_make(&buf, 100000, 0);
	segment.local = near_register(env, &buf, 0);
	for (int i = 0; i < rounds; i++) {
		segment.length = i % 4 ? buf.size : 100; /* a small one is led */
		release_waited(env, &segment);
	}
}

struct storm {
	struct env *env;
	_Atomic uint64_t id;
	_Atomic int met; /* calls that found their request */
	_Atomic bool over;
};

/* Every call on a request that may be anybody's by now. */
static void *meddler(void *arg)
{
	struct storm *storm = arg;
	tcpx_session *session = storm->env->session;

	for (int i = 0; !atomic_load(&storm->over); i++) {
		tcpx_request request = {atomic_load(&storm->id)};
		tcpx_status status = TCPX_ERR_STALE, good = TCPX_OK;
		tcpx_error error = {.sz = sizeof(error)};

		switch (i % 6) {
		case 0:
			status = tcpx_request_post(session, request);
			break;
		case 1:
			status = tcpx_request_test(session, request, NULL);
			good = TCPX_ERR_CANCELLED;
			break;
		case 2:
			status = tcpx_request_wait(session, request, TCPX_WAIT_FOREVER, NULL);
			good = TCPX_ERR_CANCELLED;
			break;
		case 3:
			status = tcpx_request_cancel(session, request);
			break;
		case 4:
			status = tcpx_request_wait(session, request, 0, NULL);
			good = TCPX_ERR_CANCELLED;
			break;
		case 5:
			status = tcpx_request_error(session, request, &error);
			break;
		}
		CHECK_MSG(status == good || status == TCPX_ERR_STALE || status == TCPX_ERR_STATE ||
				  (status == TCPX_IN_PROGRESS && i % 6 != 2),
			  "call %d: %s", i % 6, tcpx_status_name(status));
		atomic_fetch_add(&storm->met, status != TCPX_ERR_STALE);
	}
	return NULL;
}

/* Handles that go and come again under all calls of other threads: each call sees the request it
 * was meant for, or none; what was said to be posted was posted. */
static void case_threads_release_beside(struct env *env)
{
	int wanted = config.light ? 1000 : 3000;
	tcpx_counters counters = {.sz = sizeof(counters)};
	struct storm storm = {.env = env};
	tcpx_segment segment = {.length = 100};
	pthread_t thread[THREADS];
	tcpx_request request;
	struct buf buf;

	buf_make(&buf, 100000, 0);
	segment.local = near_register(env, &buf, 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, meddler, &storm) == 0);
	for (int i = 0; atomic_load(&storm.met) < wanted; i++) {
		segment.length = i % 2 ? buf.size : 100;
		OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL,
					&request));
		atomic_store(&storm.id, request.id);
		if (i % 16 == 0)
			sched_yield();
		OK(tcpx_request_release(env->session, request));
	}
	atomic_store(&storm.over, true);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	OK(tcpx_session_counters(env->session, &counters));
	CHECK_EQ(counters.requests_active, 0);
	CHECK_EQ(counters.requests_posted, counters.requests_failed);
	CHECK(counters.requests_posted > 0);
}

struct imports {
	struct env *env;
	uint8_t token[2][TCPX_TOKEN_BYTES];
	_Atomic uint64_t id; /* of the first of them */
	_Atomic bool over;
};

static void *importer(void *arg)
{
	struct imports *imports = arg;
	struct env *env = imports->env;
	tcpx_region region;

	for (int i = 0; !atomic_load(&imports->over); i++) {
		OK(tcpx_region_import(env->session, env->peer, imports->token[i % 2],
				      TCPX_TOKEN_BYTES, &region));
		if (i % 2 == 0)
			atomic_store(&imports->id, region.id);
		OK(tcpx_region_deregister(env->session, region, 0));
	}
	return NULL;
}

/* Imported regions that go and come again in each other's place under the prepares of another
 * thread: a request is about the region its handle meant, or there is none. */
static void case_threads_import_beside(struct env *env)
{
	struct imports imports = {.env = env};
	tcpx_segment segment = {.length = 64};
	pthread_t thread;
	struct buf buf;

	far_buf(env, 0, 64, RW, 0);
	far_buf(env, 1, 64, RW, 0);
	far_fill(env, 0, 0, 64, 1, 0);
	far_fill(env, 1, 0, 64, 2, 0);
	for (uint32_t i = 0; i < 2; i++)
		far_token(env, i, RW, 0, imports.token[i]);
	buf_make(&buf, 64, 0);
	segment.local = near_register(env, &buf, 0);
	CHECK(pthread_create(&thread, NULL, importer, &imports) == 0);
	for (int met = 0; met < (config.light ? 100 : 1000);) {
		tcpx_request request;
		tcpx_status status;

		segment.remote.id = atomic_load(&imports.id);
		if (!segment.remote.id)
			continue;
		status = tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &segment, 1,
					    NULL, &request);
		if (status != TCPX_OK) {
			EXPECT(status, TCPX_ERR_STALE);
			continue;
		}
		OK(near_wait(env, request, NULL));
		CHECK_EQ(buf_check(&buf, 0, 64, 1, 0), -1);
		OK(tcpx_request_release(env->session, request));
		met++;
		check_alive(); /* meetings are luck: arranged, they would not be close */
	}
	atomic_store(&imports.over, true);
	CHECK(pthread_join(thread, NULL) == 0);
}

const struct case_row cases_threads[] = {
	{"threads_one_peer", case_threads_one_peer, 0},
	{"threads_mixed", case_threads_mixed, 0},
	{"threads_wait_same", case_threads_wait_same, 0},
	{"threads_release_waited", case_threads_release_waited, 0},
	{"threads_release_beside", case_threads_release_beside, 0},
	{"threads_import_beside", case_threads_import_beside, CASE_ONCE},
	{0},
};
