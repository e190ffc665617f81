/* SPDX-License-Identifier: Apache-2.0 */
/* Connection info, accept, connect in all ways, names, disconnect. */
#include <arpa/inet.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "conform.h"
#include "wire/hello.h"

static tcpx_status connect_info(struct env *env, const void *info, size_t len, tcpx_peer *out)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = 20 * SEC);

	return tcpx_session_connect(env->session, info, len, &opts, out);
}

static void near_only(struct env *env)
{
	tcpx_session_opts opts;

	conform_opts(&opts, "near");
	OK(tcpx_session_open(&opts, &env->session));
}

static void case_info_round_trip(struct env *env)
{
	uint8_t one[TCPX_INFO_MAX_BYTES], two[TCPX_INFO_MAX_BYTES];
	size_t a = 0, b = 77;
	uint16_t port = 0;

	near_only(env);
	EXPECT(tcpx_session_info(env->session, one, sizeof(one), &a), TCPX_ERR_STATE);
	CHECK_EQ(a, 0);
	OK(tcpx_session_listen(env->session, NULL, &port));
	CHECK(port != 0);
	EXPECT(tcpx_session_listen(env->session, NULL, &port), TCPX_ERR_STATE);
	OK(tcpx_session_info(env->session, one, sizeof(one), &a));
	EXPECT(tcpx_session_info(env->session, two, a - 1, &b), TCPX_ERR_RANGE);
	CHECK_EQ(b, 77);
	OK(tcpx_session_info(env->session, two, a, &b));
	CHECK_EQ(a, b);
	CHECK(a >= 128 && memcmp(one, two, a) == 0);
}

/* No flipped, cut or lengthened info is taken for one; none of them reaches the network. */
static void case_info_corrupt(struct env *env)
{
	uint8_t info[TCPX_INFO_MAX_BYTES + 1];
	tcpx_status status;
	tcpx_peer peer;

	env_far(env, NULL);
	near_only(env);
	for (size_t i = 0; i < env->info_len * 8; i++) {
		memcpy(info, env->info, env->info_len);
		info[i / 8] ^= (uint8_t)(1u << i % 8);
		status = connect_info(env, info, env->info_len, &peer);
		CHECK_MSG(status == TCPX_ERR_INVALID || status == TCPX_ERR_VERSION,
			  "bit %zu flipped: %s", i, tcpx_status_name(status));
	}
	for (size_t len = 0; len < env->info_len; len++)
		EXPECT(connect_info(env, env->info, len, &peer), TCPX_ERR_INVALID);
	memset(info, 0, sizeof(info));
	EXPECT(connect_info(env, info, sizeof(info), &peer), TCPX_ERR_INVALID);
	EXPECT(connect_info(env, NULL, 0, &peer), TCPX_ERR_INVALID);
	OK(connect_info(env, env->info, env->info_len, &peer));
}

/* A well-formed info with another secret is a stranger's. */
static void case_info_wrong_secret(struct env *env)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	struct wire_info parts;
	tcpx_peer peer;
	size_t len;

	env_far(env, NULL);
	near_only(env);
	OK(wire_info_decode(env->info, env->info_len, &parts));
	parts.secret[5] ^= 1;
	len = wire_info_encode(&parts, info, sizeof(info));
	CHECK(len > 0);
	EXPECT(connect_info(env, info, len, &peer), TCPX_ERR_AUTH);
	OK(connect_info(env, env->info, env->info_len, &peer));
}

static void case_info_old_incarnation(struct env *env)
{
	uint8_t old[TCPX_INFO_MAX_BYTES];
	size_t old_len;
	struct env_tune tune = {.keeps_port = true};
	tcpx_status status;
	tcpx_peer peer;
	uint16_t port;

	env_far(env, &tune);
	near_only(env);
	old_len = env->info_len;
	memcpy(old, env->info, old_len);
	OK(far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0));
	EXPECT(connect_info(env, old, old_len, &peer), TCPX_ERR_REFUSED);
	port = env->far_port;
	far_open(env, &tune);
	CHECK_EQ(env->far_port, port);
	status = connect_info(env, old, old_len, &peer);
	CHECK_MSG(status == TCPX_ERR_PEER_RESTARTED || status == TCPX_ERR_AUTH, "%s",
		  tcpx_status_name(status));
	OK(connect_info(env, env->info, env->info_len, &peer));
}

static void case_connect_twice(struct env *env)
{
	tcpx_peer again, none;
	tcpx_counters counters = {.sz = sizeof(counters)};

	OK(connect_info(env, env->info, env->info_len, &again));
	CHECK_EQ(again.id, env->peer.id);
	EXPECT(far_simple(env, FAR_ACCEPT, 0, 0, 0, 0, 0), TCPX_IN_PROGRESS);
	OK(tcpx_session_counters(env->session, &counters));
	CHECK_EQ(counters.peers_up, 1);
	EXPECT(tcpx_session_accept(env->session, 0, &none), TCPX_IN_PROGRESS);
	EXPECT(tcpx_session_accept(env->session, 20 * MS, &none), TCPX_IN_PROGRESS);
}

struct crossing {
	struct env *env;
	uint16_t port; /* 0: by info */
};

static void *far_connects(void *arg)
{
	struct crossing *crossing = arg;
	struct env *env = crossing->env;
	struct far_cmd cmd = {.op = FAR_CONNECT};
	struct far_reply reply;
	size_t len = 0;

	if (crossing->port) {
		cmd.op = FAR_CONNECT_TO;
		conform_near_address((char *)cmd.data, crossing->port);
		len = strlen((char *)cmd.data) + 1;
	} else {
		OK(tcpx_session_info(env->session, cmd.data, sizeof(cmd.data), &len));
	}
	cmd.len = (uint32_t)len;
	OK(far_call(env, &cmd, &reply));
	return NULL;
}

static void write_once(struct env *env, uint64_t seed)
{
	tcpx_segment segment = {.length = 1000};
	struct buf buf;

	buf_make(&buf, segment.length, 0);
	buf_fill(&buf, 0, buf.size, seed, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, buf.size, TCPX_RIGHT_WRITE, 0);
	OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
	CHECK_EQ(far_pattern(env, 0, 0, buf.size, seed, 0), -1);
	OK(tcpx_region_deregister(env->session, segment.local, 0));
	OK(tcpx_region_deregister(env->session, segment.remote, 0));
	buf_free(&buf);
}

/* Both dial at the same moment, by info and by address, where neither knows beforehand whom it will
 * meet: one link, one peer on either side, and it works. */
static void case_connect_both(struct env *env)
{
	for (int round = 0; round < (config.light ? 6 : 40); round++) {
		tcpx_counters counters = {.sz = sizeof(counters)};
		struct crossing crossing = {.env = env};
		pthread_t thread;
		char address[64];
		uint16_t port;

		env_far(env, NULL);
		near_only(env);
		OK(tcpx_session_listen(env->session, NULL, &port));
		if (round % 2)
			crossing.port = port;
		CHECK(pthread_create(&thread, NULL, far_connects, &crossing) == 0);
		if (crossing.port) {
			conform_address(address, env->far_port);
			OK(tcpx_session_connect_to(env->session, address, NULL, &env->peer));
		} else {
			OK(connect_info(env, env->info, env->info_len, &env->peer));
		}
		CHECK(pthread_join(thread, NULL) == 0);
		write_once(env, 7 + (uint64_t)round);
		OK(tcpx_session_counters(env->session, &counters));
		CHECK_EQ(counters.peers_up, 1);
		CHECK_EQ(counters.peers_lost, 0);
		env_close(env);
	}
}

/* A session is its own peer: the far half of the case is the same session. */
static void case_connect_self(struct env *env)
{
	uint8_t info[TCPX_INFO_MAX_BYTES], token[TCPX_TOKEN_BYTES];
	struct buf from, to;
	tcpx_segment segment;
	uint64_t sizes[] = {1, 4096, 100000, 3 * MIB + 1}, bytes = 0;
	uint16_t port;
	size_t len;

	near_only(env);
	OK(tcpx_session_listen(env->session, NULL, &port));
	OK(tcpx_session_info(env->session, info, sizeof(info), &len));
	OK(connect_info(env, info, len, &env->peer));
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		TCPX_OPTS(tcpx_request_opts, opts, .notify = "done", .notify_bytes = 4);

		buf_make(&from, sizes[i], 1);
		buf_make(&to, sizes[i], 0);
		buf_fill(&from, 0, from.size, i + 1, 0);
		memset(&segment, 0, sizeof(segment));
		segment.length = sizes[i];
		segment.local = near_register(env, &from, 0);
		segment.remote = near_register(env, &to, TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
		OK(tcpx_region_export(env->session, segment.remote, token));
		OK(tcpx_region_import(env->session, env->peer, token, sizeof(token),
				      &segment.remote));
		OK(near_run(env, TCPX_OP_WRITE, &segment, 1, &opts));
		CHECK_EQ(buf_check(&to, 0, to.size, i + 1, 0), -1);
		CHECK(buf_slack_whole(&to));
		OK(near_take(env, 0, &bytes));
		CHECK_EQ(bytes, 4);
		buf_poison(&from);
		OK(near_run(env, TCPX_OP_READ, &segment, 1, NULL));
		CHECK_EQ(buf_check(&from, 0, from.size, i + 1, 0), -1);
		CHECK(buf_slack_whole(&from));
		OK(tcpx_region_deregister(env->session, segment.local, 0));
		buf_free(&from);
	}
}

static void case_connect_address(struct env *env)
{
	char text[64];
	tcpx_peer peer = {0}, again;
	TCPX_OPTS(tcpx_connect_opts, opts, .timeout_ns = 20 * SEC);

	env_far(env, NULL);
	near_only(env);
	conform_address(text, env->far_port);
	OK(tcpx_session_connect_to(env->session, text, &opts, &peer));
	OK(tcpx_session_connect_to(env->session, text, &opts, &again));
	CHECK_EQ(peer.id, again.id);
	OK(tcpx_peer_find(env->session, "far", &again));
	CHECK_EQ(peer.id, again.id);
	env->peer = peer;
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
	write_once(env, 3);
	if (config.family == 4 && !config.far_bind) { /* a name for the same address */
		snprintf(text, sizeof(text), "localhost:%u", env->far_port);
		OK(tcpx_session_connect_to(env->session, text, &opts, &again));
		CHECK_EQ(peer.id, again.id);
	}
	CHECK_EQ(tcpx_session_connect_to(env->session, "no-such-host.invalid:1", &opts, &peer),
		 TCPX_ERR_NOT_FOUND);
	conform_address(text, 1); /* nobody listens there */
	EXPECT(tcpx_session_connect_to(env->session, text, &opts, &peer), TCPX_ERR_REFUSED);
	EXPECT(tcpx_session_connect_to(env->session, "", &opts, &peer), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_connect_to(env->session, "[::1", &opts, &peer), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_connect_to(env->session, "127.0.0.1:99999", &opts, &peer),
	       TCPX_ERR_INVALID);
}

static void case_connect_nonblocking(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1);
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer again;

	env_far(env, NULL);
	near_only(env);
	OK(tcpx_session_connect(env->session, env->info, env->info_len, &opts, &env->peer));
	event = near_event(env, TCPX_EVENT_PEER_UP);
	CHECK_EQ(event.peer.id, env->peer.id);
	OK(tcpx_peer_query(env->session, env->peer, &info));
	CHECK_EQ(info.state, TCPX_PEER_UP);
	OK(tcpx_session_connect(env->session, env->info, env->info_len, &opts, &again));
	CHECK_EQ(again.id, env->peer.id);
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
	write_once(env, 4);
}

/* Nonblocking towards nobody: the event and the stored error tell. */
static void case_connect_nonblocking_refused(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1);
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer peer;
	tcpx_status status;

	env_far(env, NULL);
	near_only(env);
	OK(far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0));
	status = tcpx_session_connect(env->session, env->info, env->info_len, &opts, &peer);
	if (status == TCPX_ERR_REFUSED)
		return;
	OK(status);
	event = near_event(env, TCPX_EVENT_PEER_DOWN);
	CHECK_EQ(event.status, TCPX_ERR_REFUSED);
	CHECK_EQ(event.peer.id, peer.id);
	OK(tcpx_peer_error(env->session, peer, &error));
	CHECK_EQ(error.status, TCPX_ERR_REFUSED);
}

/* A process with few descriptors left says so, whichever step of the connect wants one more, and
 * does not take its own host for another. */
static void case_connect_few_descriptors(struct env *env)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	struct rlimit all, few;
	tcpx_status status;
	tcpx_event event = {.sz = sizeof(event)};
	int first, refused = 0;

	env_far(env, NULL);
	near_only(env);
	CHECK(getrlimit(RLIMIT_NOFILE, &all) == 0);
	first = dup(0);
	CHECK(first >= 0 && close(first) == 0);
	for (few = all, few.rlim_cur = (rlim_t)first;; few.rlim_cur++) {
		CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0);
		status = tcpx_session_connect(env->session, env->info, env->info_len, NULL,
					      &env->peer);
		if (status == TCPX_OK)
			break;
		if (status == TCPX_ERR_NO_DESCRIPTORS)
			CHECK(strstr(tcpx_last_error()->next, "ulimit -n"));
		else /* in one process the other session has none either: it hangs up, or has lost
		      * even the reserve that it hangs up with to the socket of this connect */
			CHECK_MSG(config.processes == 1 &&
					  (is_peer_error(status) || status == TCPX_ERR_TIMED_OUT),
				  "%s", tcpx_status_name(status));
		refused += status == TCPX_ERR_NO_DESCRIPTORS;
	}
	CHECK(setrlimit(RLIMIT_NOFILE, &all) == 0);
	CHECK(refused > 1);
	OK(tcpx_peer_query(env->session, env->peer, &info));
	if (!conform_plugin()) /* there were enough for the peer, not for its comms */
		CHECK_STR(info.transport, config.transport);
	while (tcpx_session_event(env->session, &event) == TCPX_OK)
		CHECK_EQ(event.peer.id, env->peer.id); /* none of those that failed */
}

static int plain_listener(char address[64])
{
	struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(fd >= 0 && bind(fd, (void *)&sin, len) == 0 && listen(fd, 8) == 0);
	CHECK(getsockname(fd, (void *)&sin, &len) == 0);
	snprintf(address, 64, "127.0.0.1:%u", ntohs(sin.sin_port));
	return fd;
}

/* A port that belongs to somebody else: silent, gone at once, or talking nonsense. */
static void case_connect_stranger(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, quick, .timeout_ns = 300 * MS);
	TCPX_OPTS(tcpx_connect_opts, async, .nonblocking = 1, .timeout_ns = 20 * SEC);
	static const char hello[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
				    "and more, so that a whole header is there to be read ......";
	tcpx_event event = {.sz = sizeof(event)};
	char address[64];
	tcpx_peer peer;
	int fd, one;

	near_only(env);
	fd = plain_listener(address);
	EXPECT(tcpx_session_connect_to(env->session, address, &quick, &peer), TCPX_ERR_TIMED_OUT);
	one = accept(fd, NULL, NULL);
	CHECK(one >= 0);
	close(one);
	OK(tcpx_session_connect_to(env->session, address, &async, &peer));
	one = accept(fd, NULL, NULL);
	CHECK(one >= 0 && send(one, hello, sizeof(hello), MSG_NOSIGNAL) > 0);
	event = near_event(env, TCPX_EVENT_PEER_DOWN); /* not of the first attempt: it said all */
	CHECK_EQ(event.peer.id, peer.id);
	CHECK_EQ(event.status, TCPX_ERR_PROTOCOL);
	close(one);
	close(fd);
}

static void case_disconnect(struct env *env)
{
	tcpx_peer_info info = {.sz = sizeof(info)};
	uint8_t data[64];
	tcpx_segment segment = {.length = 64};
	tcpx_request request, wait;
	tcpx_region remote;
	tcpx_status status;

	segment.local = near_host(env, data, sizeof(data), 0);
	remote = far_buf(env, 0, 64, TCPX_RIGHT_WRITE, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &wait));
	segment.remote = remote;
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				&request));
	OK(tcpx_peer_disconnect(env->session, env->peer));
	EXPECT(near_wait(env, wait, NULL), TCPX_ERR_DISCONNECTED);
	status = tcpx_request_post(env->session, request);
	CHECK_MSG(status == TCPX_ERR_DISCONNECTED || status == TCPX_ERR_STALE, "%s",
		  tcpx_status_name(status));
	status = tcpx_notify_send(env->session, env->peer, "x", 1);
	CHECK_MSG(status == TCPX_ERR_DISCONNECTED || status == TCPX_ERR_STALE, "%s",
		  tcpx_status_name(status));
	if (tcpx_peer_query(env->session, env->peer, &info) == TCPX_OK)
		CHECK_EQ(info.state, TCPX_PEER_DEAD);
	EXPECT(far_event(env, TCPX_EVENT_PEER_DOWN), TCPX_ERR_PEER_CLOSED);
	env_connect(env);
	write_once(env, 9);
	status = tcpx_request_post(env->session, request); /* its peer was another one */
	CHECK(status == TCPX_ERR_DISCONNECTED || status == TCPX_ERR_STALE);
}

/* Who connects to a session that does not want to know is no event, and leaves nothing behind. */
static void case_no_accept(struct env *env)
{
	TCPX_OPTS(tcpx_connect_opts, later, .nonblocking = 1);
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_session_opts opts;
	tcpx_session *guest;
	tcpx_event event = {.sz = sizeof(event)};
	tcpx_peer host, peer;
	uint8_t bytes[2][TCPX_INFO_MAX_BYTES];
	size_t len[2];
	uint16_t port;

	conform_opts(&opts, "host");
	opts.flags |= TCPX_SESSION_NO_ACCEPT;
	OK(tcpx_session_open(&opts, &env->session));
	OK(tcpx_session_listen(env->session, NULL, &port));
	OK(tcpx_session_info(env->session, bytes[0], sizeof(bytes[0]), &len[0]));
	for (int round = 0; round < 2; round++) { /* unknown, then known */
		tcpx_notification note = {.sz = sizeof(note)};

		conform_opts(&opts, round ? "known" : "unknown");
		OK(tcpx_session_open(&opts, &guest));
		OK(tcpx_session_listen(guest, NULL, &port));
		OK(tcpx_session_info(guest, bytes[1], sizeof(bytes[1]), &len[1]));
		OK(tcpx_session_connect(guest, bytes[0], len[0], NULL, &host));
		OK(tcpx_notify_send(guest, host, "x", 1));
		OK(tcpx_notify_take(env->session, LONG_NS, &note));
		peer = note.peer;
		CHECK(!strcmp(note.name, round ? "known" : "unknown"));
		tcpx_notification_release(env->session, &note);
		EXPECT(tcpx_session_accept(env->session, 0, &host), TCPX_IN_PROGRESS);
		if (round) { /* the link that is there */
			OK(tcpx_session_connect(env->session, bytes[1], len[1], &later, &host));
			CHECK_EQ(host.id, peer.id);
		}
		tcpx_session_close(guest);
		if (round) {
			event = near_event(env, TCPX_EVENT_PEER_DOWN);
			CHECK_EQ(event.peer.id, peer.id);
			OK(tcpx_peer_query(env->session, peer, &info));
		} else {
			while (tcpx_peer_query(env->session, peer, &info) != TCPX_ERR_STALE)
				sched_yield();
		}
		EXPECT(tcpx_session_event(env->session, &event), TCPX_IN_PROGRESS);
	}
}

const struct case_row cases_connect[] = {
	{"info_round_trip", case_info_round_trip, CASE_BARE | CASE_ONCE},
	{"info_corrupt", case_info_corrupt, CASE_BARE | CASE_ONCE},
	{"info_wrong_secret", case_info_wrong_secret, CASE_BARE},
	{"info_old_incarnation", case_info_old_incarnation, CASE_BARE},
	{"connect_twice", case_connect_twice, 0},
	{"connect_both", case_connect_both, CASE_BARE},
	{"connect_self", case_connect_self, CASE_BARE},
	{"connect_address", case_connect_address, CASE_BARE},
	{"connect_nonblocking", case_connect_nonblocking, CASE_BARE},
	{"connect_nonblocking_refused", case_connect_nonblocking_refused, CASE_BARE},
	{"connect_few_descriptors", case_connect_few_descriptors, CASE_BARE},
	{"connect_stranger", case_connect_stranger, CASE_BARE | CASE_ONCE},
	{"disconnect", case_disconnect, 0},
	{"no_accept", case_no_accept, CASE_BARE},
	{0},
};
