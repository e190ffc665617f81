/* SPDX-License-Identifier: Apache-2.0 */
/* Posts to a peer that still connects: they go with the link, or end with it. */
#include <string.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)
#define BYTES (300 * KIB)

/* A near session whose peer is looked up and stays so. */
static void connecting(struct env *env, const char *who)
{
	TCPX_OPTS(tcpx_connect_opts, opts, .nonblocking = 1, .timeout_ns = LONG_NS);
	tcpx_session_opts near;
	char target[32];

	lookup_hold();
	conform_opts(&near, "near");
	OK(tcpx_session_open(&near, &env->session));
	snprintf(target, sizeof(target), "%s:%u", who, env->far_port ? env->far_port : 1u);
	OK(tcpx_session_connect_to(env->session, target, &opts, &env->peer));
}

static void accepted(struct env *env)
{
	lookup_answer();
	OK(far_simple(env, FAR_ACCEPT, 0, (uint64_t)LONG_NS, 0, 0, 0));
}

/* Those that were sent alone in their order; that of the WRITE, and the empty one, at any time. */
static void take_four(struct env *env)
{
	const struct far_take what = {.timeout_ns = LONG_NS};
	uint32_t came = 0;

	for (int i = 0; i < 4; i++) {
		struct far_cmd cmd = {.op = FAR_NOTIFY_TAKE};
		struct far_reply reply;
		uint32_t which = 0;

		memcpy(cmd.data, &what, sizeof(what));
		OK(far_call(env, &cmd, &reply));
		CHECK(reply.len == 16 || reply.len == 5 || !reply.len);
		for (uint32_t seed = 1; reply.len && seed <= 3; seed++)
			if (pat_check(reply.data, reply.len, seed, 0) == -1)
				which = seed;
		CHECK(!reply.len || which);
		CHECK(which != 2 || (reply.len == 5 && came & 1u << 1));
		came |= 1u << which;
	}
	CHECK_EQ(came, 0xf);
}

/* Everything posted early is done as if it were posted later, each queue in its order. */
static void case_early_done(struct env *env)
{
	uint8_t word[16];
	TCPX_OPTS(tcpx_request_opts, notify, .notify = word, .notify_bytes = sizeof(word));
	tcpx_segment segment = {.length = BYTES};
	tcpx_request write, read, alone;
	tcpx_completion completion = {.sz = sizeof(completion)};
	struct buf source, sink;

	env_far(env, NULL);
	connecting(env, "far-away");
	buf_make(&source, BYTES, 3);
	buf_make(&sink, BYTES, 5);
	buf_fill(&source, 0, BYTES, 7, 0);
	segment.remote = far_buf(env, 0, BYTES, TCPX_RIGHT_WRITE, 1);
	segment.local = near_register(env, &source, 0);
	pat_fill(word, sizeof(word), 1, 0);
	OK(tcpx_notify_send(env->session, env->peer, word, sizeof(word)));
	pat_fill(word, sizeof(word), 2, 0);
	OK(tcpx_notify_send(env->session, env->peer, word, 5));
	pat_fill(word, sizeof(word), 3, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &notify,
			      &write));
	EXPECT(tcpx_request_post(env->session, write), TCPX_ERR_STATE); /* active */
	segment.local = near_register(env, &sink, 0);
	segment.remote = far_buf(env, 1, BYTES, TCPX_RIGHT_READ, 2);
	far_fill(env, 1, 0, BYTES, 9, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &segment, 1, NULL, &read));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_NOTIFY, NULL, 0, NULL, &alone));
	EXPECT(tcpx_request_test(env->session, write, NULL), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_wait(env->session, read, 1, NULL), TCPX_IN_PROGRESS);
	EXPECT(tcpx_peer_flush(env->session, env->peer, 1), TCPX_IN_PROGRESS);
	accepted(env);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	OK(tcpx_request_test(env->session, write, &completion));
	CHECK_EQ(completion.bytes, BYTES);
	OK(tcpx_request_test(env->session, read, NULL));
	OK(tcpx_request_test(env->session, alone, NULL));
	take_four(env);
	CHECK_EQ(far_pattern(env, 0, 0, BYTES, 7, 0), -1);
	CHECK(far_slack(env, 0));
	CHECK_EQ(buf_check(&sink, 0, BYTES, 9, 0), -1);
	CHECK(buf_slack_whole(&sink));
	buf_fill(&source, 0, BYTES, 8, 0);
	OK(tcpx_request_post(env->session, write)); /* again, the usual way */
	OK(near_wait(env, write, NULL));
	CHECK_EQ(far_pattern(env, 0, 0, BYTES, 8, 0), -1);
}

/* Each way to end before the link is there; a posted one ends with the peer. */
static void case_early_ends(struct env *env)
{
	TCPX_OPTS(tcpx_request_opts, soon, .deadline_ns = 5 * MS);
	tcpx_segment segment = {.length = 64}, other = {.length = 64};
	tcpx_request cancelled, released, late, lost, dead;
	tcpx_completion completion = {.sz = sizeof(completion)};
	tcpx_error error = {.sz = sizeof(error)};
	uint8_t data[2][64];

	connecting(env, "nobody");
	segment.local = near_host(env, data[0], sizeof(data[0]), 0);
	other.local = near_host(env, data[1], sizeof(data[1]), 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, NULL,
			      &cancelled));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &released));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, &soon, &late));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &other, 1, NULL, &lost));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, NULL, &dead));
	OK(tcpx_notify_send(env->session, env->peer, data, sizeof(data)));
	EXPECT(near_wait(env, late, NULL), TCPX_ERR_TIMED_OUT);
	EXPECT(tcpx_request_cancel_wait(env->session, cancelled, LONG_NS), TCPX_ERR_CANCELLED);
	OK(tcpx_request_release(env->session, released));
	EXPECT(tcpx_request_test(env->session, released, NULL), TCPX_ERR_STALE);
	OK(tcpx_region_deregister(env->session, other.local, LONG_NS));
	EXPECT(near_wait(env, lost, NULL), TCPX_ERR_DEREGISTERED);
	EXPECT(tcpx_request_test(env->session, dead, NULL), TCPX_IN_PROGRESS);
	lookup_answer();
	EXPECT(near_wait(env, dead, &completion), TCPX_ERR_NOT_FOUND);
	CHECK_EQ(completion.bytes, 0);
	OK(tcpx_request_error(env->session, dead, &error));
	CHECK_EQ(error.status, TCPX_ERR_NOT_FOUND);
	EXPECT(tcpx_request_post(env->session, cancelled), TCPX_ERR_NOT_FOUND);
	EXPECT(tcpx_notify_send(env->session, env->peer, data, 1), TCPX_ERR_NOT_FOUND);
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
}

/* Notifications that the peer has no room for yet follow as it takes others. */
static void case_early_notes_wait(struct env *env)
{
	struct env_tune far = {.notify_budget = 64 * KIB};
	uint8_t *data = malloc(40 * KIB);
	uint64_t bytes;

	CHECK(data);
	env_far(env, &far);
	connecting(env, "far-away");
	for (uint64_t seed = 1; seed <= 2; seed++) {
		pat_fill(data, 40 * KIB, seed, 0);
		OK(tcpx_notify_send(env->session, env->peer, data, 40 * KIB));
	}
	accepted(env);
	pat_fill(data, 8, 3, 0);
	OK(tcpx_notify_send(env->session, env->peer, data,
			    8)); /* there is a link: not before them */
	for (uint64_t seed = 1; seed <= 3; seed++) {
		OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS, .seed = seed}, &bytes));
		CHECK_EQ(bytes, seed == 3 ? 8 : 40 * KIB);
	}
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	free(data);
}

/* A notification that exceeds the peer's whole budget is dropped, and those after it arrive. */
static void case_early_note_too_large(struct env *env)
{
	struct env_tune far = {.notify_budget = 64 * KIB};
	uint8_t *data = calloc(1, 100 * KIB);
	uint64_t bytes;

	CHECK(data);
	env_far(env, &far);
	connecting(env, "far-away");
	OK(tcpx_notify_send(env->session, env->peer, data, 100 * KIB));
	pat_fill(data, 8, 3, 0);
	OK(tcpx_notify_send(env->session, env->peer, data, 8));
	accepted(env);
	OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS, .seed = 3}, &bytes));
	CHECK_EQ(bytes, 8);
	EXPECT(tcpx_notify_send(env->session, env->peer, data, 100 * KIB), TCPX_ERR_LIMIT);
	free(data);
}

/* The session goes while all of it waits. */
static void case_early_closed(struct env *env)
{
	tcpx_segment segment = {.length = 64};
	tcpx_request request;
	uint8_t data[64];

	connecting(env, "nobody");
	segment.local = near_host(env, data, sizeof(data), 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, &segment, 1, NULL, &request));
	OK(tcpx_notify_send(env->session, env->peer, data, sizeof(data)));
	tcpx_session_close(env->session);
	env->session = NULL;
	lookup_answer();
}

const struct case_row cases_early[] = {
	{"early_done", case_early_done, CASE_BARE},
	{"early_ends", case_early_ends, CASE_BARE},
	{"early_notes_wait", case_early_notes_wait, CASE_BARE},
	{"early_note_too_large", case_early_note_too_large, CASE_BARE},
	{"early_closed", case_early_closed, CASE_BARE},
	{0},
};
