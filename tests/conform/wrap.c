/* SPDX-License-Identifier: Apache-2.0 */
/* Short forms of what most cases do on either side. */
#include <errno.h>
#include <poll.h>

#include "conform.h"

void expect_status(const char *file, int line, const char *text, tcpx_status got, tcpx_status want)
{
	if (got == want)
		return;
	check_fail(file, line, "%s: %s, not %s; last error: %s: %s", text, tcpx_status_name(got),
		   tcpx_status_name(want), tcpx_status_name(tcpx_last_error()->status),
		   tcpx_last_error()->what);
}

bool is_peer_error(tcpx_status status)
{
	return status <= TCPX_ERR_PEER_CLOSED && status >= TCPX_ERR_DISCONNECTED;
}

static tcpx_region far_make(struct env *env, struct far_cmd *cmd)
{
	struct far_reply reply;
	tcpx_region region;

	OK(far_call(env, cmd, &reply));
	CHECK_EQ(reply.len, TCPX_TOKEN_BYTES);
	OK(tcpx_region_import(env->session, env->peer, reply.data, reply.len, &region));
	return region;
}

tcpx_region far_buf(struct env *env, uint32_t id, uint64_t size, uint32_t rights, size_t lead)
{
	struct far_cmd cmd = {.op = FAR_BUF, .id = id, .arg = {rights, 0, size, lead}};

	return far_make(env, &cmd);
}

tcpx_region far_file(struct env *env, uint32_t id, uint64_t size, uint32_t rights)
{
	struct far_cmd cmd = {.op = FAR_BUF, .id = id, .arg = {rights, 0, size, 0, 1}};

	return far_make(env, &cmd);
}

void far_token(struct env *env, uint32_t id, uint32_t rights, uint32_t flags, uint8_t *token)
{
	struct far_cmd cmd = {.op = FAR_REGISTER, .id = id, .arg = {rights, flags}};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	CHECK_EQ(reply.len, TCPX_TOKEN_BYTES);
	memcpy(token, reply.data, TCPX_TOKEN_BYTES);
}

void far_fill(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint64_t seed,
	      uint64_t position)
{
	OK(far_simple(env, FAR_FILL, id, off, len, seed, position));
}

int64_t far_pattern(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint64_t seed,
		    uint64_t position)
{
	struct far_cmd cmd = {.op = FAR_PATTERN, .id = id, .arg = {off, len, seed, position}};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	return (int64_t)reply.value[0];
}

int64_t far_bytes(struct env *env, uint32_t id, uint64_t off, uint64_t len, uint8_t value)
{
	struct far_cmd cmd = {.op = FAR_BYTES, .id = id, .arg = {off, len, value}};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	return (int64_t)reply.value[0];
}

uint64_t far_run(struct env *env, uint32_t id, uint64_t len)
{
	struct far_cmd cmd = {.op = FAR_RUN, .id = id, .arg = {len}};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	return reply.value[0];
}

bool far_slack(struct env *env, uint32_t id)
{
	struct far_cmd cmd = {.op = FAR_SLACK, .id = id};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	return reply.value[0] != 0;
}

void far_import(struct env *env, uint32_t id, tcpx_region region)
{
	struct far_cmd cmd = {.op = FAR_IMPORT, .id = id, .len = TCPX_TOKEN_BYTES};
	struct far_reply reply;

	OK(tcpx_region_export(env->session, region, cmd.data));
	OK(far_call(env, &cmd, &reply));
}

tcpx_status far_start(struct env *env, uint32_t slot, const struct far_start *what)
{
	struct far_cmd cmd = {.op = FAR_START, .id = slot};
	struct far_reply reply;

	memcpy(cmd.data, what, sizeof(*what));
	return far_call(env, &cmd, &reply);
}

tcpx_status far_wait(struct env *env, uint32_t slot, int64_t timeout_ns, uint64_t *out_bytes,
		     uint64_t *out_message_bytes)
{
	struct far_cmd cmd = {.op = FAR_WAIT, .id = slot, .arg = {(uint64_t)timeout_ns}};
	struct far_reply reply;
	tcpx_status status = far_call(env, &cmd, &reply);

	if (out_bytes)
		*out_bytes = reply.value[0];
	if (out_message_bytes)
		*out_message_bytes = reply.value[1];
	return status;
}

tcpx_status far_take(struct env *env, const struct far_take *what, uint64_t *out_bytes)
{
	struct far_cmd cmd = {.op = FAR_NOTIFY_TAKE};
	struct far_reply reply;
	tcpx_status status;

	memcpy(cmd.data, what, sizeof(*what));
	status = far_call(env, &cmd, &reply);
	if (out_bytes)
		*out_bytes = reply.value[0];
	return status;
}

void far_drop(struct env *env, uint32_t count)
{
	OK(far_simple(env, FAR_NOTIFY_DROP, count, 0, 0, 0, 0));
}

tcpx_region_opts conform_region(const struct buf *buf, uint32_t rights, uint32_t flags)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = buf->place.kind, .device = buf->place.device,
		  .rights = rights, .flags = flags);

	return opts;
}

tcpx_region near_part(struct env *env, const struct buf *buf, uint64_t off, uint64_t len,
		      uint32_t rights)
{
	tcpx_region_opts opts = conform_region(buf, rights, 0);
	tcpx_region region;

	CHECK(off <= buf->size && len <= buf->size - off);
	OK(tcpx_region_register(env->session, (uint8_t *)buf->addr + off, len, &opts, &region));
	return region;
}

tcpx_region near_register(struct env *env, const struct buf *buf, uint32_t rights)
{
	return near_part(env, buf, 0, buf->size, rights);
}

tcpx_region near_host(struct env *env, void *addr, uint64_t len, uint32_t rights)
{
	TCPX_OPTS(tcpx_region_opts, opts, .rights = rights);
	tcpx_region region;

	if (config.mem.kind == MEM_KIND_TEST)
		opts.kind = MEM_KIND_TEST;
	OK(tcpx_region_register(env->session, addr, len, &opts, &region));
	return region;
}

tcpx_status near_wait(struct env *env, tcpx_request request, tcpx_completion *out)
{
	return tcpx_request_wait(env->session, request, LONG_NS, out);
}

tcpx_status near_run(struct env *env, enum tcpx_op op, const tcpx_segment *segments, size_t count,
		     const tcpx_request_opts *opts)
{
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_request request;
	uint64_t total = 0;
	tcpx_status status;

	status = tcpx_request_start(env->session, env->peer, op, segments, count, opts, &request);
	if (status)
		return status;
	status = near_wait(env, request, &done);
	CHECK_EQ(done.status, status);
	CHECK_EQ(done.request.id, request.id);
	for (size_t i = 0; i < count; i++)
		total += segments[i].length;
	if (status == TCPX_OK && op != TCPX_OP_RECV)
		CHECK_EQ(done.bytes, total);
	OK(tcpx_request_release(env->session, request));
	return status;
}

/* False: it is over, for the far side knew the memory before it was posted and copied by itself. */
static bool copy_held(struct env *env, tcpx_request request)
{
	tcpx_completion done = {.sz = sizeof(done)};

	if (config.mem.kind == MEM_KIND_TEST) {
		hold_await(1);
		return true;
	}
	while (!hold_come(1))
		if (tcpx_request_test(env->session, request, &done) != TCPX_IN_PROGRESS)
			return false;
	return true;
}

bool near_held_write(struct env *env, struct buf *out_buf, tcpx_region *out_source,
		     tcpx_request *out_request)
{
	tcpx_segment segment = {.length = MIB};

	if (!hold_possible())
		return false;
	segment.remote = far_buf(env, 0, MIB, TCPX_RIGHT_WRITE, 0);
	for (;;) {
		buf_make(out_buf, MIB, 0);
		*out_source = segment.local = near_register(env, out_buf, 0);
		hold_begin();
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				      out_request));
		if (copy_held(env, *out_request))
			return true;
		hold_end();
		OK(tcpx_request_release(env->session, *out_request));
		OK(tcpx_region_deregister(env->session, *out_source, LONG_NS));
		buf_free(out_buf);
	}
}

tcpx_status near_take(struct env *env, uint64_t seed, uint64_t *out_bytes)
{
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status = tcpx_notify_take(env->session, LONG_NS, &note);

	if (status)
		return status;
	if (seed)
		CHECK_EQ(pat_check(note.data, note.bytes, seed, 0), -1);
	if (out_bytes)
		*out_bytes = note.bytes;
	tcpx_notification_release(env->session, &note);
	return TCPX_OK;
}

tcpx_event session_event(tcpx_session *session, enum tcpx_event_type type)
{
	struct pollfd pfd = {.fd = tcpx_session_fd(session), .events = POLLIN};
	tcpx_event event = {.sz = sizeof(event)};

	for (;;) {
		while (tcpx_session_event(session, &event) == TCPX_OK)
			if (event.type == type)
				return event;
		CHECK(poll(&pfd, 1, -1) == 1 || errno == EINTR);
	}
}

tcpx_event near_event(struct env *env, enum tcpx_event_type type)
{
	return session_event(env->session, type);
}

tcpx_status far_event(struct env *env, enum tcpx_event_type type)
{
	struct far_cmd cmd = {.op = FAR_EVENT, .arg = {type}};
	struct far_reply reply;

	OK(far_call(env, &cmd, &reply));
	return (tcpx_status)(int64_t)reply.value[0];
}
