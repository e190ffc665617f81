/* SPDX-License-Identifier: Apache-2.0 */
/* Events, counters, what a program can ask about. */
#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static void case_events(struct env *env)
{
	tcpx_event event = near_event(env, TCPX_EVENT_PEER_UP);
	tcpx_error error = {.sz = sizeof(error)};

	CHECK_EQ(event.peer.id, env->peer.id);
	OK(far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0));
	event = near_event(env, TCPX_EVENT_PEER_DOWN);
	CHECK_EQ(event.peer.id, env->peer.id);
	CHECK_EQ(event.status, TCPX_ERR_PEER_CLOSED);
	OK(tcpx_peer_error(env->session, env->peer, &error));
	CHECK_EQ(error.status, TCPX_ERR_PEER_CLOSED);
	CHECK(strstr(error.what, "far") && error.next[0]);
	EXPECT(tcpx_session_event(env->session, &event), TCPX_IN_PROGRESS);
}

static tcpx_counters near_counters(struct env *env)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	OK(tcpx_session_counters(env->session, &counters));
	return counters;
}

static void case_counters(struct env *env)
{
	tcpx_segment segment = {.length = 3 * MIB};
	struct far_cmd cmd = {.op = FAR_COUNTERS};
	const tcpx_counters *far;
	struct far_reply reply;
	tcpx_counters before, after;
	tcpx_request wait;
	struct buf buf;

	buf_make(&buf, 3 * MIB, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 3 * MIB, TCPX_RIGHT_WRITE, 0);
	before = near_counters(env);
	CHECK_EQ(before.peers_up, 1);
	CHECK_EQ(before.peers_lost, 0);
	CHECK_EQ(before.regions, 1);
	CHECK_EQ(before.requests_active, 0);
	for (int i = 0; i < 5; i++)
		OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
	EXPECT(near_run(env, TCPX_OP_READ, &segment, 1, NULL), TCPX_ERR_REMOTE_RIGHTS);
	OK(tcpx_notify_send(env->session, env->peer, "count", 5));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &wait));
	after = near_counters(env);
	CHECK_EQ(after.requests_active, 1);
	EXPECT(tcpx_request_cancel_wait(env->session, wait, LONG_NS), TCPX_ERR_CANCELLED);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	after = near_counters(env);
	CHECK_EQ(after.requests_active, 0);
	CHECK_EQ(after.requests_posted - before.requests_posted, 7);
	CHECK_EQ(after.requests_done - before.requests_done, 5);
	CHECK_EQ(after.requests_failed - before.requests_failed, 2);
	CHECK_EQ(after.notifications_sent - before.notifications_sent, 1);
	CHECK(after.tx_bytes - before.tx_bytes >= 15 * MIB);
	CHECK(after.tx_chunks > before.tx_chunks);
	OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS}, NULL));
	OK(far_call(env, &cmd, &reply));
	far = (const void *)reply.data;
	CHECK(conform_direct() || far->rx_bytes >= 15 * MIB);
	CHECK_EQ(far->notifications_received, 1);
	CHECK_EQ(far->remote_rejects, 1);
	CHECK(far->accepted >= 1);
	CHECK_EQ(far->protocol_errors, 0);
	CHECK_EQ(far->auth_failures, 0);
}

/* Names, texts, features, options: what needs no peer. */
static void case_queries(struct env *env)
{
	tcpx_feature feature = {.sz = sizeof(feature)};
	tcpx_option option = {.sz = sizeof(option)};
	const char *nearest;
	uint64_t bytes;
	char name[64];
	uint32_t n;

	(void)env;
	CHECK_STR(tcpx_version(), "0.1.0");
	CHECK_STR(tcpx_status_name(TCPX_ERR_TIMED_OUT), "ERR_TIMED_OUT");
	CHECK_STR(tcpx_status_text((tcpx_status)-1000), "unknown status");
	CHECK(tcpx_status_next(TCPX_ERR_AUTH)[0] && tcpx_status_next((tcpx_status)55));
	for (n = 0; tcpx_feature_get(n, &feature) == TCPX_OK; n++)
		CHECK(feature.name[0] && feature.reason);
	CHECK(n >= 3);
	EXPECT(tcpx_feature_get(n, &feature), TCPX_ERR_NOT_FOUND);
	for (n = 0; tcpx_option_get(n, &option) == TCPX_OK; n++)
		CHECK(strncmp(option.name, "TCPX_", 5) == 0 && option.help[0] && option.alias &&
		      option.range && option.default_text && option.type[0]);
	CHECK(n >= 5);
	EXPECT(tcpx_option_get(n, &option), TCPX_ERR_NOT_FOUND);
	for (n = 0; tcpx_option_unknown(n, name, sizeof(name), &nearest) == TCPX_OK; n++)
		CHECK(name[0] && nearest);
	OK(tcpx_parse_bytes("64K", &bytes));
	CHECK_EQ(bytes, 65536);
	OK(tcpx_parse_bytes("1.5MiB", &bytes));
	CHECK_EQ(bytes, 1572864);
	EXPECT(tcpx_parse_bytes("", &bytes), TCPX_ERR_INVALID);
	EXPECT(tcpx_parse_bytes("12Q", &bytes), TCPX_ERR_INVALID);
	EXPECT(tcpx_parse_bytes("-1", &bytes), TCPX_ERR_INVALID);
	EXPECT(tcpx_parse_bytes("99999999999999999999", &bytes), TCPX_ERR_INVALID);
	CHECK_STR(tcpx_session_trust(env->session), "loopback");
}

const struct case_row cases_loop[] = {
	{"events", case_events, 0},
	{"counters", case_counters, 0},
	{"queries", case_queries, CASE_ONCE},
	{0},
};
