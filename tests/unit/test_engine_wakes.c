/* SPDX-License-Identifier: Apache-2.0 */
/* Who is woken, and who need not be: what a post sends by itself, transfers without company, which
 * go by the priority channel, and priority channels that spin beside an application that looks. */
#include "unit.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <tcpx/tcpx.h>

#include "engine/channel/app_poll.h"
#include "engine/session/calls.h"
#include "frozen_clock.h"

#define PIECES 1000 /* their list is more than a post sends by itself */
#define BYTES (2u << 20)
#define ROUNDS 50
#define WAIT_NS 20000000000LL
#define FEW 20		   /* more looks of a worker than events and kicks bring about */
#define LONE (256u << 10)  /* goes by the priority channel for want of company */
#define WATCHED (1u << 20) /* goes so beside who looks all the time */
#define SENT (1u << 20)	   /* is begun by who posts it, then */
#define INLINE (8u << 10)  /* the posting thread sends WRITEs of up to this size, solo or not */

static unsigned cores;	  /* that this process seems to have */
static bool looks;	  /* the application does, all the time, instead of waiting */
static bool same_host;	  /* use the same-host transport */
static _Atomic int lends; /* what that transport says about lending */
static _Thread_local unsigned own_sends;
static _Thread_local size_t own_bytes;
static _Atomic int bulk_fds[2];
static _Atomic unsigned bulk_sends; /* calls with payload on them */
/* How often the worker of the priority channels polled without sleeping, and how often it found
 * events. */
static _Atomic unsigned awake, found;

unsigned __wrap_sys_cpu_usable(void);
unsigned __wrap_sys_cpu_usable(void)
{
	return cores;
}

int __wrap_local_lends(const struct net_chan *chan);
int __wrap_local_lends(const struct net_chan *chan)
{
	(void)chan;
	return atomic_load(&lends);
}

ssize_t __real_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	size_t bytes = 0;
	ssize_t sent;

	own_sends++;
	for (size_t i = 0; i < msg->msg_iovlen; i++)
		bytes += msg->msg_iov[i].iov_len;
	if (bytes > CORE_SMALL_BYTES && (fd == bulk_fds[0] || fd == bulk_fds[1]))
		atomic_fetch_add(&bulk_sends, 1);
	sent = __real_sendmsg(fd, msg, flags);
	own_bytes += sent > 0 ? (size_t)sent : 0;
	return sent;
}

int __real_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
	bool prios = worker_is_current(&engine_runtime.workers[engine_runtime.nworkers]);
	int n;

	if (prios && !timeout)
		atomic_fetch_add(&awake, 1);
	n = __real_epoll_wait(fd, events, max, timeout);
	if (prios && n > 0)
		atomic_fetch_add(&found, 1);
	return n;
}

struct pair {
	tcpx_session *near, *far;
	tcpx_peer peer, back;
	tcpx_region mine, open, theirs;
};

static void pair_open_as(struct pair *pair, unsigned of_cores, uint32_t workers, uint64_t flags)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	uint16_t port;
	size_t len;

	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .channels = 1,
		  .chunk_bytes = SENT / 4, .workers = workers,
		  .flags = (same_host ? 0 : TCPX_SESSION_NO_LOCAL) | flags);
	cores = of_cores;
	assert_int_equal(tcpx_session_open(&opts, &pair->near), TCPX_OK);
	assert_int_equal(tcpx_session_open(&opts, &pair->far), TCPX_OK);
	assert_int_equal(tcpx_session_listen(pair->far, NULL, &port), TCPX_OK);
	assert_int_equal(tcpx_session_info(pair->far, info, sizeof(info), &len), TCPX_OK);
	assert_int_equal(tcpx_session_connect(pair->near, info, len, NULL, &pair->peer), TCPX_OK);
	assert_int_equal(tcpx_session_accept(pair->far, WAIT_NS, &pair->back), TCPX_OK);
}

static void pair_open(struct pair *pair, unsigned of_cores, uint32_t workers)
{
	pair_open_as(pair, of_cores, workers, 0);
}

static bool heard(struct pair *pair, int64_t timeout_ns)
{
	tcpx_notification n = {.sz = sizeof(n)};
	tcpx_status status = tcpx_notify_take(pair->far, timeout_ns, &n);

	if (status == TCPX_OK)
		tcpx_notification_release(pair->far, &n);
	else
		assert_int_equal(status, TCPX_IN_PROGRESS);
	return status == TCPX_OK;
}

/* Stops the clock and polls once. While the clock stands still, the engine regards the application
 * as one that polls all the time. Without this, the test would fail on a busy machine: a poll
 * counts for at most a millisecond, and the thread may lose its core for longer. The thread's
 * polling loop ends first, so that this poll does not receive and keep the far side's channel. */
static void freeze_clock_polling(struct pair *pair)
{
	app_poll_ends((struct engine_session *)pair->near);
	freeze_clock(true);
	assert_false(heard(pair, 0));
}

/* The descriptor of the only channel besides the prio. */
static int bulk_fd(tcpx_session *session, tcpx_peer handle)
{
	struct engine_peer *peer = engine_peer_get((struct engine_session *)session, handle.id);
	const struct net_chan *net;
	int fd;

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	net = peer->link.chan[CORE_PRIO + 1]->net;
	fd = net->ops->fd(net);
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
	return fd;
}

static void pair_register(struct pair *pair)
{
	static unsigned char here[BYTES], there[BYTES];
	uint8_t token[TCPX_TOKEN_BYTES];

	TCPX_OPTS(tcpx_region_opts, rights, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	assert_int_equal(tcpx_region_register(pair->near, here, BYTES, NULL, &pair->mine), TCPX_OK);
	assert_int_equal(tcpx_region_register(pair->far, there, BYTES, &rights, &pair->open),
			 TCPX_OK);
	assert_int_equal(tcpx_region_export(pair->far, pair->open, token), TCPX_OK);
	assert_int_equal(
		tcpx_region_import(pair->near, pair->peer, token, sizeof(token), &pair->theirs),
		TCPX_OK);
	bulk_fds[0] = bulk_fd(pair->near, pair->peer);
	bulk_fds[1] = bulk_fd(pair->far, pair->back);
}

static tcpx_segment piece(const struct pair *pair, uint64_t bytes)
{
	return (tcpx_segment){.local = pair->mine, .remote = pair->theirs, .length = bytes};
}

static void pair_close(struct pair *pair)
{
	tcpx_session_close(pair->near);
	tcpx_session_close(pair->far);
}

/* ---- what a post sends ---- */

/* One transfer; whether its post sent something before it returned. */
static bool transfer(struct pair *pair, enum tcpx_op op, const tcpx_segment *pieces, size_t count)
{
	unsigned before = own_sends;
	tcpx_request request;
	bool sent;

	assert_int_equal(
		tcpx_request_start(pair->near, pair->peer, op, pieces, count, NULL, &request),
		TCPX_OK);
	sent = own_sends != before;
	while (looks && tcpx_request_test(pair->near, request, NULL) == TCPX_IN_PROGRESS) {
	}
	assert_int_equal(tcpx_request_wait(pair->near, request, WAIT_NS, NULL), TCPX_OK);
	tcpx_request_release(pair->near, request);
	return sent;
}

/* Returns how many frames one end has sent on its only bulk channel. */
static unsigned frames_of(tcpx_session *session, tcpx_peer handle)
{
	struct engine_peer *peer = engine_peer_get((struct engine_session *)session, handle.id);
	unsigned frames;

	assert_non_null(peer);
	pthread_mutex_lock(&peer->link.lock);
	frames = (unsigned)peer->link.core.chan[CORE_PRIO + 1].inflight.next_seq;
	pthread_mutex_unlock(&peer->link.lock);
	peer_put(peer);
	return frames;
}

static unsigned bulk_frames(const struct pair *pair)
{
	return frames_of(pair->near, pair->peer);
}

static unsigned bulk_answers(const struct pair *pair)
{
	return frames_of(pair->far, pair->back);
}

/* How many of ROUNDS posts did. */
static unsigned sent_by_post(struct pair *pair, enum tcpx_op op, const tcpx_segment *pieces,
			     size_t count)
{
	unsigned sent = 0;

	for (int i = 0; i < ROUNDS; i++)
		sent += transfer(pair, op, pieces, count);
	return sent;
}

/* The request of a READ, whatever it asks for, if its list is short. */
static void a_read_sends_its_own_request(void **state)
{
	tcpx_segment whole, pieces[PIECES];
	struct pair pair;

	(void)state;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	whole = piece(&pair, BYTES);
	for (uint32_t i = 0; i < PIECES; i++) {
		pieces[i] = piece(&pair, 200);
		pieces[i].local_offset = i * 1000u;
		pieces[i].remote_offset = (PIECES - 1 - i) * 1000u;
	}
	/* Not each time: another thread may be sending on the prio. */
	assert_true(sent_by_post(&pair, TCPX_OP_READ, &whole, 1) > 0);
	assert_int_equal(sent_by_post(&pair, TCPX_OP_READ, pieces, PIECES), 0);
	assert_int_equal(sent_by_post(&pair, TCPX_OP_WRITE, &whole, 1), 0);
	pair_close(&pair);
}

/* ---- one at a time ---- */

/* How many of so many transfers, one at a time, went by a bulk channel. */
static unsigned by_bulk(struct pair *pair, enum tcpx_op op, uint64_t bytes, unsigned count)
{
	unsigned before = atomic_load(&bulk_sends), went = 0;
	tcpx_segment whole = piece(pair, bytes);

	for (unsigned i = 0; i < count; i++) {
		(void)transfer(pair, op, &whole, 1);
		went += atomic_load(&bulk_sends) != before;
		before = atomic_load(&bulk_sends);
	}
	return went;
}

/* What was alone so far is so no more: a RECV is posted beside it. */
static void have_company(struct pair *pair)
{
	tcpx_segment part = piece(pair, LONE);
	tcpx_request requests[2];

	assert_int_equal(tcpx_request_start(pair->near, pair->peer, TCPX_OP_RECV, NULL, 0, NULL,
					    &requests[0]),
			 TCPX_OK);
	assert_int_equal(tcpx_request_start(pair->near, pair->peer, TCPX_OP_WRITE, &part, 1, NULL,
					    &requests[1]),
			 TCPX_OK);
	assert_int_equal(tcpx_request_wait(pair->near, requests[1], WAIT_NS, NULL), TCPX_OK);
	tcpx_request_release(pair->near, requests[1]);
	tcpx_request_cancel(pair->near, requests[0]);
	assert_int_equal(tcpx_request_wait(pair->near, requests[0], WAIT_NS, NULL),
			 TCPX_ERR_CANCELLED);
	tcpx_request_release(pair->near, requests[0]);
}

static void one_write_at_a_time_takes_the_lane(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE, 3), 3);
		assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE, ROUNDS), 0);
		assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE + 1, 5), 5);
		assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE, 5), 0);
		have_company(&pair);
	}
	pair_close(&pair);
}

/* Not each one: a thread that sent the answer before may still be on its way out of the call. */
static void one_read_at_a_time_takes_the_lane(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	assert_int_equal(by_bulk(&pair, TCPX_OP_READ, LONE, 3), 3);
	assert_true(by_bulk(&pair, TCPX_OP_READ, LONE, ROUNDS) < ROUNDS / 2);
	assert_int_equal(by_bulk(&pair, TCPX_OP_READ, LONE + 1, 5), 5);
	pair_close(&pair);
}

/* One thread serves the priority channels of all peers: others' bytes keep to their channels
 * meanwhile. */
static void one_of_a_process_at_a_time(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE, 4), 3);
	assert_int_equal(engine_runtime.solo_posted, 0);
	engine_runtime.solo_posted = 1; /* another peer has it */
	assert_int_equal(by_bulk(&pair, TCPX_OP_WRITE, LONE, 5), 5);
	assert_int_equal(by_bulk(&pair, TCPX_OP_READ, LONE, 5), 5);
	assert_int_equal(engine_runtime.solo_posted, 1);
	engine_runtime.solo_posted = 0;
	engine_runtime.solo_answered = 1; /* the responder has something for another */
	assert_int_equal(by_bulk(&pair, TCPX_OP_READ, LONE, 5), 5);
	assert_int_equal(engine_runtime.solo_answered, 1);
	engine_runtime.solo_answered = 0;
	assert_true(by_bulk(&pair, TCPX_OP_READ, LONE, ROUNDS) < ROUNDS / 2);
	pair_close(&pair);
	assert_int_equal(engine_runtime.solo_posted, 0);
	assert_int_equal(engine_runtime.solo_answered, 0);
}

/* While the application polls, it or the worker of the priority channels is awake, so larger solo
 * transfers use the priority channel. A transfer uses another channel if a thread still holds the
 * priority channel. */
static void more_takes_the_lane_beside_who_looks(void **state)
{
	static const enum tcpx_op ops[] = {TCPX_OP_WRITE, TCPX_OP_READ};

	(void)state;
	for (unsigned of_cores = 4; of_cores <= 16; of_cores += 12) {
		struct pair pair;

		pair_open(&pair, of_cores, 2);
		pair_register(&pair);
		for (int i = 0; i < 2; i++)
			assert_int_equal(by_bulk(&pair, ops[i], LONE + 1, 5), 5);
		looks = true;
		for (int i = 0; i < 2; i++) {
			bool went = false;

			for (int k = 0; k < 100 * ROUNDS && !went; k++) {
				freeze_clock_polling(&pair);
				went = by_bulk(&pair, ops[i], WATCHED, 2) < 2;
				freeze_clock(false);
			}
			assert_true(went);
			assert_int_equal(by_bulk(&pair, ops[i], WATCHED + 1, 5), 5);
		}
		looks = false;
		pair_close(&pair);
	}
}

/* Not each time: a worker may still be on its way out of the one before. */
static void who_posts_begins(void **state)
{
	static const uint64_t flags[] = {0, TCPX_SESSION_NO_INLINE};
	static const uint64_t bytes[] = {INLINE + 1, LONE, LONE + 1, SENT, SENT + 1};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct pair pair;

		pair_open_as(&pair, 2, 2, flags[i]);
		pair_register(&pair);
		for (int k = 0; k < 5; k++) {
			tcpx_segment part = piece(&pair, bytes[k]);
			bool may = !flags[i] && bytes[k] <= SENT, did;
			int tries = may ? 100 : 1;

			do
				did = sent_by_post(&pair, TCPX_OP_WRITE, &part, 1) > 0;
			while (!did && --tries);
			assert_int_equal(did, may);
		}
		pair_close(&pair);
	}
}

/* The posting thread sends all of a solo WRITE on the priority channel, with its notification, and
 * wakes no other thread. A full socket may prevent this in some rounds. */
static void who_posts_sends_all_of_it(void **state)
{
	static const char text[1000];
	TCPX_OPTS(tcpx_request_opts, opts, .notify = text, .notify_bytes = sizeof(text));
	size_t most = 0;
	struct pair pair;
	tcpx_segment part;

	(void)state;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	part = piece(&pair, SENT);
	looks = true;
	for (int i = 0; i < 100 * ROUNDS && most <= SENT + sizeof(text); i++) {
		unsigned bulk = atomic_load(&bulk_sends);
		tcpx_request request;
		size_t sent;

		freeze_clock_polling(&pair);
		own_bytes = 0;
		assert_int_equal(tcpx_request_start(pair.near, pair.peer, TCPX_OP_WRITE, &part, 1,
						    &opts, &request),
				 TCPX_OK);
		sent = own_bytes;
		while (tcpx_request_test(pair.near, request, NULL) == TCPX_IN_PROGRESS) {
		}
		freeze_clock(false);
		tcpx_request_release(pair.near, request);
		assert_true(heard(&pair, 0));
		if (atomic_load(&bulk_sends) == bulk)
			most = sent > most ? sent : most;
	}
	looks = false;
	assert_true(most > SENT + sizeof(text)); /* both payloads, and frame headers */
	pair_close(&pair);
}

/* Solo transfers also use the priority channel of the same-host transport, unless it lends. */
static void a_ring_is_a_lane_as_well(void **state)
{
	struct pair pair;
	unsigned before;

	(void)state;
	same_host = true;
	pair_open(&pair, 2, 2);
	pair_register(&pair);
	for (int i = 0; i < 2; i++) {
		tcpx_segment whole = piece(&pair, LONE);

		atomic_store(&lends, i);
		for (int k = 0; k < 4; k++)
			(void)transfer(&pair, TCPX_OP_WRITE, &whole, 1);
		before = bulk_frames(&pair);
		for (int k = 0; k < 5; k++)
			(void)transfer(&pair, TCPX_OP_WRITE, &whole, 1);
		assert_int_equal(bulk_frames(&pair) != before, i);
	}
	same_host = false;
	pair_close(&pair);
}

/* On a machine with many cores, a large READ uses the rings of the bulk channels. */
static void a_ring_is_no_lane_for_large_reads_among_cores(void **state)
{
	(void)state;
	same_host = looks = true;
	atomic_store(&lends, 0);
	for (unsigned of_cores = 4; of_cores <= 16; of_cores += 12) {
		struct pair pair;
		tcpx_segment whole;
		unsigned lane = 0;

		pair_open(&pair, of_cores, 2);
		pair_register(&pair);
		whole = piece(&pair, WATCHED);
		/* With few cores, a transfer may use another channel (see above). */
		for (int i = 0; i < 100 * ROUNDS && (of_cores == 16 ? i < 20 : !lane); i++) {
			unsigned before = bulk_answers(&pair);

			freeze_clock_polling(&pair);
			(void)transfer(&pair, TCPX_OP_READ, &whole, 1);
			freeze_clock(false);
			lane += bulk_answers(&pair) == before;
		}
		assert_int_equal(lane > 0, of_cores == 4);
		pair_close(&pair);
	}
	same_host = looks = false;
}

/* ---- priority channels that spin ---- */

static void say(struct pair *pair)
{
	assert_int_equal(tcpx_notify_send(pair->near, pair->peer, "x", 1), TCPX_OK);
}

/* Makes the worker receive for the near side while the application polls the far side. */
static void worker_finds(struct pair *pair)
{
	unsigned before = atomic_load(&found);

	assert_int_equal(tcpx_notify_send(pair->far, pair->back, "y", 1), TCPX_OK);
	while (atomic_load(&found) == before)
		assert_false(heard(pair, 0));
}

/* A notification comes to who looks all the time, or who waits; whether the worker stayed awake. */
static bool stayed_awake(struct pair *pair, bool waits)
{
	tcpx_notification n = {.sz = sizeof(n)};
	unsigned before = atomic_load(&awake);

	freeze_clock(!waits);
	say(pair);
	while (!heard(pair, waits ? WAIT_NS : 0)) {
	}
	if (!waits) {
		worker_finds(pair);
		for (int i = 0; i < 1000; i++)
			assert_false(heard(pair, 0));
	}
	freeze_clock(false);
	if (!waits) {
		assert_int_equal(tcpx_notify_take(pair->near, WAIT_NS, &n), TCPX_OK);
		tcpx_notification_release(pair->near, &n);
	}
	return atomic_load(&awake) - before > FEW;
}

/* In how many of ROUNDS. Where it should in none it still may in a few: it looks again while
 * somebody who lost his core holds the lock that it needs. */
static unsigned rounds_awake(struct pair *pair, bool waits)
{
	unsigned rounds = 0;

	for (int i = 0; i < ROUNDS; i++)
		rounds += stayed_awake(pair, waits);
	return rounds;
}

static void lanes_spin_beside_who_looks(void **state)
{
	struct pair pair;
	bool spun = false;

	(void)state;
	pair_open(&pair, 16, 2);
	assert_true(rounds_awake(&pair, true) < ROUNDS / 2);
	for (int i = 0; i < 100 * ROUNDS && !spun; i++) /* a busy machine may keep it from it */
		spun = stayed_awake(&pair, false);
	assert_true(spun);
	pair_close(&pair);
}

static void lanes_sleep_where_cores_are_few(void **state)
{
	struct pair pair;

	(void)state;
	pair_open(&pair, 4, 2);
	assert_true(rounds_awake(&pair, false) < ROUNDS / 2);
	pair_close(&pair);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_read_sends_its_own_request),
		cmocka_unit_test(one_write_at_a_time_takes_the_lane),
		cmocka_unit_test(one_read_at_a_time_takes_the_lane),
		cmocka_unit_test(one_of_a_process_at_a_time),
		cmocka_unit_test(more_takes_the_lane_beside_who_looks),
		cmocka_unit_test(who_posts_begins),
		cmocka_unit_test(who_posts_sends_all_of_it),
		cmocka_unit_test(a_ring_is_a_lane_as_well),
		cmocka_unit_test(a_ring_is_no_lane_for_large_reads_among_cores),
		cmocka_unit_test(lanes_spin_beside_who_looks),
		cmocka_unit_test(lanes_sleep_where_cores_are_few),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
