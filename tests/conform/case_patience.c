/* SPDX-License-Identifier: Apache-2.0 */
/* Who asked for how long: look-ups of names, connects that share a peer, times without an end; and
 * what sessions are called. */
#include "conform.h"
#include "wire/hello.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static void near_only(struct env *env)
{
	tcpx_session_opts opts;

	conform_opts(&opts, "near");
	OK(tcpx_session_open(&opts, &env->session));
}

static enum tcpx_peer_state state_of(struct env *env, tcpx_peer peer)
{
	tcpx_peer_info info = {.sz = sizeof(info)};

	OK(tcpx_peer_query(env->session, peer, &info));
	return (enum tcpx_peer_state)info.state;
}

/* Nonblocking is that for names too: the call is back before the name server has answered. */
static void case_connect_name_beside(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1, .timeout_ns = LONG_NS);
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer nobody;
	char target[32];

	env_far(env, NULL);
	near_only(env);
	lookup_hold();
	OK(tcpx_session_connect_to(env->session, "nobody", &opts, &nobody));
	CHECK_EQ(state_of(env, nobody), TCPX_PEER_CONNECTING);
	lookup_answer();
	event = near_event(env, TCPX_EVENT_PEER_DOWN);
	CHECK_EQ(event.peer.id, nobody.id);
	CHECK_EQ(event.status, TCPX_ERR_NOT_FOUND);
	snprintf(target, sizeof(target), "far-away:%u", env->far_port);
	OK(tcpx_session_connect_to(env->session, target, &opts, &env->peer));
	CHECK_EQ(state_of(env, env->peer), TCPX_PEER_CONNECTING);
	lookup_answer();
	event = near_event(env, TCPX_EVENT_PEER_UP);
	CHECK_EQ(event.peer.id, env->peer.id);
	EXPECT(tcpx_session_connect_to(env->session, "far-away:1:2", &opts, &nobody),
	       TCPX_ERR_INVALID); /* what is no name is said at once */
	/* a look-up that its session does not live to see */
	OK(tcpx_session_connect_to(env->session, "too-late", &opts, &nobody));
	tcpx_session_close(env->session);
	env->session = NULL;
	lookup_answer();
}

/* The peer is stopped before it answers the first dial: a second caller waits as long as he said,
 * and what the first one asked for goes on. */
static void case_connect_own_patience(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, slow, .nonblocking = 1, .timeout_ns = LONG_NS);
	TCPX_OPTS(tcpx_connect_opts, quick, .timeout_ns = 50 * MS);
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer other;

	env_far(env, NULL);
	near_only(env);
	far_stop(env);
	OK(tcpx_session_connect(env->session, env->info, env->info_len, &slow, &env->peer));
	EXPECT(tcpx_session_connect(env->session, env->info, env->info_len, &quick, &other),
	       TCPX_ERR_TIMED_OUT);
	CHECK_EQ(state_of(env, env->peer), TCPX_PEER_CONNECTING);
	CHECK(kill(env->pid, SIGCONT) == 0);
	event = near_event(env, TCPX_EVENT_PEER_UP);
	CHECK_EQ(event.peer.id, env->peer.id);
}

/* The largest number is a time that never comes. */
static void case_no_limit(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, connect, .timeout_ns = INT64_MAX);
	TCPX_OPTS(tcpx_request_opts, opts, .deadline_ns = INT64_MAX);
	tcpx_segment segment = {.length = 100};
	tcpx_request request;
	uint8_t data[100] = {0};

	env_far(env, NULL);
	near_only(env);
	OK(tcpx_session_connect(env->session, env->info, env->info_len, &connect, &env->peer));
	OK(far_simple(env, FAR_ACCEPT, 0, INT64_MAX, 0, 0, 0));
	segment.local = near_host(env, data, sizeof(data), 0);
	segment.remote = far_buf(env, 0, sizeof(data), RW, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
			      &request));
	OK(tcpx_request_wait(env->session, request, INT64_MAX, NULL));
	OK(tcpx_peer_flush(env->session, env->peer, INT64_MAX));
	OK(tcpx_region_deregister(env->session, segment.local, INT64_MAX));
}

/* Of containers that share a host name and process numbers each has a name of its own. */
static void case_default_names(struct env *env)
{
	char name[2][TCPX_NAME_MAX + 1];

	for (int i = 0; i < 2; i++) {
		tcpx_session_opts opts;
		struct wire_info info;
		uint8_t bytes[TCPX_INFO_MAX_BYTES];
		size_t len;
		uint16_t port;

		conform_opts(&opts, NULL);
		OK(tcpx_session_open(&opts, &env->session));
		OK(tcpx_session_listen(env->session, NULL, &port));
		OK(tcpx_session_info(env->session, bytes, sizeof(bytes), &len));
		OK(wire_info_decode(bytes, len, &info));
		CHECK(strlen(info.name) > 9 && info.name[strlen(info.name) - 9] == '-');
		snprintf(name[i], sizeof(name[i]), "%s", info.name + strlen(info.name) - 8);
		CHECK(strspn(name[i], "0123456789abcdef") == 8);
		tcpx_session_close(env->session);
		env->session = NULL;
	}
	CHECK(strcmp(name[0], name[1]));
}

/* Who connects to a session that does not want to know may have another's name: neither ends. */
static void case_namesakes(struct env *env)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_session *twins[2];
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_session_opts opts;
	tcpx_peer host[2];
	uint16_t port;
	size_t len;

	conform_opts(&opts, "host");
	opts.flags |= TCPX_SESSION_NO_ACCEPT;
	OK(tcpx_session_open(&opts, &env->session));
	OK(tcpx_session_listen(env->session, NULL, &port));
	OK(tcpx_session_info(env->session, info, sizeof(info), &len));
	conform_opts(&opts, "twin");
	for (int i = 0; i < 2; i++) {
		OK(tcpx_session_open(&opts, &twins[i]));
		OK(tcpx_session_connect(twins[i], info, len, NULL, &host[i]));
		for (int j = 0; j <= i; j++) {
			OK(tcpx_notify_send(twins[j], host[j], "x", 1));
			OK(tcpx_notify_take(env->session, LONG_NS, &note));
			CHECK(!strcmp(note.name, "twin"));
			tcpx_notification_release(env->session, &note);
		}
	}
	for (int i = 0; i < 2; i++)
		tcpx_session_close(twins[i]);
}

const struct case_row cases_patience[] = {
	{"connect_name_beside", case_connect_name_beside, CASE_BARE | CASE_ONCE},
	{"connect_own_patience", case_connect_own_patience, CASE_BARE | CASE_TWO},
	{"no_limit", case_no_limit, CASE_BARE},
	{"default_names", case_default_names, CASE_BARE | CASE_ONCE},
	{"namesakes", case_namesakes, CASE_BARE},
	{0},
};
