/* SPDX-License-Identifier: Apache-2.0 */
/* The completion queue: what enters it, in which order, and how it leaves; posts of many. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define THREADS 4
#define PIECE 1000

/* Requests that use the queue. */
struct queue_rig {
	struct env *env;
	struct buf buf;
	tcpx_segment segment;
};

/* Room for count pieces at both sides. The peer's event, the only one, is taken. */
static void rig_make(struct queue_rig *rig, struct env *env, uint64_t count)
{
	*rig = (struct queue_rig){.env = env, .segment.length = PIECE};
	buf_make(&rig->buf, count * PIECE, 0);
	rig->segment.local = near_register(env, &rig->buf, 0);
	rig->segment.remote = far_buf(env, 0, count * PIECE, RW, 0);
	near_event(env, TCPX_EVENT_PEER_UP);
}

static tcpx_request rig_prepare(struct queue_rig *rig, enum tcpx_op op, uint64_t index, void *user)
{
	TCPX_OPTS(tcpx_request_opts, opts, .queue = 1, .user = user);
	tcpx_request request;

	rig->segment.local_offset = rig->segment.remote_offset = index * PIECE;
	OK(tcpx_request_prepare(rig->env->session, rig->env->peer, op, &rig->segment, 1, &opts,
				&request));
	return request;
}

static tcpx_request rig_start(struct queue_rig *rig, enum tcpx_op op, uint64_t index)
{
	tcpx_request request = rig_prepare(rig, op, index, NULL);

	OK(tcpx_request_post(rig->env->session, request));
	return request;
}

/* The next one, which must come. */
static tcpx_completion rig_take(struct queue_rig *rig)
{
	tcpx_completion done = {.sz = sizeof(done)};
	int got;

	while (!(got = tcpx_session_poll(rig->env->session, &done, 1)))
		OK(tcpx_session_wait(rig->env->session, LONG_NS));
	CHECK_EQ(got, 1);
	return done;
}

/* Nothing is in the queue, and nothing comes: all that was posted ended. */
static void rig_empty(struct queue_rig *rig)
{
	tcpx_completion done = {.sz = sizeof(done)};

	OK(tcpx_peer_flush(rig->env->session, rig->env->peer, LONG_NS));
	CHECK_EQ(tcpx_session_poll(rig->env->session, &done, 1), 0);
}

static bool rig_readable(struct queue_rig *rig)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(rig->env->session), .events = POLLIN};

	CHECK(pfd.fd >= 0);
	return poll(&pfd, 1, 0) == 1;
}

/* One request, posted again by whoever took its completion. */
struct slot {
	_Atomic int posted, taken;
};

struct crowd {
	struct queue_rig rig;
	int rounds;
	_Atomic int left; /* completions to be taken */
};

static void *taker(void *arg)
{
	struct crowd *crowd = arg;
	struct env *env = crowd->rig.env;
	tcpx_completion done[5] = {{.sz = sizeof(done[0])}};

	while (atomic_load(&crowd->left)) {
		int got = tcpx_session_poll(env->session, done, 5);

		CHECK(got >= 0);
		if (!got)
			OK(tcpx_session_wait(env->session, TCPX_WAIT_FOREVER));
		for (int i = 0; i < got; i++) {
			struct slot *slot = done[i].user;

			OK(done[i].status);
			/* this end belongs to the last post, and it was not seen before */
			CHECK_EQ(atomic_fetch_add(&slot->taken, 1) + 1, atomic_load(&slot->posted));
			OK(tcpx_request_test(env->session, done[i].request, NULL));
			if (atomic_load(&slot->posted) < crowd->rounds) {
				atomic_fetch_add(&slot->posted, 1);
				OK(tcpx_request_post(env->session, done[i].request));
			}
			/* nobody takes the notification, so it wakes all that still wait */
			if (atomic_fetch_sub(&crowd->left, 1) == 1)
				OK(far_simple(env, FAR_NOTIFY_SEND, 0, 5, 1, 0, 0));
		}
	}
	return NULL;
}

/* Each post that was accepted gives one completion, to one of the threads. */
static void case_queue_once(struct env *env)
{
	enum { COUNT = 64 };
	struct crowd crowd = {.rounds = config.light ? 10 : 100};
	static struct slot slots[COUNT];
	pthread_t thread[THREADS];

	rig_make(&crowd.rig, env, COUNT);
	crowd.left = COUNT * crowd.rounds;
	for (uint64_t i = 0; i < COUNT; i++) {
		tcpx_request request =
			rig_prepare(&crowd.rig, i % 2 ? TCPX_OP_READ : TCPX_OP_WRITE, i, &slots[i]);

		slots[i].posted = 1;
		slots[i].taken = 0;
		OK(tcpx_request_post(env->session, request));
	}
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_create(&thread[i], NULL, taker, &crowd) == 0);
	for (int i = 0; i < THREADS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(slots[i].taken, crowd.rounds);
	rig_empty(&crowd.rig);
}

/* Requests that did not ask stay out, those of a transfer object too. */
static void case_queue_unasked(struct env *env)
{
	tcpx_transfer *transfer;
	tcpx_completion done = {.sz = sizeof(done)};
	struct queue_rig rig;

	rig_make(&rig, env, 1);
	for (int i = 0; i < 20; i++)
		OK(near_run(env, i % 2 ? TCPX_OP_READ : TCPX_OP_WRITE, &rig.segment, 1, NULL));
	OK(tcpx_transfer_create(env->session, env->peer, &transfer));
	for (int i = 0; i < 20; i++)
		OK(tcpx_transfer_post(transfer, TCPX_OP_WRITE, &rig.segment));
	OK(tcpx_transfer_wait(transfer, LONG_NS));
	CHECK_EQ(tcpx_session_poll(env->session, &done, 1), 0);
	EXPECT(tcpx_session_wait(env->session, 0), TCPX_IN_PROGRESS);
	CHECK(!rig_readable(&rig));
	tcpx_transfer_release(transfer);
	rig_start(&rig, TCPX_OP_WRITE, 0);
	OK(rig_take(&rig).status);
	rig_empty(&rig);
}

/* Completions come in the order of the ends. max and what is left. */
static void case_queue_order(struct env *env)
{
	enum { COUNT = 10 };
	tcpx_completion done[COUNT] = {{.sz = sizeof(done[0])}};
	tcpx_request request[COUNT];
	struct queue_rig rig;

	rig_make(&rig, env, COUNT);
	for (uint64_t i = 0; i < COUNT; i++)
		request[i] = rig_start(&rig, TCPX_OP_RECV, i);
	CHECK_EQ(tcpx_session_poll(env->session, done, COUNT), 0);
	for (int i = 0; i < COUNT; i++) /* 0, 7, 4, 1, ... */
		EXPECT(tcpx_request_cancel_wait(env->session, request[i * 7 % COUNT], LONG_NS),
		       TCPX_ERR_CANCELLED);
	CHECK_EQ(tcpx_session_poll(env->session, NULL, 1), TCPX_ERR_INVALID);
	CHECK_EQ(tcpx_session_poll(NULL, done, 1), TCPX_ERR_INVALID);
	CHECK_EQ(tcpx_session_poll(env->session, NULL, 0), 0);
	CHECK_EQ(tcpx_session_poll(env->session, done, 3), 3);
	done[3].sz = sizeof(done[3]);
	CHECK_EQ(tcpx_session_poll(env->session, done + 3, UINT32_MAX), COUNT - 3);
	for (int i = 0; i < COUNT; i++) {
		CHECK_EQ(done[i].request.id, request[i * 7 % COUNT].id);
		CHECK_EQ(done[i].bytes, 0);
	}
	rig_empty(&rig);
}

/* A caller whose completions are larger: its elements lie as far apart as the first one's sz says,
 * more of them than the library copies at a time; a size that no version has takes nothing. */
static void case_queue_stride(struct env *env)
{
	enum { COUNT = 40, ROOM = 35 };
	struct {
		tcpx_completion c;
		uint64_t more[2];
	} done[ROOM + 1] = {{.c.sz = 0}};
	struct queue_rig rig;
	tcpx_request request[COUNT];

	rig_make(&rig, env, COUNT);
	for (int i = 0; i < COUNT; i++)
		request[i] = rig_start(&rig, TCPX_OP_WRITE, (uint64_t)i);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	EXPECT(tcpx_session_poll(env->session, &done[0].c, ROOM), TCPX_ERR_INVALID);
	CHECK(strstr(tcpx_last_error()->what, "tcpx_completion.sz is 0"));
	memset(done, 7, sizeof(done));
	done[0].c.sz = sizeof(done[0]);
	CHECK_EQ(tcpx_session_poll(env->session, &done[0].c, ROOM), ROOM);
	for (int i = 0; i < ROOM; i++) {
		CHECK_EQ(done[i].c.sz, sizeof(done[i]));
		CHECK_EQ(done[i].c.status, TCPX_OK);
		CHECK_EQ(done[i].c.bytes, PIECE);
		CHECK_EQ(done[i].more[0] | done[i].more[1], 0);
	}
	CHECK_EQ(byte_check(&done[ROOM], sizeof(done[ROOM]), 7), -1);
	CHECK_EQ(tcpx_session_poll(env->session, &done[0].c, ROOM), COUNT - ROOM);
	CHECK_EQ(tcpx_session_poll(env->session, &done[0].c, ROOM), 0);
	for (int i = 0; i < COUNT; i++)
		OK(tcpx_request_release(env->session, request[i]));
	buf_free(&rig.buf);
}

/* Test and wait look: the completion stays where it is. */
static void case_queue_look(struct env *env)
{
	tcpx_completion look = {.sz = sizeof(look)}, wait = look, done = look;
	struct queue_rig rig;
	tcpx_request request;

	rig_make(&rig, env, 1);
	request = rig_start(&rig, TCPX_OP_WRITE, 0);
	OK(tcpx_request_wait(env->session, request, LONG_NS, &wait));
	OK(tcpx_request_test(env->session, request, &look));
	EXPECT(tcpx_request_cancel(env->session, request), TCPX_ERR_STATE);
	OK(tcpx_request_cancel_wait(env->session, request, LONG_NS));
	CHECK_EQ(tcpx_session_poll(env->session, &done, 1), 1);
	CHECK_EQ(done.request.id, request.id);
	CHECK_EQ(done.bytes, look.bytes);
	CHECK_EQ(done.elapsed_ns, wait.elapsed_ns);
	OK(tcpx_request_test(env->session, request, &look)); /* the end stays readable */
	CHECK_EQ(look.elapsed_ns, done.elapsed_ns);
	rig_empty(&rig);
}

/* A request is not posted over a completion that nobody took. */
static void case_queue_repost(struct env *env)
{
	struct queue_rig rig;
	tcpx_request request;
	tcpx_status posted;

	rig_make(&rig, env, 1);
	request = rig_start(&rig, TCPX_OP_WRITE, 0);
	OK(near_wait(env, request, NULL));
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_STATE);
	CHECK(strstr(tcpx_last_error()->what, "completion queue"));
	CHECK(strstr(tcpx_last_error()->next, "tcpx_session_poll"));
	EXPECT(tcpx_request_post_many(env->session, &request, 1, &posted), TCPX_ERR_STATE);
	OK(tcpx_request_test(env->session, request, NULL)); /* its end is as it was */
	CHECK_EQ(rig_take(&rig).request.id, request.id);
	OK(tcpx_request_post(env->session, request));
	CHECK_EQ(rig_take(&rig).request.id, request.id);
	rig_empty(&rig);
}

/* A release takes the completion along, and the descriptor's readiness if it was the last. */
static void case_queue_release(struct env *env)
{
	tcpx_request request[3];
	struct queue_rig rig;

	rig_make(&rig, env, 3);
	for (uint64_t i = 0; i < 3; i++) {
		request[i] = rig_start(&rig, TCPX_OP_WRITE, i);
		OK(near_wait(env, request[i], NULL));
	}
	CHECK(rig_readable(&rig));
	OK(tcpx_request_release(env->session, request[1]));
	CHECK_EQ(rig_take(&rig).request.id, request[0].id);
	CHECK_EQ(rig_take(&rig).request.id, request[2].id);
	OK(tcpx_request_post(env->session, request[0]));
	OK(near_wait(env, request[0], NULL));
	CHECK(rig_readable(&rig));
	OK(tcpx_request_release(env->session, request[0]));
	CHECK(!rig_readable(&rig));
	rig_empty(&rig);
}

/* Released while active: its end is nobody's. */
static void case_queue_release_active(struct env *env)
{
	struct queue_rig rig;
	tcpx_request request;

	rig_make(&rig, env, 2);
	for (int i = 0; i < 50; i++) {
		request = rig_start(&rig, i % 2 ? TCPX_OP_RECV : TCPX_OP_WRITE, 0);
		OK(tcpx_request_release(env->session, request));
	}
	rig_empty(&rig);
}

/* A cancel and a deadline are ends as any other. */
static void case_queue_cancel(struct env *env)
{
	TCPX_OPTS(tcpx_request_opts, soon, .queue = 1, .deadline_ns = MS, .user = env);
	struct queue_rig rig;
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_request request;

	rig_make(&rig, env, 1);
	request = rig_start(&rig, TCPX_OP_RECV, 0);
	OK(tcpx_request_cancel(env->session, request));
	done = rig_take(&rig);
	EXPECT(done.status, TCPX_ERR_CANCELLED);
	CHECK_EQ(done.request.id, request.id);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &rig.segment, 1, &soon,
			      &request));
	done = rig_take(&rig);
	EXPECT(done.status, TCPX_ERR_TIMED_OUT);
	CHECK(done.user == env);
	rig_empty(&rig);
	soon.queue = 2;
	EXPECT(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &rig.segment, 1, &soon,
				  &request),
	       TCPX_ERR_INVALID);
}

/* A peer that goes ends all of its requests, and each is heard of once. */
static void case_queue_peer_gone(struct env *env)
{
	enum { COUNT = 10 };
	tcpx_completion done[COUNT + 1] = {{.sz = sizeof(done[0])}};
	tcpx_request request[COUNT];
	struct queue_rig rig;
	int got = 0;

	rig_make(&rig, env, COUNT);
	for (uint64_t i = 0; i < COUNT; i++)
		request[i] = rig_start(&rig, TCPX_OP_RECV, i);
	OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
	while (got < COUNT)
		done[got++] = rig_take(&rig);
	for (int i = 0; i < COUNT; i++) {
		int times = 0;

		EXPECT(done[i].status, TCPX_ERR_PEER_CLOSED);
		for (int j = 0; j < COUNT; j++)
			times += done[j].request.id == request[i].id;
		CHECK_EQ(times, 1);
	}
	CHECK_EQ(tcpx_session_poll(env->session, done, 1), 0);
	EXPECT(tcpx_request_post(env->session, request[0]), TCPX_ERR_PEER_CLOSED);
	CHECK_EQ(tcpx_session_poll(env->session, done, 1), 0); /* a refused post is no end */
}

/* A close discards what was not taken, and ends what is active. */
static void case_queue_close(struct env *env)
{
	struct queue_rig rig;

	rig_make(&rig, env, 20);
	for (uint64_t i = 0; i < 10; i++)
		rig_start(&rig, TCPX_OP_WRITE, i);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	for (uint64_t i = 10; i < 20; i++)
		rig_start(&rig, TCPX_OP_RECV, i);
	tcpx_session_close(env->session);
	env->session = NULL;
	buf_free(&rig.buf);
	OK(far_simple(env, FAR_COUNTERS, 0, 0, 0, 0, 0));
}

/* The descriptor is readable as long as one of the three waits. */
static void case_queue_fd(struct env *env)
{
	tcpx_completion done[3] = {{.sz = sizeof(done[0])}};
	struct queue_rig rig;
	tcpx_event event = {.sz = sizeof(event)};

	rig_make(&rig, env, 3);
	for (uint64_t i = 0; i < 3; i++)
		OK(near_wait(env, rig_start(&rig, TCPX_OP_WRITE, i), NULL));
	CHECK(rig_readable(&rig)); /* also for who asks for it only now */
	CHECK_EQ(tcpx_session_poll(env->session, done, 2), 2);
	CHECK(rig_readable(&rig));
	OK(far_simple(env, FAR_NOTIFY_SEND, 0, 5, 1, 0, 0));
	OK(tcpx_session_wait(env->session, LONG_NS));
	CHECK_EQ(tcpx_session_poll(env->session, done, 2), 1);
	OK(tcpx_session_wait(env->session, LONG_NS)); /* the notification is there now */
	CHECK(rig_readable(&rig));
	OK(near_take(env, 1, NULL));
	CHECK(!rig_readable(&rig));
	OK(near_wait(env, rig_start(&rig, TCPX_OP_WRITE, 0), NULL));
	OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
	CHECK_EQ(tcpx_session_poll(env->session, done, 2), 1);
	OK(tcpx_session_wait(env->session, LONG_NS));
	CHECK(rig_readable(&rig));
	while (tcpx_session_event(env->session, &event) == TCPX_OK)
		;
	CHECK(!rig_readable(&rig));
}

static void *sleeper(void *arg)
{
	OK(tcpx_session_wait(((struct queue_rig *)arg)->env->session, TCPX_WAIT_FOREVER));
	return NULL;
}

/* Threads that wait hear of a completion, of a notification, of an event: all of them do. */
static void case_queue_wait(struct env *env)
{
	struct far_start send = {.op = TCPX_OP_SEND, .len = PIECE};
	pthread_t thread[THREADS];
	struct queue_rig rig;
	tcpx_event event = {.sz = sizeof(event)};

	rig_make(&rig, env, 1);
	EXPECT(tcpx_session_wait(env->session, 0), TCPX_IN_PROGRESS);
	EXPECT(tcpx_session_wait(env->session, 5 * MS), TCPX_IN_PROGRESS);
	for (int round = 0; round < 3; round++) {
		if (round == 0)
			rig_start(&rig, TCPX_OP_RECV, 0);
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_create(&thread[i], NULL, sleeper, &rig) == 0);
		if (round == 0)
			OK(far_start(env, 0, &send));
		else if (round == 1)
			OK(far_simple(env, FAR_NOTIFY_SEND, 0, 5, 1, 0, 0));
		else
			OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
		for (int i = 0; i < THREADS; i++)
			CHECK(pthread_join(thread[i], NULL) == 0);
		if (round == 0)
			OK(rig_take(&rig).status);
		else if (round == 1)
			OK(near_take(env, 1, NULL));
		while (tcpx_session_event(env->session, &event) == TCPX_OK)
			;
	}
}

/* Each of many is told how its post went; the first failure is the call's. */
static void case_queue_many(struct env *env)
{
	enum { COUNT = 200, ACTIVE = 70, GONE = 100 };
	tcpx_status statuses[COUNT];
	tcpx_request request[COUNT];
	struct queue_rig rig;
	int taken[COUNT] = {0};

	rig_make(&rig, env, COUNT);
	for (uint64_t i = 0; i < COUNT; i++)
		request[i] = rig_prepare(&rig,
					 i == ACTIVE ? TCPX_OP_RECV
					 : i % 2     ? TCPX_OP_READ
						     : TCPX_OP_WRITE,
					 i, &taken[i]);
	OK(tcpx_request_post(env->session, request[ACTIVE]));
	OK(tcpx_request_release(env->session, request[GONE]));
	EXPECT(tcpx_request_post_many(env->session, NULL, 1, statuses), TCPX_ERR_INVALID);
	EXPECT(tcpx_request_post_many(env->session, request, 1, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_request_post_many(env->session, request, COUNT, statuses), TCPX_ERR_STATE);
	CHECK(strstr(tcpx_last_error()->what, "active"));
	for (int i = 0; i < COUNT; i++)
		EXPECT(statuses[i], i == ACTIVE ? TCPX_ERR_STATE
				    : i == GONE ? TCPX_ERR_STALE
						: TCPX_OK);
	for (int i = 0; i < COUNT - 2; i++) {
		tcpx_completion done = rig_take(&rig);

		OK(done.status);
		++*(int *)done.user;
	}
	for (int i = 0; i < COUNT; i++)
		CHECK_EQ(taken[i], i != ACTIVE && i != GONE);
	OK(tcpx_request_cancel(env->session, request[ACTIVE]));
	EXPECT(rig_take(&rig).status, TCPX_ERR_CANCELLED);
	rig_empty(&rig);
}

/* Of two peers by turns: each goes to its own, all end. */
static void case_queue_many_peers(struct env *env)
{
	enum { COUNT = 20 };
	TCPX_OPTS(tcpx_request_opts, opts, .queue = 1, .notify = "abcd", .notify_bytes = 4);
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_status statuses[COUNT];
	tcpx_request request[COUNT];
	struct queue_rig rig;
	tcpx_peer self;
	size_t len;

	rig_make(&rig, env, 1);
	OK(tcpx_session_info(env->session, info, sizeof(info), &len));
	OK(tcpx_session_connect(env->session, info, len, NULL, &self));
	for (int i = 0; i < COUNT; i++)
		OK(tcpx_request_prepare(env->session, i % 3 ? env->peer : self, TCPX_OP_NOTIFY,
					NULL, 0, &opts, &request[i]));
	OK(tcpx_request_post_many(env->session, request, COUNT, statuses));
	for (int i = 0; i < COUNT; i++) {
		OK(statuses[i]);
		OK(rig_take(&rig).status);
	}
	for (int i = 0; i < COUNT; i++)
		OK(i % 3 ? far_take(env, &(struct far_take){.timeout_ns = LONG_NS}, NULL)
			 : near_take(env, 0, NULL));
}

const struct case_row cases_queue[] = {
	{"queue_once", case_queue_once, 0},
	{"queue_unasked", case_queue_unasked, 0},
	{"queue_order", case_queue_order, 0},
	{"queue_stride", case_queue_stride, 0},
	{"queue_look", case_queue_look, 0},
	{"queue_repost", case_queue_repost, 0},
	{"queue_release", case_queue_release, 0},
	{"queue_release_active", case_queue_release_active, 0},
	{"queue_cancel", case_queue_cancel, 0},
	{"queue_peer_gone", case_queue_peer_gone, 0},
	{"queue_close", case_queue_close, 0},
	{"queue_fd", case_queue_fd, 0},
	{"queue_wait", case_queue_wait, 0},
	{"queue_many", case_queue_many, 0},
	{"queue_many_peers", case_queue_many_peers, 0},
	{0},
};
