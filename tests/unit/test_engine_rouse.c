/* SPDX-License-Identifier: Apache-2.0 */
/* The first READ after a rest wakes the workers that will receive its bytes before these arrive. */
#include "unit.h"

#include <sched.h>
#include <sys/epoll.h>

#include <tcpx/tcpx.h>

#include "engine/link/rouse.h"
#include "engine/session/calls.h"
#include "frozen_clock.h"

#define CHANNELS 2
#define WORKERS 4 /* one for each bulk channel of both ends */
#define BYTES (1u << 20)
#define FEW_BYTES ((256u << 10) - 1) /* too few for waking anybody */
#define AWAKE_NS (600 * 1000LL)	     /* a roused worker stays awake for this long */
#define REST_NS (20 * CLOCK_MS_NS)   /* after such a time without a READ, the next one rouses */
#define WAIT_NS 20000000000LL
#define ROUNDS 20
#define LOOKS 50 /* a worker that polls so often between two checks does not sleep */

static unsigned cores;	       /* that this process seems to have */
static _Atomic unsigned wakes; /* calls of worker_look() by rouse_reader() */
static _Thread_local bool rousing_here;
static _Atomic unsigned rousing;	/* calls of rouse_reader() */
static _Atomic unsigned awake[WORKERS]; /* polls of each worker that do not sleep */

unsigned __wrap_sys_cpu_usable(void);
unsigned __wrap_sys_cpu_usable(void)
{
	return cores;
}

void __real_rouse_reader(struct engine_peer *peer);
void __wrap_rouse_reader(struct engine_peer *peer);
void __wrap_rouse_reader(struct engine_peer *peer)
{
	atomic_fetch_add(&rousing, 1);
	rousing_here = true;
	__real_rouse_reader(peer);
	rousing_here = false;
}

void __real_worker_look(struct engine_chan *chan);
void __wrap_worker_look(struct engine_chan *chan);
void __wrap_worker_look(struct engine_chan *chan)
{
	atomic_fetch_add(&wakes, rousing_here);
	__real_worker_look(chan);
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	for (uint32_t i = 0; i < WORKERS && !timeout; i++)
		if (worker_is_current(&engine_runtime.workers[i]))
			atomic_fetch_add(&awake[i], 1);
	return __real_epoll_wait(fd, events, max, timeout);
}

struct pair {
	tcpx_session *near, *far;
	tcpx_peer peer;
	tcpx_region mine, theirs;
	struct engine_worker *near_workers[CHANNELS];
};

static void workers_find(struct pair *pair)
{
	struct engine_session *session = (struct engine_session *)pair->near;
	struct engine_peer *peer = engine_peer_get(session, pair->peer.id);

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	for (uint32_t i = 0; i < CHANNELS; i++)
		pair->near_workers[i] = peer->link.chan[1 + i]->worker;
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
}

static void pair_open(struct pair *pair, unsigned of_cores, uint64_t flags)
{
	static unsigned char here[BYTES], there[BYTES];
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_region open;
	tcpx_peer back;
	uint16_t port;
	size_t len;

	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = CHANNELS,
		  .workers = WORKERS, .flags = flags);
	TCPX_OPTS(tcpx_region_opts, rights, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	cores = of_cores;
	atomic_store(&rousing, 0);
	atomic_store(&wakes, 0);
	assert_int_equal(tcpx_session_open(&opts, &pair->near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &pair->far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->far, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->near, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(pair->far, WAIT_NS, &back), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->near, here, BYTES, NULL, &pair->mine), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->far, there, BYTES, &rights, &open), TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far, open, token), TCPX_OK);
	assert_int_equal(
		tcpx_region_import(pair->near, pair->peer, token, sizeof(token), &pair->theirs),
		TCPX_OK);
	workers_find(pair);
	freeze_clock(true);
}

static void pair_close(struct pair *pair)
{
	freeze_clock(false);
	tcpx_session_close(pair->near);
	tcpx_session_close(pair->far);
}

/* Does one transfer. Returns whether its post called rouse_reader(). */
static bool rouses(struct pair *pair, enum tcpx_op op, uint64_t bytes)
{
	const tcpx_segment whole = {.local = pair->mine, .remote = pair->theirs, .length = bytes};
	unsigned before = atomic_load(&rousing), after;
	tcpx_request request;

	assert_int_equal(tcpx_request_start(pair->near, pair->peer, op, &whole, 1, NULL, &request),
			 TCPX_OK);
	after = atomic_load(&rousing);
	assert_int_equal(tcpx_request_wait(pair->near, request, WAIT_NS, NULL), TCPX_OK);
	tcpx_request_release(pair->near, request);
	return after != before;
}

static bool is_near(const struct pair *pair, uint32_t worker)
{
	for (uint32_t i = 0; i < CHANNELS; i++)
		if (pair->near_workers[i] == &engine_runtime.workers[worker])
			return true;
	return false;
}

static void until_all_sleep(void)
{
	for (uint32_t i = 0; i < WORKERS; i++)
		while (!atomic_load(&engine_runtime.workers[i].sleeping))
			sched_yield();
}

/* Calls rouse_reader() for the near end. */
static void rouse_once(const struct pair *pair)
{
	struct engine_session *session = (struct engine_session *)pair->near;
	struct engine_peer *peer = engine_peer_get(session, pair->peer.id);

	rouse_reader(peer);
	while (atomic_load(&peer->link.rouse.due)) /* the worker that clears it is awake */
		sched_yield();
	peer_put(peer);
}

/* Rouses the near end's workers until both were roused at the present time. One call may not be
 * enough, because a worker that happens to be awake is not roused. */
static void rouse_near(const struct pair *pair)
{
	for (uint32_t i = 0; i < CHANNELS; i++)
		while (atomic_load(&pair->near_workers[i]->roused_ns) != clock_now_ns())
			rouse_once(pair);
}

static void first_read_after_a_rest_rouses(void **state)
{
	static const uint64_t flags[] = {TCPX_SESSION_NO_LOCAL, 0};
	struct pair pair;

	(void)state;
	for (int i = 0; i < 2; i++) { /* over TCP, and within the host */
		pair_open(&pair, 2 * WORKERS, flags[i]);
		assert_true(rouses(&pair, TCPX_OP_READ, BYTES));
		assert_true(atomic_load(&wakes) > 0);
		assert_false(rouses(&pair, TCPX_OP_READ, BYTES));
		advance_clock(REST_NS - 1);
		assert_false(rouses(&pair, TCPX_OP_READ, BYTES));
		advance_clock(REST_NS);
		assert_false(rouses(&pair, TCPX_OP_WRITE, BYTES));
		assert_false(rouses(&pair, TCPX_OP_READ, FEW_BYTES));
		assert_true(rouses(&pair, TCPX_OP_READ, BYTES));
		pair_close(&pair);
	}
}

/* The workers of all bulk channels are roused, stay awake for a while, and sleep then. Those of the
 * other end are not roused. */
static void roused_workers_stay_awake(void **state)
{
	unsigned before[WORKERS];
	struct pair pair;

	(void)state;
	pair_open(&pair, 2 * WORKERS, TCPX_SESSION_NO_LOCAL);
	rouse_near(&pair);
	advance_clock(AWAKE_NS - 1);
	for (uint32_t i = 0; i < WORKERS; i++)
		before[i] = atomic_load(&awake[i]);
	for (uint32_t i = 0; i < WORKERS; i++)
		while (is_near(&pair, i) && atomic_load(&awake[i]) - before[i] < LOOKS)
			sched_yield();
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(!atomic_load(&engine_runtime.workers[i].roused_ns),
				 !is_near(&pair, i));
	advance_clock(1);
	until_all_sleep();
	pair_close(&pair);
}

/* The READs of several peers do not keep a worker awake all the time. */
static void a_worker_is_roused_seldom(void **state)
{
	struct pair pair;
	int64_t first_ns;

	(void)state;
	pair_open(&pair, 2 * WORKERS, TCPX_SESSION_NO_LOCAL);
	first_ns = clock_now_ns();
	rouse_near(&pair);
	advance_clock(REST_NS - 1);
	for (int i = 0; i < ROUNDS; i++) {
		until_all_sleep();
		rouse_once(&pair);
		until_all_sleep();
		for (uint32_t k = 0; k < CHANNELS; k++)
			assert_int_equal(atomic_load(&pair.near_workers[k]->roused_ns), first_ns);
	}
	advance_clock(1);
	rouse_near(&pair);
	pair_close(&pair);
}

/* Where cores are few, nobody is roused, and no worker is woken for it. */
static void few_cores_rouse_nobody(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 2 * WORKERS - 1, TCPX_SESSION_NO_LOCAL);
	assert_true(rouses(&pair, TCPX_OP_READ, BYTES));
	assert_int_equal(atomic_load(&wakes), 0);
	for (int i = 0; i < ROUNDS; i++) {
		until_all_sleep();
		worker_rouse(pair.near_workers[0], AWAKE_NS, 0);
	}
	for (uint32_t i = 0; i < WORKERS; i++)
		assert_int_equal(atomic_load(&engine_runtime.workers[i].roused_ns), 0);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_read_after_a_rest_rouses),
		cmocka_unit_test(roused_workers_stay_awake),
		cmocka_unit_test(a_worker_is_roused_seldom),
		cmocka_unit_test(few_cores_rouse_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
