/* SPDX-License-Identifier: Apache-2.0 */
/* Applications that poll in a loop receive on the priority channels themselves, and the worker
 * takes the priority channels back when they stop. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>

#include <tcpx/tcpx.h>

#include "engine/session/calls.h"

#define BYTES 4096
#define LARGE (4u << 20) /* too large for a priority channel */
#define ROUNDS 200
#define WAIT_NS 60000000000LL

/* The priority channels' worker stands before its next wait. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held;

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	if (worker_is_current(&engine_runtime.workers[engine_runtime.nworkers])) {
		pthread_mutex_lock(&lock);
		while (held)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
	}
	return __real_epoll_wait(fd, events, max, timeout);
}

struct pair {
	tcpx_session *near, *far;
	tcpx_peer peer, back;
	tcpx_region mine, theirs;
};

static uint8_t here[LARGE], there[LARGE];

static void pair_open(struct pair *pair, uint32_t flags)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 1, .flags = flags);
	TCPX_OPTS(tcpx_region_opts, rights, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_region open;
	uint16_t port;
	size_t len;

	assert_int_equal(tcpx_session_open(&opts, &pair->near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &pair->far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->far, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->near, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(pair->far, WAIT_NS, &pair->back), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->near, here, LARGE, NULL, &pair->mine), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->far, there, LARGE, &rights, &open), TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far, open, token), TCPX_OK);
	assert_int_equal(
		tcpx_region_import(pair->near, pair->peer, token, sizeof(token), &pair->theirs),
		TCPX_OK);
}

static void pair_close(struct pair *pair)
{
	tcpx_session_close(pair->near);
	tcpx_session_close(pair->far);
}

static tcpx_request read_bytes(struct pair *pair, uint64_t bytes, const tcpx_request_opts *opts)
{
	tcpx_segment piece = {.local = pair->mine, .remote = pair->theirs, .length = bytes};
	tcpx_request request;

	assert_int_equal(
		tcpx_request_start(pair->near, pair->peer, TCPX_OP_READ, &piece, 1, opts, &request),
		TCPX_OK);
	return request;
}

static tcpx_request read_start(struct pair *pair)
{
	return read_bytes(pair, BYTES, NULL);
}

/* Whether the application of the session keeps its peer's prio. */
static bool keeps(tcpx_session *session, tcpx_peer handle)
{
	struct engine_peer *peer = engine_peer_get((struct engine_session *)session, handle.id);
	bool kept;

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	kept = atomic_load(&peer->link.chan[CORE_PRIO]->app.kept);
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
	return kept;
}

static void worker_hold(bool on)
{
	pthread_mutex_lock(&lock);
	held = on;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static struct pair pair;
static _Atomic bool stop;

/* The application of the far session, which expects notifications and gets none. */
static void *poll_main(void *arg)
{
	tcpx_notification note = {.sz = sizeof(note)};

	(void)arg;
	while (!atomic_load(&stop))
		assert_int_equal(tcpx_notify_take(pair.far, 0, &note), TCPX_IN_PROGRESS);
	return NULL;
}

/* Both sides poll, and the worker that would receive for them stands still. */
static void polling_sides_need_no_worker(void **state)
{
	uint32_t flags = *(uint32_t *)*state;
	pthread_t poller;

	memset(there, 1, BYTES);
	pair_open(&pair, flags);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&poller, NULL, poll_main, NULL), 0);
	while (!keeps(pair.far, pair.back))
		sched_yield();
	worker_hold(true);
	for (int i = 0; i < ROUNDS; i++) {
		tcpx_request request;

		memset(there, i, BYTES);
		request = read_start(&pair);
		while (tcpx_request_test(pair.near, request, NULL) == TCPX_IN_PROGRESS)
			;
		assert_int_equal(tcpx_request_wait(pair.near, request, 0, NULL), TCPX_OK);
		tcpx_request_release(pair.near, request);
		assert_memory_equal(here, there, BYTES);
	}
	worker_hold(false);
	atomic_store(&stop, true);
	pthread_join(poller, NULL);
	pair_close(&pair);
}

/* The application of the far session: takes as many notifications as `arg` says. */
static void *take_main(void *arg)
{
	tcpx_notification note = {.sz = sizeof(note)};

	for (int left = *(int *)arg; left;) {
		tcpx_status status = tcpx_notify_take(pair.far, 0, &note);

		if (status == TCPX_OK) {
			tcpx_notification_release(pair.far, &note);
			left--;
		}
	}
	return NULL;
}

/* The bytes of a large transfer do not go by the priority channel, but its notification and the
 * acknowledgement of that do: both sides receive them while they poll. */
static void a_notification_needs_no_worker(void **state)
{
	TCPX_OPTS(tcpx_request_opts, opts, .notify = "n", .notify_bytes = 1);
	uint32_t flags = *(uint32_t *)*state;
	int rounds = 20;
	pthread_t taker;

	pair_open(&pair, flags);
	assert_int_equal(pthread_create(&taker, NULL, take_main, &rounds), 0);
	while (!keeps(pair.far, pair.back))
		sched_yield();
	worker_hold(true);
	for (int i = 0; i < rounds; i++) {
		tcpx_request request = read_bytes(&pair, LARGE, &opts);

		while (tcpx_request_test(pair.near, request, NULL) == TCPX_IN_PROGRESS)
			;
		assert_int_equal(tcpx_request_wait(pair.near, request, 0, NULL), TCPX_OK);
		tcpx_request_release(pair.near, request);
	}
	worker_hold(false);
	pthread_join(taker, NULL);
	pair_close(&pair);
}

/* The far side polled, found nothing and does something else: it is served as before. */
static void a_lane_is_taken_back(void **state)
{
	uint32_t flags = *(uint32_t *)*state;
	tcpx_request request;
	pthread_t poller;

	pair_open(&pair, flags);
	for (int i = 0; i < 3; i++) {
		atomic_store(&stop, false);
		assert_int_equal(pthread_create(&poller, NULL, poll_main, NULL), 0);
		while (!keeps(pair.far, pair.back))
			sched_yield();
		atomic_store(&stop, true);
		pthread_join(poller, NULL);
		request = read_start(&pair);
		assert_int_equal(tcpx_request_wait(pair.near, request, WAIT_NS, NULL), TCPX_OK);
		tcpx_request_release(pair.near, request);
		while (keeps(pair.far, pair.back))
			sched_yield();
	}
	pair_close(&pair);
}

/* One that finds something may compute for long, so it gives the priority channel back at once. */
static void what_is_found_gives_the_lane_back(void **state)
{
	uint32_t flags = *(uint32_t *)*state;
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;

	pair_open(&pair, flags);
	while (!keeps(pair.far, pair.back))
		assert_int_equal(tcpx_notify_take(pair.far, 0, &note), TCPX_IN_PROGRESS);
	assert_int_equal(tcpx_notify_send(pair.near, pair.peer, "x", 1), TCPX_OK);
	do
		status = tcpx_notify_take(pair.far, 0, &note);
	while (status == TCPX_IN_PROGRESS);
	assert_int_equal(status, TCPX_OK);
	assert_false(keeps(pair.far, pair.back));
	tcpx_notification_release(pair.far, &note);
	pair_close(&pair);
}

int main(void)
{
	static uint32_t tcp = TCPX_SESSION_NO_LOCAL, local = 0;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(polling_sides_need_no_worker, &tcp),
		cmocka_unit_test_prestate(polling_sides_need_no_worker, &local),
		cmocka_unit_test_prestate(a_notification_needs_no_worker, &tcp),
		cmocka_unit_test_prestate(a_notification_needs_no_worker, &local),
		cmocka_unit_test_prestate(a_lane_is_taken_back, &tcp),
		cmocka_unit_test_prestate(a_lane_is_taken_back, &local),
		cmocka_unit_test_prestate(what_is_found_gives_the_lane_back, &tcp),
		cmocka_unit_test_prestate(what_is_found_gives_the_lane_back, &local),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
