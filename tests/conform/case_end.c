/* SPDX-License-Identifier: Apache-2.0 */
/* How requests end: flush, deadlines, cancel in both forms, quiet memory afterwards. */
#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

struct pair {
	struct buf buf;
	tcpx_segment segment;
};

static void pair_make(struct env *env, struct pair *pair, uint64_t size)
{
	buf_make(&pair->buf, size, 0);
	pair->segment = (tcpx_segment){.length = size};
	pair->segment.local = near_register(env, &pair->buf, 0);
	pair->segment.remote = far_buf(env, 0, size, RW, 0);
}

static tcpx_request start(struct env *env, enum tcpx_op op, const tcpx_segment *segment,
			  int64_t deadline_ns)
{
	TCPX_OPTS(tcpx_request_opts, opts, .deadline_ns = deadline_ns);
	tcpx_request request;

	OK(tcpx_request_start(env->session, env->peer, op, segment, 1, &opts, &request));
	return request;
}

static void case_flush(struct env *env)
{
	enum { COUNT = 32 };
	tcpx_request request[COUNT], wait;
	struct pair pair;

	pair_make(env, &pair, COUNT * 50000);
	pair.segment.length = 50000;
	OK(tcpx_peer_flush(env->session, env->peer, 0)); /* nothing posted */
	for (int i = 0; i < COUNT; i++) {
		pair.segment.local_offset = pair.segment.remote_offset = (uint64_t)i * 50000;
		request[i] = start(env, i % 2 ? TCPX_OP_WRITE : TCPX_OP_READ, &pair.segment, 0);
	}
	OK(tcpx_notify_send(env->session, env->peer, "x", 1));
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	for (int i = 0; i < COUNT; i++)
		OK(tcpx_request_test(env->session, request[i], NULL));
	wait = start(env, TCPX_OP_RECV, &pair.segment, 0);
	EXPECT(tcpx_peer_flush(env->session, env->peer, 20 * MS), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_cancel_wait(env->session, wait, LONG_NS), TCPX_ERR_CANCELLED);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
}

static void case_deadline(struct env *env)
{
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_request request;
	tcpx_error error = {.sz = sizeof(error)};
	struct pair pair;

	pair_make(env, &pair, MIB);
	buf_fill(&pair.buf, 0, MIB, 1, 0);
	/* nobody sends, nobody receives */
	request = start(env, TCPX_OP_RECV, &pair.segment, 30 * MS);
	EXPECT(near_wait(env, request, &done), TCPX_ERR_TIMED_OUT);
	CHECK_EQ(done.status, TCPX_ERR_TIMED_OUT);
	OK(tcpx_request_error(env->session, request, &error));
	CHECK_EQ(error.status, TCPX_ERR_TIMED_OUT);
	OK(tcpx_request_post(env->session, request)); /* the deadline counts from each post */
	EXPECT(near_wait(env, request, &done), TCPX_ERR_TIMED_OUT);
	OK(tcpx_request_release(env->session, request));
	request = start(env, TCPX_OP_SEND, &pair.segment, 30 * MS);
	EXPECT(near_wait(env, request, &done), TCPX_ERR_TIMED_OUT);
	OK(tcpx_request_release(env->session, request));
	/* a long one does no harm */
	request = start(env, TCPX_OP_WRITE, &pair.segment, 90 * SEC);
	OK(near_wait(env, request, &done));
	CHECK_EQ(far_pattern(env, 0, 0, MIB, 1, 0), -1);
	OK(tcpx_request_release(env->session, request));
}

/* A deadline no transfer can meet: it ends, one way or the other, and the memory is quiet. */
static void case_deadline_short(struct env *env)
{
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	struct pair pair;
	int late = 0;

	pair_make(env, &pair, size);
	for (int i = 0; i < 20; i++) {
		tcpx_request request = start(env, TCPX_OP_READ, &pair.segment, 1 + i * 100000);
		tcpx_status status = near_wait(env, request, NULL);

		CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_TIMED_OUT, "%s",
			  tcpx_status_name(status));
		late += status != TCPX_OK;
		buf_poison(&pair.buf);
		OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
		CHECK_EQ(buf_bytes(&pair.buf, 0, size, POISON), -1);
		OK(tcpx_request_release(env->session, request));
	}
	CHECK(config.light || late > 0);
}

static void case_cancel_states(struct env *env)
{
	tcpx_request request;
	struct pair pair;
	tcpx_completion done = {.sz = sizeof(done)};

	pair_make(env, &pair, 1000);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_RECV, &pair.segment, 1, NULL,
				&request));
	EXPECT(tcpx_request_cancel(env->session, request), TCPX_ERR_STATE);
	EXPECT(tcpx_request_cancel_wait(env->session, request, SEC), TCPX_ERR_STATE);
	EXPECT(tcpx_request_wait(env->session, request, 0, NULL), TCPX_ERR_STATE);
	OK(tcpx_request_post(env->session, request));
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_STATE);
	EXPECT(tcpx_request_wait(env->session, request, 0, NULL), TCPX_IN_PROGRESS);
	EXPECT(tcpx_request_wait(env->session, request, 20 * MS, NULL), TCPX_IN_PROGRESS);
	OK(tcpx_request_cancel(env->session, request));
	EXPECT(near_wait(env, request, &done), TCPX_ERR_CANCELLED);
	CHECK_EQ(done.bytes, 0);
	EXPECT(tcpx_request_test(env->session, request, NULL), TCPX_ERR_CANCELLED); /* sticky */
	EXPECT(tcpx_request_cancel(env->session, request), TCPX_ERR_STATE);
	OK(tcpx_request_post(env->session, request)); /* final: it may be posted again */
	EXPECT(tcpx_request_cancel_wait(env->session, request, LONG_NS), TCPX_ERR_CANCELLED);
	OK(tcpx_request_release(env->session, request));
}

/* Cancels in the middle of a READ. After the end the caller's memory is his: nothing may land. */
static void case_cancel_read_quiet(struct env *env)
{
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	int cancelled = 0, rounds = config.light ? 20 : 60;
	struct pair pair;

	pair_make(env, &pair, size);
	for (int i = 0; i < rounds; i++) {
		tcpx_request request = start(env, TCPX_OP_READ, &pair.segment, 0);
		tcpx_status status;

		for (volatile int spin = i * 2000; spin > 0; spin--)
			;
		if (i % 2) {
			status = tcpx_request_cancel_wait(env->session, request, LONG_NS);
		} else {
			status = tcpx_request_cancel(env->session, request);
			CHECK(status == TCPX_OK || status == TCPX_ERR_STATE);
			status = near_wait(env, request, NULL);
		}
		CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_CANCELLED ||
				  status == TCPX_ERR_STATE,
			  "%s", tcpx_status_name(status));
		cancelled += status == TCPX_ERR_CANCELLED;
		buf_poison(&pair.buf);
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
		OK(far_simple(env, FAR_FLUSH, 0, (uint64_t)LONG_NS, 0, 0, 0));
		CHECK_EQ(buf_bytes(&pair.buf, 0, size, POISON), -1);
	}
	CHECK(config.light || cancelled > 0);
}

/* Starts a WRITE, cancels it after a while and poisons its source. True when it was cancelled. */
static bool cancel_write(struct env *env, struct pair *pair, int round)
{
	tcpx_request request;
	tcpx_status status;

	buf_fill(&pair->buf, 0, pair->segment.length, 1, 0); /* what is there already */
	request = start(env, TCPX_OP_WRITE, &pair->segment, 0);
	for (volatile int spin = round * 2000; spin > 0; spin--)
		;
	status = tcpx_request_cancel_wait(env->session, request, LONG_NS);
	CHECK_MSG(status == TCPX_OK || status == TCPX_ERR_CANCELLED || status == TCPX_ERR_STATE,
		  "%s", tcpx_status_name(status));
	buf_set(&pair->buf, 0, pair->segment.length, POISON);
	OK(tcpx_request_release(env->session, request));
	return status == TCPX_ERR_CANCELLED;
}

/* Cancels in the middle of a WRITE. After the end the source is not read: what is put there then
 * never shows up at the target. Bytes read before may still land there, so another WRITE follows on
 * the only bulk channel: once that is acknowledged, everything before it is through. */
static void case_cancel_write_quiet(struct env *env)
{
	struct env_tune one = {.channels = 1};
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	int cancelled = 0, rounds = config.light ? 20 : 60;
	tcpx_segment next = {.length = 64 * KIB};
	struct buf behind;
	struct pair pair;

	env_open_tuned(env, &one, &one);
	pair_make(env, &pair, size);
	far_fill(env, 0, 0, size, 1, 0);
	buf_make(&behind, next.length, 0);
	next.local = near_register(env, &behind, 0);
	next.remote = far_buf(env, 1, next.length, RW, 0);
	for (int i = 0; i < rounds; i++) {
		cancelled += cancel_write(env, &pair, i);
		OK(near_run(env, TCPX_OP_WRITE, &next, 1, NULL));
		CHECK_MSG(far_run(env, 0, size) < 16, "the source was read after the end");
	}
	CHECK(config.light || cancelled > 0);
}

/* The same over several channels; there only the owner can say when nothing lands any more. */
static void case_cancel_write_spread(struct env *env)
{
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	int rounds = config.light ? 10 : 30;
	struct pair pair;

	pair_make(env, &pair, size);
	for (int i = 0; i < rounds; i++) {
		far_fill(env, 0, 0, size, 1, 0);
		(void)cancel_write(env, &pair, i);
		OK(far_simple(env, FAR_DEREG, 0, (uint64_t)LONG_NS, 0, 0, 0));
		CHECK_MSG(far_run(env, 0, size) < 16, "the source was read after the end");
		far_fill(env, 0, 0, size, 2, 0);
		EXPECT(near_run(env, TCPX_OP_WRITE, &pair.segment, 1, NULL), TCPX_ERR_REMOTE_KEY);
		CHECK_EQ(far_pattern(env, 0, 0, size, 2, 0), -1);
		OK(tcpx_region_deregister(env->session, pair.segment.remote, LONG_NS));
		pair.segment.remote = far_buf(env, 0, size, RW, 0);
	}
}

/* The strict form: when a cancelled WRITE ended, nothing of it lands at the target any more. */
static void case_cancel_strict(struct env *env)
{
	struct env_tune near = {.flags = TCPX_SESSION_STRICT_CANCEL};
	uint64_t size = config.light ? 2 * MIB : 16 * MIB;
	struct pair pair;

	env_open_tuned(env, &near, NULL);
	pair_make(env, &pair, size);
	buf_fill(&pair.buf, 0, size, 1, 0);
	for (int i = 0; i < 20; i++) {
		tcpx_request request = start(env, TCPX_OP_WRITE, &pair.segment, 0);
		tcpx_status status = tcpx_request_cancel_wait(env->session, request, LONG_NS);

		CHECK(status == TCPX_OK || status == TCPX_ERR_CANCELLED ||
		      status == TCPX_ERR_STATE);
		far_fill(env, 0, 0, size, 2, 0);
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
		OK(far_simple(env, FAR_FLUSH, 0, (uint64_t)LONG_NS, 0, 0, 0));
		CHECK_EQ(far_pattern(env, 0, 0, size, 2, 0), -1);
	}
}

/* Cancel of one does not touch the others. */
static void case_cancel_among(struct env *env)
{
	enum { COUNT = 16 };
	tcpx_request request[COUNT];
	uint64_t size = MIB;
	struct pair pair;

	pair_make(env, &pair, COUNT * size);
	buf_fill(&pair.buf, 0, pair.buf.size, 1, 0);
	for (uint64_t i = 0; i < COUNT; i++) {
		tcpx_segment segment = pair.segment;

		segment.local_offset = segment.remote_offset = i * size;
		segment.length = size;
		request[i] = start(env, TCPX_OP_WRITE, &segment, 0);
	}
	for (int i = 1; i < COUNT; i += 2)
		(void)tcpx_request_cancel(env->session, request[i]);
	for (uint64_t i = 0; i < COUNT; i++) {
		tcpx_status status = near_wait(env, request[i], NULL);

		if (i % 2 == 0)
			OK(status);
		if (status == TCPX_OK)
			CHECK_EQ(far_pattern(env, 0, i * size, size, 1, i * size), -1);
		else
			EXPECT(status, TCPX_ERR_CANCELLED);
	}
	CHECK(far_slack(env, 0));
}

/* Release of an active request cancels it; its memory comes free by itself. */
static void case_release_active(struct env *env)
{
	struct pair pair;
	tcpx_counters counters = {.sz = sizeof(counters)};

	pair_make(env, &pair, MIB);
	for (int i = 0; i < 30; i++) {
		static const enum tcpx_op ops[] = {TCPX_OP_RECV, TCPX_OP_SEND, TCPX_OP_READ};
		tcpx_request request = start(env, ops[i % 3], &pair.segment, 0);

		OK(tcpx_request_release(env->session, request));
		EXPECT(tcpx_request_test(env->session, request, NULL), TCPX_ERR_STALE);
		EXPECT(tcpx_request_release(env->session, request), TCPX_ERR_STALE);
	}
	OK(tcpx_region_deregister(env->session, pair.segment.local, LONG_NS));
	buf_poison(&pair.buf);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	CHECK_EQ(buf_bytes(&pair.buf, 0, MIB, POISON), -1);
	OK(tcpx_session_counters(env->session, &counters));
	CHECK_EQ(counters.requests_active, 0);
}

const struct case_row cases_end[] = {
	{"flush", case_flush, 0},
	{"deadline", case_deadline, 0},
	{"deadline_short", case_deadline_short, 0},
	{"cancel_states", case_cancel_states, 0},
	{"cancel_read_quiet", case_cancel_read_quiet, 0},
	{"cancel_write_quiet", case_cancel_write_quiet, CASE_BARE},
	{"cancel_write_spread", case_cancel_write_spread, 0},
	{"cancel_strict", case_cancel_strict, CASE_BARE},
	{"cancel_among", case_cancel_among, 0},
	{"release_active", case_release_active, 0},
	{0},
};
