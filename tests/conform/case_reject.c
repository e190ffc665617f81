/* SPDX-License-Identifier: Apache-2.0 */
/* What the owner refuses: wrong right, range, key; typed, counted, and nothing is touched. */
#include <pthread.h>

#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static tcpx_status access_far(struct env *env, enum tcpx_op op, tcpx_region local,
			      tcpx_region remote, uint64_t off, uint64_t len)
{
	tcpx_segment segment = {
		.local = local, .remote = remote, .remote_offset = off, .length = len};

	return near_run(env, op, &segment, 1, NULL);
}

static struct buf near_new(void)
{
	struct buf buf;

	buf_make(&buf, 8192, 0);
	return buf;
}

static void case_rights(struct env *env)
{
	struct buf buf = near_new();
	tcpx_region local = near_register(env, &buf, 0);

	for (uint32_t rights = 0; rights <= RW; rights++) {
		tcpx_region remote = far_buf(env, 0, 4096, rights, 1);
		tcpx_status write = rights & TCPX_RIGHT_WRITE ? TCPX_OK : TCPX_ERR_REMOTE_RIGHTS;
		tcpx_status read = rights & TCPX_RIGHT_READ ? TCPX_OK : TCPX_ERR_REMOTE_RIGHTS;

		buf_fill(&buf, 0, buf.size, 1, 0);
		EXPECT(access_far(env, TCPX_OP_WRITE, local, remote, 0, 4096), write);
		if (write)
			CHECK_EQ(far_bytes(env, 0, 0, 4096, POISON), -1);
		else
			CHECK_EQ(far_pattern(env, 0, 0, 4096, 1, 0), -1);
		buf_poison(&buf);
		EXPECT(access_far(env, TCPX_OP_READ, local, remote, 0, 4096), read);
		if (read)
			CHECK_EQ(buf_bytes(&buf, 0, buf.size, POISON), -1);
	}
}

/* Guard pages lie on both sides of the far memory: an access outside would end its process. */
static void case_range(struct env *env)
{
	static const struct {
		uint64_t off, len;
	} rows[] = {
		{4096, 1},
		{4095, 2},
		{0, 4097},
		{1, 4096},
		{5000, 1},
		{8192, 4096},
		{UINT32_MAX, 2},
		{1ull << 32, 1},
		{1ull << 47, 4096},
		{(1ull << 63) - 1, 1},
		{1ull << 63, 1},
		{UINT64_MAX - 8191, 4096},
		{UINT64_MAX - 100, 50},
	};
	struct buf buf = near_new();
	tcpx_region local = near_register(env, &buf, 0);
	tcpx_region remote = far_buf(env, 0, 4096, RW, 0);
	struct far_cmd cmd = {.op = FAR_COUNTERS};
	const tcpx_counters *counters;
	struct far_reply reply;
	uint64_t refused = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		EXPECT(access_far(env, TCPX_OP_WRITE, local, remote, rows[i].off, rows[i].len),
		       TCPX_ERR_REMOTE_RANGE);
		EXPECT(access_far(env, TCPX_OP_READ, local, remote, rows[i].off, rows[i].len),
		       TCPX_ERR_REMOTE_RANGE);
		refused += 2;
	}
	CHECK_EQ(far_bytes(env, 0, 0, 4096, POISON), -1);
	OK(far_call(env, &cmd, &reply));
	counters = (const void *)reply.data;
	CHECK(counters->remote_rejects >= refused);
	CHECK_EQ(counters->protocol_errors, 0);
	CHECK_EQ(counters->peers_lost, 0);
	OK(access_far(env, TCPX_OP_WRITE, local, remote, 0, 4096));
	OK(access_far(env, TCPX_OP_READ, local, remote, 4095, 1));
}

/* Offset plus length wraps: refused before it leaves, or by the owner; never carried out. */
static void case_range_wraps(struct env *env)
{
	static const struct {
		uint64_t off, len;
	} rows[] = {{UINT64_MAX, 1}, {UINT64_MAX, 2}, {UINT64_MAX - 10, 100}, {UINT64_MAX - 3, 8}};
	struct buf buf = near_new();
	tcpx_region local = near_register(env, &buf, 0);
	tcpx_region remote = far_buf(env, 0, 4096, RW, 0);

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		for (enum tcpx_op op = TCPX_OP_WRITE; op <= TCPX_OP_READ; op++) {
			tcpx_status status =
				access_far(env, op, local, remote, rows[i].off, rows[i].len);

			CHECK_MSG(status == TCPX_ERR_REMOTE_RANGE || status == TCPX_ERR_INVALID ||
					  status == TCPX_ERR_RANGE,
				  "%s", tcpx_status_name(status));
		}
	}
	CHECK_EQ(far_bytes(env, 0, 0, 4096, POISON), -1);
	OK(access_far(env, TCPX_OP_WRITE, local, remote, 0, 4096));
}

/* N pieces of a memory that only these segments use: far id, near buf. */
static void pieces_make(struct env *env, struct buf *buf, uint32_t id, tcpx_segment *segments,
			uint64_t count, uint64_t slot)
{
	tcpx_region local, remote;

	buf_make(buf, count * slot, 0);
	buf_fill(buf, 0, buf->size, 1, 0);
	local = near_register(env, buf, 0);
	remote = far_buf(env, id, count * slot, RW, 0);
	for (uint64_t i = 0; i < count; i++)
		segments[i] = (tcpx_segment){.local = local,
					     .local_offset = i * slot,
					     .remote = remote,
					     .remote_offset = i * slot,
					     .length = slot - 1};
}

/* One bad piece among many: the request fails with its reason, the peer and the others live. What
 * it was to write is undefined from then on, so each request has memory of its own. */
static void case_one_bad_piece(struct env *env)
{
	enum { N = 3000 };
	static tcpx_segment good[N], bad[N];
	uint64_t slot = 700;
	struct buf from, other;
	tcpx_error error = {.sz = sizeof(error)};

	pieces_make(env, &from, 0, good, N, slot);
	for (enum tcpx_op op = TCPX_OP_WRITE; op <= TCPX_OP_READ; op++) {
		tcpx_request request, beside;

		pieces_make(env, &other, op, bad, N, slot);
		bad[N - 7].remote_offset = N * slot - slot + 2;
		OK(tcpx_request_start(env->session, env->peer, op, bad, N, NULL, &request));
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, good, N, NULL,
				      &beside));
		EXPECT(near_wait(env, request, NULL), TCPX_ERR_REMOTE_RANGE);
		OK(tcpx_request_error(env->session, request, &error));
		CHECK_EQ(error.status, TCPX_ERR_REMOTE_RANGE);
		CHECK_EQ(error.bytes_total, N * (slot - 1));
		CHECK(error.bytes_done < error.bytes_total);
		CHECK(strstr(error.what, "far") && error.next[0]);
		OK(near_wait(env, beside, NULL));
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_request_release(env->session, beside));
		OK(far_simple(env, FAR_DEREG, op, (uint64_t)LONG_NS, 0, 0, 0));
		CHECK(far_slack(env, op));
		CHECK(buf_slack_whole(&other));
		for (uint64_t i = 0; i < N; i++)
			CHECK_EQ(far_pattern(env, 0, i * slot, slot - 1, 1, i * slot), -1);
	}
	CHECK(far_slack(env, 0));
}

static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;
static int lines;

static void count_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
	pthread_mutex_lock(&lines_lock);
	lines++;
	pthread_mutex_unlock(&lines_lock);
}

/* A peer that asks for nonsense all the time does not fill the log. */
static void case_reject_log(struct env *env)
{
	struct buf buf = near_new();
	tcpx_region local = near_register(env, &buf, 0);
	tcpx_region remote = far_buf(env, 0, 4096, TCPX_RIGHT_READ, 0);

	tcpx_log_set(count_line, NULL, TCPX_LOG_WARN);
	for (int i = 0; i < 1000; i++)
		EXPECT(access_far(env, TCPX_OP_WRITE, local, remote, 0, 8), TCPX_ERR_REMOTE_RIGHTS);
	tcpx_log_set(NULL, NULL, TCPX_LOG_WARN);
	CHECK_MSG(lines <= 100, "%d lines for 1000 refusals", lines);
	OK(access_far(env, TCPX_OP_READ, local, remote, 0, 8));
}

const struct case_row cases_reject[] = {
	{"rights", case_rights, 0},	      {"range", case_range, 0},
	{"range_wraps", case_range_wraps, 0}, {"one_bad_piece", case_one_bad_piece, 0},
	{"reject_log", case_reject_log, 0},   {0},
};
