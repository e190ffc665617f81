/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions from open to close: forked children, close with requests under way, nothing left. */
#include <dirent.h>
#include <sched.h>
#include <time.h>

#include "conform.h"
#include "engine/session/calls.h"
#include "in_child.h"
#include "runtime_refs.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static int entries(const char *path)
{
	DIR *dir = opendir(path);
	int count = 0;

	CHECK(dir);
	while (readdir(dir))
		count++;
	closedir(dir);
	return count;
}

struct forked {
	struct env *env;
	tcpx_request request;
	const tcpx_segment *segment;
};

/* In the child: every call is refused. */
static void calls_in_child(void *arg)
{
	const struct forked *forked = arg;
	struct env *env = forked->env;
	const tcpx_segment *segment = forked->segment;
	tcpx_request request = forked->request;
	tcpx_counters counters = {.sz = sizeof(counters)};
	tcpx_peer_info info = {.sz = sizeof(info)};
	uint8_t bytes[TCPX_INFO_MAX_BYTES];
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_status posted;
	tcpx_region region;
	tcpx_request made;
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer peer;
	size_t len;

	EXPECT(tcpx_session_info(env->session, bytes, sizeof(bytes), &len), TCPX_ERR_FORKED);
	EXPECT(tcpx_session_connect(env->session, env->info, env->info_len, NULL, &peer),
	       TCPX_ERR_FORKED);
	EXPECT(tcpx_session_accept(env->session, SEC, &peer), TCPX_ERR_FORKED);
	EXPECT(tcpx_session_event(env->session, &event), TCPX_ERR_FORKED);
	EXPECT(tcpx_session_counters(env->session, &counters), TCPX_ERR_FORKED);
	EXPECT(tcpx_peer_query(env->session, env->peer, &info), TCPX_ERR_FORKED);
	EXPECT(tcpx_peer_flush(env->session, env->peer, SEC), TCPX_ERR_FORKED);
	EXPECT(tcpx_peer_disconnect(env->session, env->peer), TCPX_ERR_FORKED);
	EXPECT(tcpx_peer_find(env->session, "far", &peer), TCPX_ERR_FORKED);
	EXPECT(tcpx_region_register(env->session, bytes, 8, NULL, &region), TCPX_ERR_FORKED);
	EXPECT(tcpx_region_deregister(env->session, segment->local, 0), TCPX_ERR_FORKED);
	EXPECT(tcpx_region_export(env->session, segment->local, bytes), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, segment, 1, NULL,
				    &made),
	       TCPX_ERR_FORKED);
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_test(env->session, request, NULL), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_wait(env->session, request, SEC, NULL), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_cancel(env->session, request), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_release(env->session, request), TCPX_ERR_FORKED);
	EXPECT(tcpx_notify_send(env->session, env->peer, "x", 1), TCPX_ERR_FORKED);
	EXPECT(tcpx_notify_take(env->session, SEC, &note), TCPX_ERR_FORKED);
	CHECK_EQ(tcpx_session_poll(env->session, &done, 1), TCPX_ERR_FORKED);
	EXPECT(tcpx_session_wait(env->session, SEC), TCPX_ERR_FORKED);
	EXPECT(tcpx_request_post_many(env->session, &request, 1, &posted), TCPX_ERR_FORKED);
	CHECK_EQ(posted, TCPX_ERR_FORKED);
	CHECK_EQ(tcpx_session_fd(env->session), -1);
	tcpx_session_close(env->session); /* forgets, says nothing to the peer */
}

static void case_fork(struct env *env)
{
	tcpx_segment segment = {.length = MIB};
	tcpx_request request;
	struct buf buf;

	buf_make(&buf, MIB, 0);
	buf_fill(&buf, 0, MIB, 1, 0);
	segment.local = near_register(env, &buf, RW);
	segment.remote = far_buf(env, 0, MIB, RW, 0);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				&request));
	OK(tcpx_request_post(env->session, request));
	CHECK_EQ(in_child(calls_in_child, &(struct forked){env, request, &segment}), 0);
	OK(near_wait(env, request, NULL)); /* the parent goes on */
	for (int i = 0; i < 5; i++) {
		OK(tcpx_request_post(env->session, request));
		OK(near_wait(env, request, NULL));
	}
	CHECK_EQ(far_pattern(env, 0, 0, MIB, 1, 0), -1);
}

/* In the child: a session of its own, connected to itself. */
static void own_session(void *arg)
{
	struct env *env = arg;
	TCPX_OPTS(tcpx_session_opts, opts, .plugin = ""); /* no plugin survives */
	tcpx_segment segment = {.length = 8};
	uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	tcpx_region remote;
	uint16_t port;
	size_t len;

	env->session = NULL;
	OK(tcpx_session_open(&opts, &env->session));
	OK(tcpx_session_listen(env->session, NULL, &port));
	OK(tcpx_session_info(env->session, info, sizeof(info), &len));
	OK(tcpx_session_connect(env->session, info, len, NULL, &env->peer));
	segment.local = near_host(env, data, 8, 0);
	remote = near_host(env, back, 8, RW);
	OK(tcpx_region_export(env->session, remote, token));
	OK(tcpx_region_import(env->session, env->peer, token, sizeof(token), &segment.remote));
	OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK(memcmp(data, back, 8) == 0);
	tcpx_session_close(env->session);
}

/* A child may open a session of its own. */
static void case_fork_own_session(struct env *env)
{
#if defined(__SANITIZE_THREAD__)
	return; /* it allows no new threads in a child of a process with threads */
#endif
	CHECK_EQ(in_child(own_session, env), 0);
	OK(tcpx_notify_send(env->session, env->peer, "x", 1));
}

/* Close ends what is under way; nothing of ours touches the memory afterwards. */
static void case_close_active(struct env *env)
{
	uint64_t size = 8 * MIB;
	tcpx_segment segment = {.length = size};
	tcpx_request request;
	struct buf buf;

	buf_make(&buf, size, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, size, RW, 0);
	far_fill(env, 0, 0, size, 1, 0);
	for (int i = 0; i < 8; i++)
		OK(tcpx_request_start(env->session, env->peer, i % 2 ? TCPX_OP_RECV : TCPX_OP_READ,
				      &segment, 1, NULL, &request));
	tcpx_session_close(env->session);
	env->session = NULL;
	buf_free(&buf);
	OK(far_simple(env, FAR_COUNTERS, 0, 0, 0, 0, 0));
}

/* The far side's requests end with a peer error when we close. */
static void case_close_seen_far(struct env *env)
{
	struct far_start recv = {.op = TCPX_OP_RECV, .len = 1000};

	far_buf(env, 0, 1000, RW, 0);
	OK(far_start(env, 0, &recv));
	tcpx_session_close(env->session);
	env->session = NULL;
	EXPECT(far_wait(env, 0, LONG_NS, NULL, NULL), TCPX_ERR_PEER_CLOSED);
}

/* A joined thread is listed for a moment longer. */
static bool threads_fall_to(int tasks)
{
	time_t limit = time(NULL) + 10;

	while (entries("/proc/self/task") > tasks)
		if (time(NULL) > limit)
			return false;
	return true;
}

/* Open, work, close, many times: descriptors and threads go back to the base. */
static void case_open_close_many(struct env *env)
{
	int rounds = config.light ? 10 : 40, fds = 0, tasks = 0;

	for (int i = 0; i < rounds; i++) {
		struct env one = {.fd = -1};
		tcpx_segment segment = {.length = 100};
		struct buf buf;

		env_open(&one);
		buf_make(&buf, 100, 0);
		segment.local = near_register(&one, &buf, 0);
		segment.remote = far_buf(&one, 0, 100, RW, 0);
		OK(near_run(&one, TCPX_OP_WRITE, &segment, 1, NULL));
		env_close(&one);
		buf_free(&buf);
		if (i == 1) { /* after the first rounds: lazily made things are there */
			fds = entries("/proc/self/fd");
			tasks = entries("/proc/self/task");
		}
		if (i > 1 && config.processes == 1) {
			CHECK_EQ(entries("/proc/self/fd"), fds);
			CHECK(threads_fall_to(tasks));
		}
		check_alive();
	}
	(void)env;
}

/* One session, many peers, one of them leaves: the others do not notice. */
static void case_many_peers(struct env *env)
{
	enum { PEERS = 8 };
	tcpx_session *session[PEERS];
	tcpx_peer peer[PEERS], back;
	tcpx_session_opts opts;
	tcpx_event event = {.sz = sizeof(event)};
	char name[32];

	if (config.processes == 2)
		return;
	for (int i = 0; i < PEERS; i++) {
		snprintf(name, sizeof(name), "peer-%d", i);
		conform_opts(&opts, name);
		OK(tcpx_session_open(&opts, &session[i]));
		OK(tcpx_session_connect(session[i], env->info, env->info_len, NULL, &peer[i]));
		OK(tcpx_session_accept(env->side->session, LONG_NS, &back));
	}
	tcpx_session_close(session[3]);
	for (int i = 0; i < PEERS; i++) {
		tcpx_notification note = {.sz = sizeof(note)};

		if (i == 3)
			continue;
		snprintf(name, sizeof(name), "peer-%d", i);
		OK(tcpx_peer_find(env->side->session, name, &back));
		OK(tcpx_notify_send(session[i], peer[i], name, strlen(name)));
		OK(tcpx_notify_take(env->side->session, LONG_NS, &note));
		CHECK_EQ(note.peer.id, back.id);
		CHECK(note.bytes == strlen(name) && memcmp(note.data, name, note.bytes) == 0);
		tcpx_notification_release(env->side->session, &note);
	}
	/* exactly one went */
	event = session_event(env->side->session, TCPX_EVENT_PEER_DOWN);
	CHECK_EQ(event.status, TCPX_ERR_PEER_CLOSED);
	while (tcpx_session_event(env->side->session, &event) == TCPX_OK)
		CHECK(event.type != TCPX_EVENT_PEER_DOWN);
	for (int i = 0; i < PEERS; i++)
		if (i != 3)
			tcpx_session_close(session[i]);
}

/* The far process is gone between two instructions: all requests end with a peer error. */
static void case_far_killed(struct env *env)
{
	enum { COUNT = 8 };
	tcpx_segment segment = {.length = 16 * MIB};
	tcpx_request request[COUNT + 1];
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_error error = {.sz = sizeof(error)};
	struct buf buf;
	int status;

	buf_make(&buf, 16 * MIB, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 16 * MIB, RW, 0);
	for (int i = 0; i < COUNT; i++)
		OK(tcpx_request_start(env->session, env->peer, i % 2 ? TCPX_OP_READ : TCPX_OP_WRITE,
				      &segment, 1, NULL, &request[i]));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL,
			      &request[COUNT]));
	CHECK(kill(env->pid, SIGKILL) == 0);
	CHECK(waitpid(env->pid, &status, 0) == env->pid);
	env->pid = 0;
	CHECK(is_peer_error(near_wait(env, request[COUNT], NULL)));
	for (int i = 0; i < COUNT; i++) {
		tcpx_status end = near_wait(env, request[i], NULL);

		CHECK_MSG(end == TCPX_OK || is_peer_error(end), "%s", tcpx_status_name(end));
	}
	buf_poison(&buf);
	event = near_event(env, TCPX_EVENT_PEER_DOWN);
	CHECK(is_peer_error(event.status));
	OK(tcpx_peer_error(env->session, env->peer, &error));
	CHECK_EQ(error.status, event.status);
	CHECK(is_peer_error(tcpx_request_post(env->session, request[0])));
	CHECK_EQ(buf_bytes(&buf, 0, buf.size, POISON), -1);
	close(env->fd);
	env_far(env, NULL); /* a new one connects at once */
	env_connect(env);
}

/* A copy that ends after its session: what it holds lives until then, and goes by itself, whatever
 * another session does meanwhile. */
static void case_close_before_copy(struct env *env)
{
	tcpx_session_opts opts;
	tcpx_request request;
	tcpx_session *next;
	tcpx_region source;
	struct buf buf;

	if (!near_held_write(env, &buf, &source, &request))
		return;
	tcpx_session_close(env->session);
	env->session = NULL;
	far_simple(env, FAR_CLOSE_SESSION, 0, 0, 0, 0, 0);
	CHECK(runtime_refs() > 0);
	hold_end();
	/* A copy of ours into its memory holds the other process: it ends after us. */
	while (config.processes == 2 && conform_direct() && runtime_refs() > 0)
		sched_yield();
	/* A driver frees memory, the far side's here, when all work of that GPU has ended. */
	far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0);
	hold_settle();
	conform_opts(&opts, "next");
	OK(tcpx_session_open(&opts, &next));
	tcpx_session_close(next);
	while (runtime_refs() > 0)
		sched_yield();
	buf_free(&buf);
}

/* Notifications that were taken and not released keep nothing alive. */
static void case_close_note_taken(struct env *env)
{
	enum { COUNT = 3 };
	tcpx_notification note[COUNT];

	for (uint64_t i = 0; i < COUNT; i++)
		OK(far_simple(env, FAR_NOTIFY_SEND, 0, 20000 * i, i + 1, 0, 0));
	for (int i = 0; i < COUNT; i++) {
		note[i].sz = sizeof(note[i]);
		OK(tcpx_notify_take(env->session, LONG_NS, &note[i]));
	}
	tcpx_notification_release(env->session, &note[1]); /* out of order */
	CHECK(runtime_refs() > 0);
	tcpx_session_close(env->session);
	env->session = NULL;
	if (config.processes == 1) /* the same runtime */
		far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0);
	CHECK_EQ(runtime_refs(), 0);
}

/* Nothing but the end of its connections tells of a peer's death when silence may last that long. A
 * child of the peer, which never calls exec, must not keep them open, nor its listening port. */
static void case_far_killed_has_child(struct env *env)
{
	static const struct env_tune patient = {.silent_ms = 20000, .stopped_ms = 20000};
	struct far_cmd cmd = {.op = FAR_FORK};
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	struct far_reply reply;
	tcpx_segment segment = {.length = MIB};
	tcpx_session_opts opts;
	tcpx_session *again;
	tcpx_status end;
	struct buf buf;
	uint16_t port;
	int status;
	pid_t child;

	env_open_tuned(env, &patient, &patient);
	listen.port = env->far_port;
	OK(far_call(env, &cmd, &reply));
	child = (pid_t)reply.value[0];
	buf_make(&buf, MIB, 0);
	buf_fill(&buf, 0, MIB, 1, 0);
	segment.local = near_register(env, &buf, RW);
	segment.remote = far_buf(env, 0, MIB, RW, 0);
	for (int i = 0; i < 20; i++) /* a child that ends nothing of its parent's */
		OK(near_run(env, i % 2 ? TCPX_OP_READ : TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK_EQ(far_pattern(env, 0, 0, MIB, 1, 0), -1);
	CHECK(kill(env->pid, SIGKILL) == 0);
	CHECK(waitpid(env->pid, &status, 0) == env->pid);
	env->pid = 0;
	end = near_event(env, TCPX_EVENT_PEER_DOWN).status;
	CHECK_MSG(end == TCPX_ERR_PEER_CLOSED || end == TCPX_ERR_PEER_RESET, "%s",
		  tcpx_status_name(end)); /* not that of a peer that was silent for too long */
	conform_opts(&opts, "again");
	OK(tcpx_session_open(&opts, &again));
	OK(tcpx_session_listen(again, &listen, &port));
	CHECK_EQ(port, env->far_port);
	tcpx_session_close(again);
	CHECK(kill(child, 0) == 0); /* it was there all the time */
	CHECK(kill(child, SIGKILL) == 0);
}

const struct case_row cases_life[] = {
	{"fork", case_fork, 0},
	{"fork_own_session", case_fork_own_session, 0},
	{"close_active", case_close_active, 0},
	{"close_seen_far", case_close_seen_far, 0},
	{"close_before_copy", case_close_before_copy, 0},
	{"close_note_taken", case_close_note_taken, 0},
	{"open_close_many", case_open_close_many, CASE_BARE},
	{"many_peers", case_many_peers, 0},
	{"far_killed", case_far_killed, CASE_TWO},
	{"far_killed_has_child", case_far_killed_has_child, CASE_TWO | CASE_BARE},
	{0},
};
