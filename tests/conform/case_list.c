/* SPDX-License-Identifier: Apache-2.0 */
/* Lists: pieces in random order over several regions, runs, strides, limits. */
#include <sys/mman.h>

#include "conform.h"
#include "list_plan.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

struct fields {
	struct buf near[PLAN_REGIONS];
	tcpx_region local[PLAN_REGIONS], remote[PLAN_REGIONS];
};

static void fields_make(struct env *env, struct fields *f, uint64_t size)
{
	for (uint32_t i = 0; i < PLAN_REGIONS; i++) {
		buf_make(&f->near[i], size, i * 3);
		f->local[i] = near_register(env, &f->near[i], 0);
		f->remote[i] = far_buf(env, i, size, RW, 7 - i);
	}
}

static void fields_free(struct env *env, struct fields *f)
{
	for (uint32_t i = 0; i < PLAN_REGIONS; i++) {
		OK(tcpx_region_deregister(env->session, f->local[i], 0));
		OK(tcpx_region_deregister(env->session, f->remote[i], 0));
		OK(far_simple(env, FAR_DEREG, i, 0, 0, 0, 0));
		buf_free(&f->near[i]);
	}
}

/* Runs the plan as op and compares every byte of the destination's regions with the image. */
static void run_plan(struct env *env, enum tcpx_op op, const struct plan *plan)
{
	tcpx_segment *segments = calloc(plan->count, sizeof(*segments));
	struct far_cmd cmd = {0};
	struct far_reply reply;
	struct fields f;
	uint32_t n;

	CHECK(segments);
	fields_make(env, &f, plan->region_bytes);
	memcpy(cmd.data, plan, sizeof(*plan));
	n = plan_count(plan);
	for (uint32_t i = 0; i < n; i++) {
		struct piece piece = plan_piece(plan, i);
		bool write = op == TCPX_OP_WRITE;

		segments[i] = (tcpx_segment){
			.local = f.local[write ? piece.from : piece.to],
			.local_offset = write ? piece.from_off : piece.to_off,
			.remote = f.remote[write ? piece.to : piece.from],
			.remote_offset = write ? piece.to_off : piece.from_off,
			.length = piece.len,
		};
	}
	if (op == TCPX_OP_WRITE) {
		for (uint32_t i = 0; i < PLAN_REGIONS; i++)
			buf_fill(&f.near[i], 0, f.near[i].size, PLAN_SEED + i, 0);
	} else {
		for (uint32_t i = 0; i < PLAN_REGIONS; i++)
			far_fill(env, i, 0, plan->region_bytes, PLAN_SEED + i, 0);
	}
	OK(near_run(env, op, segments, n, NULL));
	if (op == TCPX_OP_WRITE) {
		cmd.op = FAR_PLAN;
		OK(far_call(env, &cmd, &reply));
		CHECK_MSG(reply.value[0] == 0, "%" PRIu64 " wrong bytes at the far side",
			  reply.value[0]);
	} else {
		CHECK_EQ(plan_compare(plan, f.near), 0);
	}
	for (uint32_t i = 0; i < PLAN_REGIONS; i++)
		CHECK(buf_slack_whole(&f.near[i]) && far_slack(env, i));
	fields_free(env, &f);
	free(segments);
}

static const struct plan plans[] = {
	/* kind, seed, pieces, bytes of a slot, bytes of a region */
	{PLAN_RANDOM, 1, 1, 100, 1000},	      {PLAN_RANDOM, 2, 2, 5000, 20000},
	{PLAN_RANDOM, 3, 3, 64, 4096},	      {PLAN_RANDOM, 4, 10, 9000, 65536},
	{PLAN_RANDOM, 5, 100, 4096, 300000},  {PLAN_RANDOM, 6, 1000, 4096, 3 * MIB},
	{PLAN_RANDOM, 7, 1000, 16, 20000},    {PLAN_RANDOM, 8, 10000, 1000, 5 * MIB},
	{PLAN_EQUAL, 9, 100, 65536, 4 * MIB}, {PLAN_EQUAL, 10, 4096, 4096, 8 * MIB},
	{PLAN_STRIDE, 11, 5000, 300, MIB},    {PLAN_STRIDE, 12, 37, 70000, 2 * MIB},
	{PLAN_REVERSE, 13, 5000, 300, MIB},   {PLAN_JOINED, 14, 3000, 700, 2 * MIB + 1000},
};

static void run_plans(struct env *env, enum tcpx_op op)
{
	for (size_t i = 0; i < sizeof(plans) / sizeof(plans[0]); i++)
		run_plan(env, op, &plans[i]);
}

static void case_list_write(struct env *env)
{
	run_plans(env, TCPX_OP_WRITE);
}

static void case_list_read(struct env *env)
{
	run_plans(env, TCPX_OP_READ);
}

static void case_list_100000(struct env *env)
{
	const struct plan plan = {PLAN_RANDOM, 15, config.light ? 20000 : 100000, 400, 14 * MIB};

	run_plan(env, TCPX_OP_WRITE, &plan);
	run_plan(env, TCPX_OP_READ, &plan);
}

/* No constant is the most that a list may have: one more than what tools make. */
static void case_list_1048577(struct env *env)
{
	const struct plan plan = {PLAN_RANDOM, 16, 1048577, 16, 6 * MIB};

	run_plan(env, TCPX_OP_WRITE, &plan);
	check_alive();
	run_plan(env, TCPX_OP_READ, &plan);
}

static void case_list_4194304(struct env *env)
{
	const struct plan plan = {PLAN_RANDOM, 17, 4194304, 16, 24 * MIB};

	run_plan(env, TCPX_OP_WRITE, &plan);
	check_alive();
	run_plan(env, TCPX_OP_READ, &plan);
}

/* The same source many times; one large piece among many tiny ones. */
static void case_list_mixed(struct env *env)
{
	enum { N = 2000 };
	static tcpx_segment segments[N];
	uint64_t big = 2 * MIB + 5, at = 0;
	struct buf buf;

	buf_make(&buf, 3 * MIB, 1);
	buf_fill(&buf, 0, buf.size, 3, 0);
	segments[0].local = near_register(env, &buf, 0);
	segments[0].remote = far_buf(env, 0, 3 * MIB, RW, 1);
	for (int i = 0; i < N; i++) {
		segments[i].local = segments[0].local;
		segments[i].remote = segments[0].remote;
		segments[i].local_offset = i == N / 2 ? 17 : 5; /* one source for all the others */
		segments[i].remote_offset = at;
		segments[i].length = i == N / 2 ? big : 1 + (uint64_t)i % 100;
		at += segments[i].length + 1; /* a gap of one byte */
	}
	OK(near_run(env, TCPX_OP_WRITE, segments, N, NULL));
	for (int i = 0; i < N; i++) {
		CHECK_EQ(far_pattern(env, 0, segments[i].remote_offset, segments[i].length, 3,
				     segments[i].local_offset),
			 -1);
		CHECK_EQ(far_bytes(env, 0, segments[i].remote_offset + segments[i].length, 1,
				   POISON),
			 -1);
	}
	CHECK_EQ(far_bytes(env, 0, at, 3 * MIB - at, POISON), -1);
}

static tcpx_status prepare(struct env *env, enum tcpx_op op, const tcpx_segment *segments,
			   size_t count)
{
	tcpx_request request = {0};
	tcpx_status status =
		tcpx_request_prepare(env->session, env->peer, op, segments, count, NULL, &request);

	if (status == TCPX_OK)
		OK(tcpx_request_release(env->session, request));
	else
		CHECK_EQ(request.id, 0);
	return status;
}

/* What prepare refuses, and that it names the segment. */
static void case_list_refused(struct env *env)
{
	static uint8_t data[4096];
	static tcpx_segment list[100];
	tcpx_region local = near_host(env, data, sizeof(data), 0);
	tcpx_region remote = far_buf(env, 0, 4096, RW, 0);

	for (int i = 0; i < 100; i++)
		list[i] = (tcpx_segment){.local = local, .remote = remote, .length = 16};
	OK(prepare(env, TCPX_OP_WRITE, list, 100));
	EXPECT(prepare(env, TCPX_OP_WRITE, list, 0), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_READ, list, 0), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_NOTIFY, list, 1), TCPX_ERR_INVALID);
	EXPECT(prepare(env, TCPX_OP_WRITE, NULL, 1), TCPX_ERR_INVALID);
	EXPECT(prepare(env, (enum tcpx_op)0, list, 1), TCPX_ERR_INVALID);
	EXPECT(prepare(env, (enum tcpx_op)6, list, 1), TCPX_ERR_INVALID);
	list[73].local_offset = 4081;
	EXPECT(prepare(env, TCPX_OP_WRITE, list, 100), TCPX_ERR_RANGE);
	CHECK_MSG(strstr(tcpx_last_error()->what, "73"), "no index in \"%s\"",
		  tcpx_last_error()->what);
	list[73].local_offset = UINT64_MAX - 7;
	EXPECT(prepare(env, TCPX_OP_READ, list, 100), TCPX_ERR_RANGE);
	list[73].local_offset = 0;
	list[73].length = UINT64_MAX - 3;
	EXPECT(prepare(env, TCPX_OP_READ, list, 100), TCPX_ERR_RANGE);
	list[73].length = 0;
	OK(prepare(env, TCPX_OP_READ, list, 100)); /* an empty piece among others is legal */
	list[73].length = 16;
	list[73].local = remote; /* the wrong half */
	CHECK(prepare(env, TCPX_OP_WRITE, list, 100) < 0);
	CHECK(strstr(tcpx_last_error()->what, "73"));
	list[73].local = local;
	list[73].remote = local;
	CHECK(prepare(env, TCPX_OP_WRITE, list, 100) < 0);
	list[73].remote = remote;
	OK(prepare(env, TCPX_OP_WRITE, list, 100));
}

static uint64_t memory_used(struct env *env)
{
	tcpx_counters counters = {.sz = sizeof(counters)};

	OK(tcpx_session_counters(env->session, &counters));
	return counters.memory_bytes;
}

/* What a list needs comes out of the memory budget, and the refusal says how much. */
static void case_list_budget(struct env *env)
{
	const struct env_tune tune = {.memory_budget = 16 * MIB};
	size_t count = 600000;
	tcpx_segment *list = calloc(count, sizeof(*list));
	tcpx_request request;
	uint8_t byte[1];
	tcpx_region local, remote;
	uint64_t before;

	CHECK(list);
	env_open_tuned(env, &tune, NULL);
	local = near_host(env, byte, 1, 0);
	remote = far_buf(env, 0, 4096, RW, 0);
	for (size_t i = 0; i < count; i++)
		list[i] = (tcpx_segment){.local = local, .remote = remote, .length = 1};
	before = memory_used(env);
	EXPECT(prepare(env, TCPX_OP_WRITE, list, count), TCPX_ERR_LIMIT);
	CHECK(strstr(tcpx_last_error()->what, "list of 600000 segments needs 19200032 bytes"));
	CHECK(strstr(tcpx_last_error()->what, "16777216 bytes"));
	CHECK(strstr(tcpx_last_error()->next, "TCPX_MEMORY_BUDGET_BYTES"));
	CHECK_EQ(memory_used(env), before);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, list, 300000, NULL,
				&request));
	CHECK_EQ(memory_used(env) - before, 300001 * 32);
	EXPECT(prepare(env, TCPX_OP_WRITE, list, 300000), TCPX_ERR_LIMIT); /* not a second one */
	OK(tcpx_request_release(env->session, request));
	CHECK_EQ(memory_used(env), before);
	for (size_t i = 0; i < 400000; i++) { /* neighbours are one */
		list[i].local_offset = 0;
		list[i].length = i == 0;
	}
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, list, 400000, NULL,
				&request));
	CHECK_EQ(memory_used(env) - before, 2 * 32);
	OK(tcpx_request_release(env->session, request));
	CHECK_EQ(memory_used(env), before);
	list[399999].length = 5; /* refused half-way */
	EXPECT(prepare(env, TCPX_OP_WRITE, list, 400000), TCPX_ERR_RANGE);
	CHECK_EQ(memory_used(env), before);
	free(list);
}

static void case_list_limits(struct env *env)
{
	size_t big = 600000;
	uint64_t size = 512 * MIB;
	tcpx_segment *list = calloc(big, sizeof(*list));
	uint8_t *map = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	tcpx_region local, remote;

	CHECK(list && map != MAP_FAILED);
	local = near_host(env, map, size, 0);
	remote = far_buf(env, 0, 4096, RW, 0);
	for (size_t i = 0; i < big; i++)
		list[i] = (tcpx_segment){.local = local, .remote = remote, .length = size};
	EXPECT(prepare(env, TCPX_OP_WRITE, list, big), TCPX_ERR_LIMIT);
	free(list);
}

const struct case_row cases_list[] = {
	{"list_write", case_list_write, 0},
	{"list_read", case_list_read, 0},
	{"list_100000", case_list_100000, 0},
	{"list_1048577", case_list_1048577, CASE_ONCE},
	{"list_4194304", case_list_4194304, CASE_HEAVY | CASE_ONCE},
	{"list_mixed", case_list_mixed, 0},
	{"list_refused", case_list_refused, 0},
	{"list_limits", case_list_limits, CASE_ONCE},
	{"list_budget", case_list_budget, CASE_ONCE | CASE_BARE},
	{0},
};
