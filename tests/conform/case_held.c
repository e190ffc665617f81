/* SPDX-License-Identifier: Apache-2.0 */
/* Copies that stand still while requests are to end, and a GPU that breaks under them. */
#include "abi/cuda.h"
#include "conform.h"
#include "fakecuda/fakecuda.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

/* A cancelled request is over only when its copy is. */
static void case_held_cancel(struct env *env)
{
	tcpx_request request;
	tcpx_region source;
	tcpx_status status;
	struct buf buf;

	if (!near_held_write(env, &buf, &source, &request))
		return;
	EXPECT(tcpx_request_cancel_wait(env->session, request, 50 * MS), TCPX_IN_PROGRESS);
	EXPECT(tcpx_region_deregister(env->session, source, 50 * MS), TCPX_ERR_BUSY);
	EXPECT(tcpx_request_wait(env->session, request, 0, NULL), TCPX_IN_PROGRESS);
	hold_end();
	status = near_wait(env, request, NULL);
	CHECK_MSG(status == TCPX_ERR_CANCELLED || status == TCPX_ERR_DEREGISTERED, "%s",
		  tcpx_status_name(status));
	OK(tcpx_region_deregister(env->session, source, LONG_NS));
	buf_poison(&buf);
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	CHECK(far_slack(env, 0));
}

/* The peer goes, in peace or not: what is under way is not over while the memory is in use. */
static void held_peer_gone(struct env *env, bool killed)
{
	tcpx_request request;
	tcpx_region source;
	tcpx_status held;
	struct buf buf;
	int status;

	if (!near_held_write(env, &buf, &source, &request))
		return;
	if (killed) {
		CHECK(kill(env->pid, SIGKILL) == 0);
		CHECK(waitpid(env->pid, &status, 0) == env->pid);
		env->pid = 0;
		close(env->fd);
	} else {
		far_simple(env, FAR_DISCONNECT, 0, 0, 0, 0, 0);
	}
	near_event(env, TCPX_EVENT_PEER_DOWN);
	held = tcpx_region_deregister(env->session, source, 50 * MS);
	/* A plugin sends without a stream: the copy that is held is the far side's, and this memory
	 * is free as soon as the comm is closed. */
	if (!conform_plugin() || held != TCPX_OK) {
		CHECK_EQ(held, TCPX_ERR_BUSY);
		EXPECT(tcpx_request_wait(env->session, request, 0, NULL), TCPX_IN_PROGRESS);
	}
	hold_end();
	if (held != TCPX_OK)
		OK(tcpx_region_deregister(env->session, source, LONG_NS));
	buf_free(&buf);
	CHECK(near_wait(env, request, NULL) < 0);
}

static void case_held_peer_gone(struct env *env)
{
	held_peer_gone(env, false);
}

static void case_held_peer_killed(struct env *env)
{
	held_peer_gone(env, true);
}

/* The destination of a READ, and of a WRITE of the peer: bytes on their way into the GPU keep it
 * busy; when deregister says OK nothing changes there any more. */
static void held_commit(struct env *env, bool by_peer)
{
	struct far_start write = {.op = TCPX_OP_WRITE, .buf = 1, .len = MIB};
	tcpx_segment segment = {.length = MIB};
	tcpx_request request = {0};
	struct buf buf;

	buf_make(&buf, MIB, 0);
	segment.local = near_register(env, &buf, RW);
	segment.remote = far_buf(env, 1, MIB, RW, 0);
	far_fill(env, 1, 0, MIB, 1, 0);
	far_import(env, 0, segment.local);
	if (!hold_begin_near())
		return;
	if (by_peer)
		OK(far_start(env, 0, &write));
	else
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &segment, 1, NULL,
				      &request));
	hold_await(1);
	EXPECT(tcpx_region_deregister(env->session, segment.local, 50 * MS), TCPX_ERR_BUSY);
	CHECK_EQ(buf_bytes(&buf, 0, MIB, POISON), -1);
	hold_end();
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
	buf_poison(&buf);
	if (by_peer) /* all of it may have been on its way */
		CHECK(far_wait(env, 0, LONG_NS, NULL, NULL) <= TCPX_OK);
	else
		EXPECT(near_wait(env, request, NULL), TCPX_ERR_DEREGISTERED);
	CHECK_EQ(buf_bytes(&buf, 0, MIB, POISON), -1);
	CHECK(buf_slack_whole(&buf));
}

static void case_held_read(struct env *env)
{
	held_commit(env, false);
}

static void case_held_written(struct env *env)
{
	held_commit(env, true);
}

/* A few transfers of host memory between the two. */
static void host_goes_on(struct env *env)
{
	static uint8_t from[100000], to[100000];
	tcpx_segment segment = {.length = sizeof(from)};
	uint8_t token[TCPX_TOKEN_BYTES];
	TCPX_OPTS(tcpx_region_opts, opts, .rights = RW);
	tcpx_region there;

	pat_fill(from, sizeof(from), 5, 0);
	segment.local = near_host(env, from, sizeof(from), 0);
	OK(tcpx_region_register(env->side->session, to, sizeof(to), &opts, &there));
	OK(tcpx_region_export(env->side->session, there, token));
	OK(tcpx_region_import(env->session, env->peer, token, sizeof(token), &segment.remote));
	for (int i = 0; i < 10; i++) {
		byte_fill(to, sizeof(to), POISON);
		OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL));
		CHECK_EQ(pat_check(to, sizeof(to), 5, 0), -1);
	}
}

static void no_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

/* The GPU is lost in the middle of transfers: all that use it end with an error, what does not goes
 * on, and both sessions close with nothing left behind. */
static void gpu_breaks(struct env *env, bool held)
{
	enum { COUNT = 12 };
	tcpx_segment segment = {.length = 4 * MIB};
	tcpx_request request[COUNT];
	struct buf buf;
	int failed = 0;

	if (config.processes != 1 || !gpu_fake())
		return;
	tcpx_log_set(no_line, NULL, TCPX_LOG_ERROR); /* it is said, and meant */
	buf_make(&buf, segment.length * COUNT, 0);
	segment.local = near_register(env, &buf, RW);
	segment.remote = far_buf(env, 0, segment.length * COUNT, RW, 0);
	if (held)
		hold_begin();
	for (int i = 0; i < COUNT; i++) {
		segment.local_offset = segment.remote_offset = (uint64_t)i * segment.length;
		OK(tcpx_request_start(env->session, env->peer, i % 2 ? TCPX_OP_READ : TCPX_OP_WRITE,
				      &segment, 1, NULL, &request[i]));
	}
	if (held)
		hold_await(1);
	else
		OK(near_wait(env, request[0], NULL));
	gpu_fake()->break_device(config.mem.device, CUDA_ERR_ILLEGAL_ADDRESS);
	if (held)
		hold_end();
	for (int i = 0; i < COUNT; i++) {
		tcpx_status status = near_wait(env, request[i], NULL);

		CHECK_MSG(status <= 0, "%s", tcpx_status_name(status));
		failed += status < 0;
		OK(tcpx_request_release(env->session, request[i]));
	}
	/* Over the same host the far GPU, if there is one, copies by itself, and is whole. */
	CHECK(!held || failed == COUNT || !strcmp(config.transport, "local"));
	segment.local_offset = segment.remote_offset = 0;
	CHECK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL) < 0 ||
	      !strcmp(config.transport, "local"));
	CHECK(near_run(env, TCPX_OP_READ, &segment, 1, NULL) < 0);
	host_goes_on(env);
	OK(tcpx_region_deregister(env->session, segment.local, LONG_NS));
}

static void case_gpu_breaks(struct env *env)
{
	gpu_breaks(env, false);
}

static void case_gpu_breaks_held(struct env *env)
{
	gpu_breaks(env, true);
}

const struct case_row cases_held[] = {
	{"held_cancel", case_held_cancel, 0},
	{"held_peer_gone", case_held_peer_gone, 0},
	{"held_peer_killed", case_held_peer_killed, CASE_TWO},
	{"held_read", case_held_read, CASE_GPU},
	{"held_written", case_held_written, CASE_GPU},
	{"gpu_breaks", case_gpu_breaks, CASE_GPU | CASE_BREAKS},
	{"gpu_breaks_held", case_gpu_breaks_held, CASE_GPU | CASE_BREAKS},
	{0},
};
