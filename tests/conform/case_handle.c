/* SPDX-License-Identifier: Apache-2.0 */
/* Stale handles of all kinds, option and output structs of other sizes, wrong call order. */
#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static void stale_peer(struct env *env, tcpx_peer peer, const tcpx_segment *good)
{
	uint8_t token[TCPX_TOKEN_BYTES];
	tcpx_peer_info info = {.sz = sizeof(info)};
	tcpx_transfer *transfer = NULL;
	tcpx_request request;
	tcpx_region region;
	tcpx_error error = {.sz = sizeof(error)};

	far_token(env, 0, RW, 0, token);
	EXPECT(tcpx_peer_disconnect(env->session, peer), TCPX_ERR_STALE);
	EXPECT(tcpx_peer_flush(env->session, peer, 0), TCPX_ERR_STALE);
	EXPECT(tcpx_peer_query(env->session, peer, &info), TCPX_ERR_STALE);
	EXPECT(tcpx_peer_error(env->session, peer, &error), TCPX_ERR_STALE);
	EXPECT(tcpx_notify_send(env->session, peer, "x", 1), TCPX_ERR_STALE);
	EXPECT(tcpx_region_import(env->session, peer, token, sizeof(token), &region),
	       TCPX_ERR_STALE);
	EXPECT(tcpx_request_prepare(env->session, peer, TCPX_OP_WRITE, good, 1, NULL, &request),
	       TCPX_ERR_STALE);
	EXPECT(tcpx_request_start(env->session, peer, TCPX_OP_RECV, good, 1, NULL, &request),
	       TCPX_ERR_STALE);
	EXPECT(tcpx_transfer_create(env->session, peer, &transfer), TCPX_ERR_STALE);
	CHECK(!transfer);
}

static void stale_request(struct env *env, tcpx_request request)
{
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_status posted;
	tcpx_error error = {.sz = sizeof(error)};

	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_STALE);
	EXPECT(tcpx_request_test(env->session, request, &done), TCPX_ERR_STALE);
	EXPECT(tcpx_request_wait(env->session, request, SEC, &done), TCPX_ERR_STALE);
	EXPECT(tcpx_request_post_many(env->session, &request, 1, &posted), TCPX_ERR_STALE);
	EXPECT(posted, TCPX_ERR_STALE);
	EXPECT(tcpx_request_cancel(env->session, request), TCPX_ERR_STALE);
	EXPECT(tcpx_request_cancel_wait(env->session, request, SEC), TCPX_ERR_STALE);
	EXPECT(tcpx_request_error(env->session, request, &error), TCPX_ERR_STALE);
	EXPECT(tcpx_request_release(env->session, request), TCPX_ERR_STALE);
}

/* A number that is no handle of ours, or one of another kind. */
static void not_usable(struct env *env, const tcpx_segment *segment)
{
	tcpx_request request;
	tcpx_status status = tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, segment,
						  1, NULL, &request);

	CHECK_MSG(status == TCPX_ERR_STALE || status == TCPX_ERR_INVALID, "%s",
		  tcpx_status_name(status));
}

static void case_stale(struct env *env)
{
	static const uint64_t ids[] = {
		0, 1, 77, UINT32_MAX, 1ull << 32, UINT64_MAX, 0x123456789abcdefULL};
	uint8_t data[64], token[TCPX_TOKEN_BYTES];
	tcpx_segment good = {.length = 64};
	tcpx_request request, next;
	tcpx_region gone;

	good.local = near_host(env, data, 64, RW);
	good.remote = far_buf(env, 0, 64, RW, 0);
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		tcpx_segment bad = good;

		if (ids[i] != env->peer.id)
			stale_peer(env, (tcpx_peer){ids[i]}, &good);
		stale_request(env, (tcpx_request){ids[i]});
		if (ids[i] == good.local.id || ids[i] == good.remote.id)
			continue;
		EXPECT(tcpx_region_deregister(env->session, (tcpx_region){ids[i]}, 0),
		       TCPX_ERR_STALE);
		CHECK(tcpx_region_export(env->session, (tcpx_region){ids[i]}, token) < 0);
		bad.local.id = ids[i];
		not_usable(env, &bad);
		bad = good;
		bad.remote.id = ids[i];
		not_usable(env, &bad);
	}
	/* A released handle stays stale when its slot is used again. */
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &good, 1, NULL, &request));
	OK(tcpx_request_release(env->session, request));
	for (int i = 0; i < 100; i++) {
		OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &good, 1, NULL,
					&next));
		CHECK(next.id != request.id);
		OK(tcpx_request_release(env->session, next));
	}
	stale_request(env, request);
	gone = near_host(env, data, 64, 0);
	OK(tcpx_region_deregister(env->session, gone, 0));
	CHECK(near_host(env, data, 64, 0).id != gone.id);
	EXPECT(tcpx_region_export(env->session, gone, token), TCPX_ERR_STALE);
	OK(near_run(env, TCPX_OP_WRITE, &good, 1, NULL));
}

/* Bytes of an option struct, and calls it with three wrong sizes and one that is only newer. */
struct sized {
	size_t sz;
	uint8_t rest[1024];
};

static struct sized sized_of(const void *opts, size_t sz, size_t as, uint8_t tail)
{
	struct sized s = {0};

	memcpy(&s, opts, sz);
	s.sz = as;
	if (tail)
		((uint8_t *)&s)[sz] = tail;
	return s;
}

#define SIZES(opts, call)                                                                          \
	do {                                                                                       \
		struct sized s = sized_of(&(opts), sizeof(opts), 0, 0);                            \
		EXPECT(call, TCPX_ERR_INVALID);                                                    \
		s = sized_of(&(opts), sizeof(opts), 4, 0);                                         \
		EXPECT(call, TCPX_ERR_INVALID);                                                    \
		s = sized_of(&(opts), sizeof(opts), sizeof(opts) + 16, 1);                         \
		EXPECT(call, TCPX_ERR_INVALID);                                                    \
		s = sized_of(&(opts), sizeof(opts), sizeof(opts) + 16, 0);                         \
		OK(call);                                                                          \
	} while (0)

static void case_option_sizes(struct env *env)
{
	TCPX_OPTS(tcpx_listen_opts, listen, .port = 0);
	TCPX_OPTS(tcpx_connect_opts, connect, .timeout_ns = 20 * SEC);
	TCPX_OPTS(tcpx_region_opts, region, .rights = 0);
	TCPX_OPTS(tcpx_request_opts, request, .priority = 0);
	tcpx_session_opts session;
	tcpx_session *opened;
	tcpx_segment segment = {.length = 8};
	tcpx_request made;
	static uint8_t data[8]; /* the last request may outlive this function */
	tcpx_region local;
	uint16_t port;

	env_far(env, NULL); /* before there are threads: it may fork */
	conform_opts(&session, "near");
	SIZES(session, tcpx_session_open((void *)&s, &opened));
	env->session = opened;
	SIZES(listen, tcpx_session_listen(opened, (void *)&s, &port));
	SIZES(connect,
	      tcpx_session_connect(opened, env->info, env->info_len, (void *)&s, &env->peer));
	SIZES(region, tcpx_region_register(opened, data, 8, (void *)&s, &local));
	segment.local = local;
	segment.remote = far_buf(env, 0, 8, RW, 0);
	SIZES(request, tcpx_request_prepare(opened, env->peer, TCPX_OP_WRITE, &segment, 1,
					    (void *)&s, &made));
	SIZES(request,
	      tcpx_request_start(opened, env->peer, TCPX_OP_WRITE, &segment, 1, (void *)&s, &made));
}

/* Calls it with sizes that no version has, which must leave everything as it is, then with one that
 * is only newer: its tail is zeroed, and the size stays. */
#define OUT_SIZES(type, call)                                                                      \
	do {                                                                                       \
		struct {                                                                           \
			type o;                                                                    \
			uint8_t more[24];                                                          \
		} out = {.o.sz = 0};                                                               \
		static const size_t wrong[] = {0, sizeof(size_t), 65537, SIZE_MAX};                \
		static const uint8_t zero[24];                                                     \
		for (int i = 0; i < 4; i++) {                                                      \
			out.o.sz = wrong[i];                                                       \
			EXPECT(call, TCPX_ERR_INVALID);                                            \
			CHECK(strstr(tcpx_last_error()->what, #type ".sz is "));                   \
			CHECK(strstr(tcpx_last_error()->next, "sizeof(" #type ")"));               \
		}                                                                                  \
		out.o.sz = sizeof(out);                                                            \
		memset(out.more, 9, sizeof(out.more));                                             \
		OK(call);                                                                          \
		CHECK_EQ(out.o.sz, sizeof(out));                                                   \
		CHECK(!memcmp(out.more, zero, sizeof(zero)));                                      \
	} while (0)

/* What a call takes from a queue is still there after it was refused. */
static void case_taken_sizes(struct env *env)
{
	tcpx_segment segment = {.length = 64};
	tcpx_request request;
	struct buf buf;

	buf_make(&buf, 64, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 64, RW, 0);
	OUT_SIZES(tcpx_event, tcpx_session_event(env->session, &out.o));
	OK(far_simple(env, FAR_NOTIFY_SEND, 0, 100, 5, 0, 0));
	OK(tcpx_session_wait(env->session, LONG_NS));
	OUT_SIZES(tcpx_notification, tcpx_notify_take(env->session, 0, &out.o));
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL, &request));
	OUT_SIZES(tcpx_completion, tcpx_request_wait(env->session, request, LONG_NS, &out.o));
	OUT_SIZES(tcpx_completion, tcpx_request_test(env->session, request, &out.o));
	OUT_SIZES(tcpx_error, tcpx_request_error(env->session, request, &out.o));
	OK(tcpx_request_release(env->session, request));
	OUT_SIZES(tcpx_error, tcpx_peer_error(env->session, env->peer, &out.o));
	buf_free(&buf);
}

static void case_output_sizes(struct env *env)
{
	struct {
		tcpx_counters c;
		uint8_t more[16];
	} newer = {.c.sz = sizeof(newer)}, older = {.c.sz = offsetof(tcpx_counters, peers_failed)};
	struct {
		tcpx_peer_info i;
		uint8_t more[16];
	} info = {.i.sz = sizeof(info)}, none = {.i.sz = 0};

	memset(newer.more, 9, sizeof(newer.more));
	memset(&older.c.peers_failed, 7, sizeof(older.c.peers_failed));
	OK(tcpx_session_counters(env->session, &newer.c));
	CHECK_EQ(newer.c.peers_up, 1);
	OK(tcpx_session_counters(env->session, &older.c)); /* fills what the caller knows */
	CHECK_EQ(byte_check(&older.c.peers_failed, sizeof(older.c.peers_failed), 7), -1);
	CHECK_EQ(older.c.peers_up, 1);
	older.c.sz--; /* no version is that small */
	EXPECT(tcpx_session_counters(env->session, &older.c), TCPX_ERR_INVALID);
	none.i.sz = 0;
	EXPECT(tcpx_peer_query(env->session, env->peer, &none.i), TCPX_ERR_INVALID);
	OK(tcpx_peer_query(env->session, env->peer, &info.i));
	older.c.sz = 0;
	EXPECT(tcpx_session_counters(env->session, &older.c), TCPX_ERR_INVALID);
	OUT_SIZES(tcpx_counters, tcpx_session_counters(env->session, &out.o));
	OUT_SIZES(tcpx_peer_info, tcpx_peer_query(env->session, env->peer, &out.o));
	OUT_SIZES(tcpx_channel_info, tcpx_channel_query(env->session, env->peer, 0, &out.o));
	OUT_SIZES(tcpx_feature, tcpx_feature_get(0, &out.o));
	OUT_SIZES(tcpx_option, tcpx_option_get(0, &out.o));
	CHECK_EQ(tcpx_last_error()->sz, sizeof(tcpx_error));
}

/* NULL where something is needed. */
static void case_null_arguments(struct env *env)
{
	tcpx_request request;
	tcpx_session *none;
	tcpx_peer peer;
	tcpx_segment segment = {0};
	tcpx_notification note = {.sz = sizeof(note)};

	EXPECT(tcpx_session_open(NULL, NULL), TCPX_ERR_INVALID);
	OK(tcpx_session_open(NULL, &none));
	EXPECT(tcpx_session_accept(none, 0, &peer), TCPX_ERR_STATE);
	tcpx_session_close(none);
	EXPECT(tcpx_session_listen(NULL, NULL, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_connect_to(env->session, NULL, NULL, &peer), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_accept(env->session, 0, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_event(env->session, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_session_counters(env->session, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_request_start(env->session, env->peer, TCPX_OP_SEND, NULL, 0, NULL, NULL),
	       TCPX_ERR_INVALID);
	EXPECT(tcpx_notify_take(env->session, 0, NULL), TCPX_ERR_INVALID);
	EXPECT(tcpx_notify_take(env->session, 0, &note), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_prepare(NULL, env->peer, TCPX_OP_SEND, NULL, 0, NULL, &request),
	       TCPX_ERR_INVALID);
	tcpx_session_close(NULL);
	CHECK_EQ(tcpx_session_fd(NULL), -1);
	EXPECT(tcpx_transfer_post(NULL, TCPX_OP_SEND, &segment), TCPX_ERR_INVALID);
	EXPECT(tcpx_transfer_wait(NULL, 0), TCPX_ERR_INVALID);
	CHECK_EQ(tcpx_transfer_is_complete(NULL), 0);
	CHECK_EQ(tcpx_transfer_completed(NULL), 0);
	CHECK_EQ(tcpx_transfer_total(NULL), 0);
	tcpx_transfer_release(NULL);
}

const struct case_row cases_handle[] = {
	{"stale", case_stale, 0},
	{"option_sizes", case_option_sizes, CASE_BARE},
	{"output_sizes", case_output_sizes, CASE_ONCE},
	{"taken_sizes", case_taken_sizes, CASE_ONCE},
	{"null_arguments", case_null_arguments, CASE_ONCE},
	{0},
};
