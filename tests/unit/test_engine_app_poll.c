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
#include "frozen_clock.h"

#define BYTES 4096
#define LARGE (4u << 20) /* too large for a priority channel */
#define ROUNDS 200
#define WAIT_NS 60000000000LL

static unsigned cores = 4; /* that this process seems to have */

unsigned __wrap_sys_cpu_usable(void);
unsigned __wrap_sys_cpu_usable(void)
{
	return cores;
}

/* While `held` is set, the worker of the priority channels does not begin another wait. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool held;
static _Atomic int waits_ms; /* the last time limit of its waits that is neither 0 nor none */

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	if (worker_is_current(&engine_runtime.workers[engine_runtime.nworkers])) {
		pthread_mutex_lock(&lock);
		while (held)
			pthread_cond_wait(&changed, &lock);
		pthread_mutex_unlock(&lock);
		if (timeout > 0)
			atomic_store(&waits_ms, timeout);
	}
	return __real_epoll_wait(fd, events, max, timeout);
}

/* Receive calls of this thread, and how many of them returned bytes. */
static _Thread_local unsigned receives, arrivals;

ssize_t __real_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t got = __real_recvmsg(fd, msg, flags);

	receives++;
	arrivals += got > 0;
	return got;
}

struct pair {
	tcpx_session *near, *far;
	tcpx_peer peer, back;
	tcpx_region mine, open, theirs;
};

static uint8_t here[LARGE], there[LARGE];

static void pair_open(struct pair *pair, uint32_t flags)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 1, .flags = flags);
	TCPX_OPTS(tcpx_region_opts, rights, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	uint16_t port;
	size_t len;

	assert_int_equal(tcpx_session_open(&opts, &pair->near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &pair->far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->far, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->near, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(pair->far, WAIT_NS, &pair->back), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->near, here, LARGE, NULL, &pair->mine), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->far, there, LARGE, &rights, &pair->open),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far, pair->open, token), TCPX_OK);
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

/* The far side polls until it keeps its priority channel. */
static void poll_until_kept(void)
{
	tcpx_notification note = {.sz = sizeof(note)};

	while (!keeps(pair.far, pair.back))
		assert_int_equal(tcpx_notify_take(pair.far, 0, &note), TCPX_IN_PROGRESS);
}

/* The near side sends a notification, and the far side polls until it has it. */
static void poll_until_found(void)
{
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;

	assert_int_equal(tcpx_notify_send(pair.near, pair.peer, "x", 1), TCPX_OK);
	do
		status = tcpx_notify_take(pair.far, 0, &note);
	while (status == TCPX_IN_PROGRESS);
	assert_int_equal(status, TCPX_OK);
	tcpx_notification_release(pair.far, &note);
}

/* An application that found something may compute for long afterwards, so it gives the priority
 * channel back at once. */
static void a_find_gives_the_channel_back(void **state)
{
	pair_open(&pair, *(uint32_t *)*state);
	poll_until_kept();
	poll_until_found();
	assert_false(keeps(pair.far, pair.back));
	pair_close(&pair);
}

/* A wait that sleeps gives the channel back first. The wait is for a RECV that nothing is sent to;
 * its time limit is over at once. */
static void sleep_in_a_wait(void)
{
	tcpx_segment piece = {.local = pair.open, .length = LARGE};
	tcpx_request recv;

	assert_int_equal(
		tcpx_request_start(pair.far, pair.back, TCPX_OP_RECV, &piece, 1, NULL, &recv),
		TCPX_OK);
	assert_int_equal(tcpx_request_wait(pair.far, recv, 1, NULL), TCPX_IN_PROGRESS);
	assert_false(keeps(pair.far, pair.back));
	tcpx_request_cancel(pair.far, recv);
	freeze_clock(false);
	assert_int_equal(tcpx_request_wait(pair.far, recv, WAIT_NS, NULL), TCPX_ERR_CANCELLED);
	tcpx_request_release(pair.far, recv);
}

/* Where cores are few, an application that polled again soon after its last find keeps the channel
 * at the next find, and the worker checks less often whether it still polls. The clock is stopped,
 * so that the worker does not take the channel back meanwhile. */
static void a_loop_that_goes_on_keeps_the_channel(void **state)
{
	static const unsigned few[] = {4, 64};

	for (int i = 0; i < 2; i++) {
		cores = few[i];
		atomic_store(&waits_ms, 0);
		pair_open(&pair, *(uint32_t *)*state);
		poll_until_kept();
		while (!atomic_load(&waits_ms)) {
			poll_until_kept(); /* again, if the worker has taken the channel back */
			sched_yield();
		}
		assert_int_equal(atomic_load(&waits_ms), cores == 4 ? 4 : 1);

		freeze_clock(true);
		poll_until_kept();
		for (int find = 0; find < 3; find++) {
			poll_until_found();
			assert_int_equal(keeps(pair.far, pair.back), find > 0 && cores == 4);
			poll_until_kept();
		}
		sleep_in_a_wait();

		freeze_clock(true);
		poll_until_kept();
		poll_until_found();
		atomic_fetch_add(&frozen_ns, 2 * CLOCK_MS_NS); /* the application computes */
		poll_until_kept();
		poll_until_found();
		assert_false(keeps(pair.far, pair.back));
		freeze_clock(false);
		pair_close(&pair);
	}
	cores = 4;
}

/* The application finds the end of a RECV that it cancelled `ns` ago. For this it does not receive.
 */
static void find_cancelled(int64_t ns)
{
	tcpx_segment piece = {.local = pair.open, .length = LARGE};
	tcpx_request recv;

	assert_int_equal(
		tcpx_request_start(pair.far, pair.back, TCPX_OP_RECV, &piece, 1, NULL, &recv),
		TCPX_OK);
	tcpx_request_cancel(pair.far, recv);
	atomic_fetch_add(&frozen_ns, ns);
	assert_int_equal(tcpx_request_test(pair.far, recv, NULL), TCPX_ERR_CANCELLED);
	tcpx_request_release(pair.far, recv);
}

/* An application that goes on polling keeps only the channels that it still polls. */
static void a_channel_that_is_polled_no_more(void **state)
{
	pair_open(&pair, *(uint32_t *)*state);
	freeze_clock(true);
	poll_until_kept();
	poll_until_found();
	poll_until_kept();
	poll_until_found();
	find_cancelled(0);
	assert_true(keeps(pair.far, pair.back));
	find_cancelled(CLOCK_MS_NS / 4);
	assert_false(keeps(pair.far, pair.back));
	freeze_clock(false);
	pair_close(&pair);
}

/* A poll of the far side, so long after the last one that it may receive. */
static tcpx_status poll_far(void)
{
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;

	atomic_fetch_add(&frozen_ns, 2000);
	status = tcpx_notify_take(pair.far, 0, &note);
	if (status == TCPX_OK)
		tcpx_notification_release(pair.far, &note);
	return status;
}

/* Polls of the near side. They return whether the READ has ended. */
static bool poll_request(tcpx_request request)
{
	return tcpx_request_test(pair.near, request, NULL) == TCPX_OK;
}

static bool poll_completions(tcpx_request request)
{
	tcpx_completion completion = {.sz = sizeof(completion)};

	(void)request;
	return tcpx_session_poll(pair.near, &completion, 1) == 1;
}

static bool poll_session(tcpx_request request)
{
	(void)request;
	return tcpx_session_wait(pair.near, 0) == TCPX_OK;
}

/* The near side polls until it keeps its priority channel. Then it begins a READ. */
static tcpx_request read_in_a_loop(const tcpx_request_opts *opts)
{
	tcpx_notification note = {.sz = sizeof(note)};

	while (!keeps(pair.near, pair.peer))
		assert_int_equal(tcpx_notify_take(pair.near, 0, &note), TCPX_IN_PROGRESS);
	return read_bytes(&pair, BYTES, opts);
}

/* A poll that receives what the application waits for returns it. It does not leave that to the
 * next poll. */
static void the_poll_that_receives_finds(void **state)
{
	static bool (*const polls[])(tcpx_request) = {poll_request, poll_completions, poll_session};
	tcpx_event event = {.sz = sizeof(event)};
	unsigned before;

	(void)state;
	pair_open(&pair, TCPX_SESSION_NO_LOCAL);
	while (tcpx_session_event(pair.near, &event) != TCPX_OK)
		sched_yield(); /* that of the connection, which poll_session() would find, too */
	freeze_clock(true);
	for (unsigned kind = 0; kind < 3; kind++) {
		TCPX_OPTS(tcpx_request_opts, opts, .queue = kind > 0);
		tcpx_request request = read_in_a_loop(&opts);
		tcpx_completion completion = {.sz = sizeof(completion)};

		do {
			atomic_fetch_add(&frozen_ns, 2000);
			before = arrivals;
		} while (!polls[kind](request));
		assert_true(arrivals > before);
		if (kind == 2)
			assert_int_equal(tcpx_session_poll(pair.near, &completion, 1), 1);
		tcpx_request_release(pair.near, request);
	}
	poll_until_kept();
	assert_int_equal(tcpx_notify_send(pair.near, pair.peer, "x", 1), TCPX_OK);
	do
		before = arrivals;
	while (poll_far() == TCPX_IN_PROGRESS);
	assert_true(arrivals > before);
	freeze_clock(false);
	pair_close(&pair);
}

/* A poll right after a find does not receive: the application may only be asking whether there is
 * more. */
static void a_poll_that_comes_too_early(void **state)
{
	tcpx_notification note = {.sz = sizeof(note)};
	unsigned before;

	(void)state;
	pair_open(&pair, TCPX_SESSION_NO_LOCAL);
	freeze_clock(true);
	for (int find = 0; find < 2; find++) {
		poll_until_kept();
		poll_until_found();
	}
	find_cancelled(2000);
	before = receives;
	assert_int_equal(tcpx_notify_take(pair.far, 0, &note), TCPX_IN_PROGRESS);
	assert_int_equal(receives, before);
	assert_int_equal(poll_far(), TCPX_IN_PROGRESS);
	assert_int_equal(receives, before + 1);
	freeze_clock(false);
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
		cmocka_unit_test_prestate(a_find_gives_the_channel_back, &tcp),
		cmocka_unit_test_prestate(a_find_gives_the_channel_back, &local),
		cmocka_unit_test_prestate(a_loop_that_goes_on_keeps_the_channel, &tcp),
		cmocka_unit_test_prestate(a_loop_that_goes_on_keeps_the_channel, &local),
		cmocka_unit_test_prestate(a_channel_that_is_polled_no_more, &tcp),
		cmocka_unit_test_prestate(a_channel_that_is_polled_no_more, &local),
		cmocka_unit_test(the_poll_that_receives_finds),
		cmocka_unit_test(a_poll_that_comes_too_early),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
