/* SPDX-License-Identifier: Apache-2.0 */
/* A link that ended and is dialled again; a peer that takes its memory back and closes. */
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "conform.h"
#include "engine/request/reconnect.h"
#include "engine/session/calls.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define BYTES (300 * KIB)
#define PART (64 * KIB)

struct pair {
	struct buf buf;
	tcpx_segment segment;
};

static void pair_make(struct env *env, struct pair *pair, uint32_t id, uint64_t size)
{
	buf_make(&pair->buf, size, 3);
	pair->segment = (tcpx_segment){.length = size};
	pair->segment.local = near_register(env, &pair->buf, 0);
	pair->segment.remote = far_buf(env, id, size, RW, 1);
}

/* The link that is there is one that is dialled again. */
static void keep(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .reconnect = 1);
	tcpx_peer peer;

	OK(tcpx_session_connect(env->session, env->info, env->info_len, &opts, &peer));
	CHECK_EQ(peer.id, env->peer.id);
}

/* The far side ends the link, and the near one knows. */
static void far_leaves(struct env *env)
{
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_event event = {.sz = sizeof(event)};

	OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
	event = near_event(env, TCPX_EVENT_PEER_DOWN);
	CHECK_EQ(event.peer.id, env->peer.id);
	CHECK_EQ(event.status, TCPX_ERR_PEER_CLOSED);
	OK(tcpx_peer_error(env->session, env->peer, &error));
	CHECK_EQ(error.status, TCPX_ERR_PEER_CLOSED);
}

static void far_is_back(struct env *env)
{
	tcpx_error error = {.sz = sizeof(error)};

	CHECK_EQ(near_event(env, TCPX_EVENT_PEER_UP).peer.id, env->peer.id);
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
	OK(tcpx_peer_error(env->session, env->peer, &error));
	CHECK_EQ(error.status, TCPX_OK);
}

/* Handle, requests and imports are those of the first link; any use makes the next one. */
static void case_again_used(struct env *env)
{
	TCPX_OPTS(tcpx_request_opts, opts, .has_notify = 1);
	tcpx_request write, read;
	uint8_t word[8];
	uint64_t bytes;
	struct pair pair;

	pair_make(env, &pair, 0, BYTES);
	keep(env);
	near_event(env, TCPX_EVENT_PEER_UP);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &pair.segment, 1, &opts,
				&write));
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_READ, &pair.segment, 1, NULL,
				&read));
	for (uint64_t round = 1; round <= 3; round++) {
		buf_fill(&pair.buf, 0, BYTES, round, 0);
		OK(tcpx_request_post(env->session, write)); /* in the first round: the first link */
		OK(near_wait(env, write, NULL));
		if (round > 1)
			far_is_back(env);
		OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS}, &bytes));
		CHECK_EQ(far_pattern(env, 0, 0, BYTES, round, 0), -1);
		far_leaves(env);
		far_fill(env, 0, 0, BYTES, 10 + round, 0);
		OK(tcpx_request_post(env->session, read));
		OK(near_wait(env, read, NULL));
		far_is_back(env);
		CHECK_EQ(buf_check(&pair.buf, 0, BYTES, 10 + round, 0), -1);
		far_leaves(env);
		pat_fill(word, sizeof(word), round, 0);
		OK(tcpx_notify_send(env->session, env->peer, word, sizeof(word)));
		far_is_back(env);
		OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS, .seed = round}, &bytes));
		CHECK_EQ(bytes, sizeof(word));
		far_leaves(env);
		OK(near_run(env, TCPX_OP_WRITE, &pair.segment, 1, NULL)); /* prepared anew */
		far_is_back(env);
		far_leaves(env);
	}
	CHECK(far_slack(env, 0));
	OK(tcpx_peer_disconnect(env->session, env->peer));
	CHECK(is_peer_error(tcpx_request_post(env->session, write)));
	EXPECT(tcpx_notify_send(env->session, env->peer, word, 1), TCPX_ERR_STALE);
	OK(tcpx_request_release(env->session, write));
	OK(tcpx_request_release(env->session, read));
}

/* Requests that were under way stay failed, and are posted again by who wants that. */
static void case_again_under_way(struct env *env)
{
	tcpx_segment segment = {.length = 64};
	tcpx_request receive;
	tcpx_error error = {.sz = sizeof(error)};
	uint8_t data[64] = {1};

	keep(env);
	near_event(env, TCPX_EVENT_PEER_UP);
	segment.local = near_host(env, data, sizeof(data), 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &receive));
	far_leaves(env);
	OK(tcpx_notify_send(env->session, env->peer, "x", 1));
	far_is_back(env);
	EXPECT(tcpx_request_test(env->session, receive, NULL), TCPX_ERR_PEER_CLOSED);
	OK(tcpx_request_error(env->session, receive, &error));
	CHECK_EQ(error.status, TCPX_ERR_PEER_CLOSED);
	OK(tcpx_request_post(env->session, receive));
	EXPECT(tcpx_request_test(env->session, receive, NULL), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_cancel_wait(env->session, receive, LONG_NS), TCPX_ERR_CANCELLED);
}

static void end_it(void *peer)
{
	peer_die(peer, TCPX_ERR_PEER_CLOSED, 0, "the case ends it");
}

/* Attempts that are given up before their time do not put off the next one. */
static void case_again_soon(struct env *env)
{
	struct engine_session *session = (struct engine_session *)env->session;

	keep(env);
	near_event(env, TCPX_EVENT_PEER_UP);
	far_leaves(env);
	for (int i = 0; i < 30; i++) {
		struct engine_peer *peer = reconnect_use(session, env->peer.id, true);

		CHECK(peer);
		CHECK(peer->reconnect.at_ns - clock_now_ns() <= SEC);
		runtime_call(end_it, peer);
		peer_put(peer);
	}
}

/* It is an option of the peer, and off. */
static void case_again_off(struct env *env)
{
	tcpx_request write;
	tcpx_peer peer;
	struct pair pair;

	pair_make(env, &pair, 0, BYTES);
	near_event(env, TCPX_EVENT_PEER_UP);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &pair.segment, 1, NULL,
				&write));
	far_leaves(env);
	for (int i = 0; i < 3; i++) {
		EXPECT(tcpx_request_post(env->session, write), TCPX_ERR_PEER_CLOSED);
		EXPECT(tcpx_notify_send(env->session, env->peer, "x", 1), TCPX_ERR_PEER_CLOSED);
	}
	OK(tcpx_session_connect(env->session, env->info, env->info_len, NULL, &peer));
	CHECK(peer.id != env->peer.id);
}

/* How a post ended; the attempt may be quicker than the post. */
static tcpx_status used(struct env *env, tcpx_request request)
{
	tcpx_status status = tcpx_request_post(env->session, request);

	return status == TCPX_OK ? near_wait(env, request, NULL) : status;
}

#define REST_NS (100 * MS) /* at least, from one attempt to the next; twice as long each time */

/* One that does not come back: each use tries, not more often than it may, and says how it ended.
 * Another session in its place ends that. */
static void case_again_gone(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .reconnect = 1);
	struct env_tune same = {.keeps_port = true};
	tcpx_session_opts session;
	tcpx_status status;
	tcpx_request write;
	tcpx_error error = {.sz = sizeof(error)};
	struct pair pair;
	char address[64];

	env_far(env, &same);
	conform_opts(&session, "near");
	OK(tcpx_session_open(&session, &env->session));
	conform_address(address, env->far_port);
	OK(tcpx_session_connect_to(env->session, address, &opts, &env->peer));
	pair_make(env, &pair, 0, BYTES);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &pair.segment, 1, NULL,
				&write));
	OK(tcpx_request_post(env->session, write));
	OK(near_wait(env, write, NULL));
	OK(far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0));
	near_event(env, TCPX_EVENT_PEER_DOWN);
	for (int i = 0; i < 3; i++) {
		int64_t due_ns = clock_now_ns() + (REST_NS << i);

		status = used(env, write);
		CHECK_MSG(is_peer_error(status), "%s", tcpx_status_name(status));
		status = tcpx_notify_send(env->session, env->peer, "x", 1);
		CHECK_MSG(is_peer_error(status) || clock_now_ns() >= due_ns, "%s",
			  tcpx_status_name(status));
		OK(tcpx_peer_error(env->session, env->peer, &error));
		CHECK(is_peer_error(error.status));
	}
	far_open(env, &same);
	EXPECT(used(env, write), TCPX_ERR_PEER_RESTARTED);
	for (int i = 0; i < 3; i++)
		EXPECT(tcpx_request_post(env->session, write), TCPX_ERR_PEER_RESTARTED);
	EXPECT(tcpx_notify_send(env->session, env->peer, "x", 1), TCPX_ERR_PEER_RESTARTED);
}

struct user {
	struct env *env;
	tcpx_segment segment; /* its own part */
	tcpx_request shared;
	_Atomic int *over;
	int done; /* it ends when it was able to write */
};

/* How a use may end while links come and go. */
static bool may_be(tcpx_status status)
{
	return status == TCPX_OK || is_peer_error(status) || status == TCPX_ERR_STATE ||
	       status == TCPX_ERR_CANCELLED || status == TCPX_ERR_TIMED_OUT;
}

static void *use(void *arg)
{
	struct user *user = arg;
	struct env *env = user->env;

	for (int i = 0; !*user->over || !user->done; i++) {
		tcpx_request mine;
		tcpx_status status = tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE,
							&user->segment, 1, NULL, &mine);

		CHECK_MSG(may_be(status), "%s", tcpx_status_name(status));
		if (status == TCPX_OK) {
			status = near_wait(env, mine, NULL);
			CHECK_MSG(may_be(status), "%s", tcpx_status_name(status));
			user->done += status == TCPX_OK;
			OK(tcpx_request_release(env->session, mine));
		}
		status = i % 3 ? tcpx_request_post(env->session, user->shared)
			       : tcpx_request_cancel(env->session, user->shared);
		CHECK_MSG(may_be(status), "%s", tcpx_status_name(status));
		status = tcpx_request_wait(env->session, user->shared, LONG_NS, NULL);
		CHECK_MSG(may_be(status), "%s", tcpx_status_name(status));
		status = tcpx_notify_send(env->session, env->peer, "x", 1);
		CHECK_MSG(may_be(status) || status == TCPX_ERR_AGAIN, "%s",
			  tcpx_status_name(status));
	}
	return NULL;
}

/* Many threads on one handle, and on one request, while its links end. */
static void case_again_threads(struct env *env)
{
	enum { USERS = 4 };
	int rounds = config.light ? 5 : 20;
	struct user user[USERS];
	pthread_t thread[USERS];
	_Atomic int over = 0;
	tcpx_request shared;
	struct pair pair;

	pair_make(env, &pair, 0, (USERS + 1) * PART);
	pair.segment.length = PART;
	keep(env);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_READ, &pair.segment, 1, NULL,
				&shared));
	for (int i = 0; i < USERS; i++) {
		pair.segment.local_offset = pair.segment.remote_offset = (uint64_t)(i + 1) * PART;
		user[i] = (struct user){env, pair.segment, shared, &over, 0};
		CHECK(pthread_create(&thread[i], NULL, use, &user[i]) == 0);
	}
	for (int i = 0; i < rounds; i++) {
		OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
		OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
	}
	over = 1;
	for (int i = 0; i < USERS; i++)
		CHECK(pthread_join(thread[i], NULL) == 0);
	OK(near_run(env, TCPX_OP_WRITE, &pair.segment, 1, NULL));
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
}

/* How long a refused request waits here for a goodbye; read by each as it is refused. */
static void wait_for_goodbyes(struct env *env, int64_t ns)
{
	((struct engine_session *)env->session)->tuning.goodbye_ns = ns;
}

/* The far side ends in order: memory first, then the session. It is gone for every request, under
 * way or posted in between. */
static void closes(struct env *env, enum tcpx_op op)
{
	enum { COUNT = 6 };
	uint64_t size = config.light ? MIB : 16 * MIB;
	tcpx_request request[COUNT + 1];
	struct pair one, two;

	wait_for_goodbyes(env, LONG_NS);
	pair_make(env, &one, 0, size);
	pair_make(env, &two, 1, size);
	for (int i = 0; i < COUNT; i++)
		OK(tcpx_request_start(env->session, env->peer, op,
				      i % 2 ? &one.segment : &two.segment, 1, NULL, &request[i]));
	OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
	OK(far_simple(env, FAR_DEREG, 1, (uint64_t)LONG_NS, 0, 0, 0));
	OK(tcpx_request_start(env->session, env->peer, op, &one.segment, 1, NULL, &request[COUNT]));
	EXPECT(tcpx_peer_flush(env->session, env->peer, 20 * MS), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_wait(env->session, request[COUNT], 0, NULL), TCPX_IN_PROGRESS);
	/* nobody reads or writes its memory any more */
	OK(tcpx_region_deregister(env->session, two.segment.local, LONG_NS));
	OK(far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0));
	for (int i = 0; i <= COUNT; i++) {
		tcpx_status status = near_wait(env, request[i], NULL);
		tcpx_error error = {.sz = sizeof(error)};

		CHECK_MSG(status == TCPX_ERR_PEER_CLOSED ||
				  (i < COUNT &&
				   (status == TCPX_OK || status == TCPX_ERR_DEREGISTERED)),
			  "%s", tcpx_status_name(status));
		if (status != TCPX_OK)
			OK(tcpx_request_error(env->session, request[i], &error));
		CHECK_MSG(status != TCPX_ERR_PEER_CLOSED || strstr(error.what, "goodbye"), "%s",
			  error.what);
		OK(tcpx_request_release(env->session, request[i]));
	}
}

static void case_closes_read(struct env *env)
{
	closes(env, TCPX_OP_READ);
}

static void case_closes_write(struct env *env)
{
	closes(env, TCPX_OP_WRITE);
}

/* A peer that lives took one region back: that is said, within the time or by a cancel. */
static void case_closes_not(struct env *env)
{
	tcpx_status status = TCPX_OK;
	tcpx_request request;
	struct pair pair;
	tcpx_error error = {.sz = sizeof(error)};

	pair_make(env, &pair, 0, BYTES);
	OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
	for (int i = 0; i < 2; i++) {
		wait_for_goodbyes(env, i ? 0 : 5 * MS);
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &pair.segment, 1, NULL,
				      &request));
		EXPECT(near_wait(env, request, NULL), TCPX_ERR_REMOTE_KEY);
		OK(tcpx_request_error(env->session, request, &error));
		CHECK_EQ(error.status, TCPX_ERR_REMOTE_KEY);
		CHECK_MSG(strstr(error.what, tcpx_status_text(TCPX_ERR_REMOTE_KEY)), "%s",
			  error.what); /* why, and not only that */
		OK(tcpx_request_release(env->session, request));
	}
	wait_for_goodbyes(env, LONG_NS);
	for (int64_t ns = 20 * MS; status != TCPX_ERR_REMOTE_KEY; ns *= 2) {
		CHECK(ns < LONG_NS);
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &pair.segment, 1,
				      NULL, &request));
		EXPECT(tcpx_request_wait(env->session, request, ns, NULL), TCPX_IN_PROGRESS);
		EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_STATE);
		/* it was not refused before, if this was too soon */
		status = tcpx_request_cancel_wait(env->session, request, LONG_NS);
		CHECK_MSG(status == TCPX_ERR_REMOTE_KEY || status == TCPX_ERR_CANCELLED, "%s",
			  tcpx_status_name(status));
		OK(tcpx_request_release(env->session, request));
	}
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &pair.segment, 1, NULL,
			      &request));
	OK(tcpx_request_release(env->session, request));
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
}

const struct case_row cases_again[] = {
	{"again_used", case_again_used, 0},
	{"again_under_way", case_again_under_way, 0},
	{"again_soon", case_again_soon, 0},
	{"again_off", case_again_off, 0},
	{"again_gone", case_again_gone, CASE_BARE | CASE_BREAKS},
	{"again_threads", case_again_threads, CASE_BREAKS},
	{"closes_read", case_closes_read, 0},
	{"closes_write", case_closes_write, 0},
	{"closes_not", case_closes_not, 0},
	{0},
};
