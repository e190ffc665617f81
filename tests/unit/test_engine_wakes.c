/* SPDX-License-Identifier: Apache-2.0 */
/* Who is woken, and who need not be: what a post sends by itself, and lanes that spin beside an
 * application that looks. */
#include "unit.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

#include "engine/engine.h"

#define PIECES 1000 /* their list is more than a post sends by itself */
#define BYTES (1u << 20)
#define ROUNDS 50
#define WAIT_NS 20000000000LL
#define FEW 20 /* more looks of a worker than events and kicks bring about */

static unsigned cores; /* that this process seems to have */
static _Thread_local unsigned own_sends;
static _Atomic unsigned awake; /* times that the lanes' worker looked and did not sleep */

unsigned __wrap_sys_cpu_usable(void);
unsigned __wrap_sys_cpu_usable(void)
{
	return cores;
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	own_sends++;
	return __real_sendmsg(fd, msg, flags);
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	if (!timeout && worker_is_current(&engine_runtime.workers[engine_runtime.nworkers]))
		atomic_fetch_add(&awake, 1);
	return __real_epoll_wait(fd, events, max, timeout);
}

struct pair {
	tcpx_session *near, *far;
	tcpx_peer peer;
};

static void pair_open(struct pair *pair, unsigned of_cores, uint32_t workers)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_peer back;
	uint16_t port;
	size_t len;

	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 1, .workers = workers,
		  .flags = TCPX_SESSION_NO_LOCAL);
	cores = of_cores;
	assert_int_equal(tcpx_session_open(&opts, &pair->near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &pair->far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->far, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->near, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(pair->far, WAIT_NS, &back), TCPX_OK);
}

static void pair_close(struct pair *pair)
{
	tcpx_session_close(pair->near);
	tcpx_session_close(pair->far);
}

/* ---- what a post sends ---- */

/* How many of ROUNDS posts sent something before they returned. */
static unsigned sent_by_post(struct pair *pair, enum tcpx_op op, const tcpx_segment *pieces,
			     size_t count)
{
	unsigned sent = 0;

	for (int i = 0; i < ROUNDS; i++) {
		unsigned before = own_sends;
		tcpx_request request;

		assert_int_equal(tcpx_request_start(pair->near, pair->peer, op, pieces, count, NULL,
						    &request),
				 TCPX_OK);
		sent += own_sends != before;
		assert_int_equal(tcpx_request_wait(pair->near, request, WAIT_NS, NULL), TCPX_OK);
		tcpx_request_release(pair->near, request);
	}
	return sent;
}

static void a_read_sends_its_own_request(void **state)
{
	static unsigned char here[BYTES], there[BYTES];
	tcpx_segment whole, pieces[PIECES];
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_region mine, open, theirs;
	struct pair pair;

	(void)state;
	TCPX_OPTS(tcpx_region_opts, rights, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	pair_open(&pair, 2, 2);
	assert_int_equal(tcpx_region_register(pair.near, here, BYTES, NULL, &mine), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair.far, there, BYTES, &rights, &open), TCPX_OK);
	assert_int_equal(tcpx_region_export(pair.far, open, token), TCPX_OK);
	assert_int_equal(tcpx_region_import(pair.near, pair.peer, token, sizeof(token), &theirs),
			 TCPX_OK);
	whole = (tcpx_segment){.local = mine, .remote = theirs, .length = BYTES};
	for (uint32_t i = 0; i < PIECES; i++)
		pieces[i] = (tcpx_segment){.local = mine,
					   .local_offset = i * 1000u,
					   .remote = theirs,
					   .remote_offset = (PIECES - 1 - i) * 1000u,
					   .length = 1000};
	/* Not each time: another thread may be sending on the lane. */
	assert_true(sent_by_post(&pair, TCPX_OP_READ, &whole, 1) > 0);
	assert_int_equal(sent_by_post(&pair, TCPX_OP_READ, pieces, PIECES), 0);
	assert_int_equal(sent_by_post(&pair, TCPX_OP_WRITE, &whole, 1), 0);
	pair_close(&pair);
}

/* ---- lanes that spin ---- */

static void say(struct pair *pair)
{
	assert_int_equal(tcpx_notify_send(pair->near, pair->peer, "x", 1), TCPX_OK);
}

static bool heard(struct pair *pair, int64_t timeout_ns)
{
	tcpx_notification n;
	tcpx_status status = tcpx_notify_take(pair->far, timeout_ns, &n);

	if (status == TCPX_OK)
		tcpx_notification_release(pair->far, &n);
	else
		assert_int_equal(status, TCPX_IN_PROGRESS);
	return status == TCPX_OK;
}

/* A notification comes to who looks all the time; how often the worker looked meanwhile. */
static unsigned looked(struct pair *pair)
{
	unsigned before = atomic_load(&awake);

	say(pair);
	while (!heard(pair, 0)) {
	}
	for (int i = 0; i < 1000; i++)
		assert_false(heard(pair, 0));
	return atomic_load(&awake) - before;
}

static void lanes_spin_beside_who_looks(void **state)
{
	struct pair pair;
	bool spun = false;

	(void)state;
	pair_open(&pair, 16, 2);
	for (int i = 0; i < ROUNDS; i++) { /* who waits is woken */
		unsigned before = atomic_load(&awake);

		say(&pair);
		assert_true(heard(&pair, WAIT_NS));
		assert_true(atomic_load(&awake) - before <= FEW);
	}
	for (int i = 0; i < 100 * ROUNDS && !spun; i++) /* a busy machine may keep it from it */
		spun = looked(&pair) > FEW;
	assert_true(spun);
	pair_close(&pair);
}

static void lanes_sleep_where_cores_are_few(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, 2);
	for (int i = 0; i < ROUNDS; i++)
		assert_true(looked(&pair) <= FEW);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_sends_its_own_request),
		cmocka_unit_test(lanes_spin_beside_who_looks),
		cmocka_unit_test(lanes_sleep_where_cores_are_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
