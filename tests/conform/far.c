/* SPDX-License-Identifier: Apache-2.0 */
/* What the far side does for each command. */
#include <sys/socket.h>

#include "conform.h"
#include "list_plan.h"
#include "sys/addr.h"
#include "sys/sock.h"

/* Another process may be given the port of a session that is closed. A bound socket that does not
 * listen prevents that, and lets the session listen there. */
static uint16_t kept_port(struct far_side *side)
{
	struct sockaddr_storage local;

	if (!side->kept) {
		CHECK(sys_addr_parse(conform_far(), 0, &local) == TCPX_OK);
		CHECK(sys_sock_open(local.ss_family, &side->kept) == TCPX_OK);
		CHECK(sys_sock_reuse(side->kept) == 0);
		CHECK(bind(side->kept, (struct sockaddr *)&local, sys_addr_len(&local)) == 0);
	}
	CHECK(sys_sock_local(side->kept, &local) == TCPX_OK);
	return sys_addr_port(&local);
}

static void far_do_open(struct far_side *side, const struct far_cmd *cmd, struct far_reply *reply)
{
	const struct env_tune *tune = (const void *)cmd->data;
	TCPX_OPTS(tcpx_listen_opts, listen, .port = tune->keeps_port ? kept_port(side) : 0);
	tcpx_session_opts opts;
	uint16_t port = 0;
	size_t len = 0;

	conform_opts(&opts, "far");
	opts.notify_budget_bytes = tune->notify_budget;
	opts.flags |= tune->flags;
	opts.channels = tune->channels;
	opts.chunk_bytes = tune->chunk_bytes;
	opts.silent_ms = tune->silent_ms;
	opts.stopped_ms = tune->stopped_ms;
	reply->status = tcpx_session_open(&opts, &side->session);
	if (reply->status)
		return;
	reply->status = tcpx_session_listen(side->session, &listen, &port);
	if (reply->status)
		return;
	reply->status = tcpx_session_info(side->session, reply->data, sizeof(reply->data), &len);
	reply->len = (uint32_t)len;
	reply->value[0] = port;
}

static void far_do_close_session(struct far_side *side)
{
	tcpx_session_close(side->session);
	side->session = NULL;
}

static void far_do_close(struct far_side *side)
{
	int kept = side->kept;

	far_do_close_session(side);
	for (int i = 0; i < FAR_BUFS; i++)
		buf_free(&side->buf[i]);
	*side = (struct far_side){.kept = kept};
}

static tcpx_status far_do_register(struct far_side *side, const struct far_cmd *cmd,
				   struct far_reply *reply)
{
	struct buf *buf = &side->buf[cmd->id];
	tcpx_region_opts opts = conform_region(buf, (uint32_t)cmd->arg[0], (uint32_t)cmd->arg[1]);
	tcpx_status status;

	status = tcpx_region_register(side->session, buf->addr, buf->size, &opts,
				      &side->region[cmd->id]);
	if (status)
		return status;
	reply->len = TCPX_TOKEN_BYTES;
	return tcpx_region_export(side->session, side->region[cmd->id], reply->data);
}

/* A transfer's options live in the command: prepare copies what it needs. */
static tcpx_status far_do_start(struct far_side *side, const struct far_cmd *cmd)
{
	const struct far_start *what = (const void *)cmd->data;
	tcpx_segment segment = {
		.local = side->region[what->buf],
		.local_offset = what->off,
		.remote = side->remote[what->remote],
		.remote_offset = what->remote_off,
		.length = what->len,
	};
	TCPX_OPTS(tcpx_request_opts, opts, .deadline_ns = what->deadline_ns);
	void *notify = NULL;
	tcpx_status status;

	if (what->notify) {
		notify = malloc(what->notify_bytes + 1);
		CHECK(notify);
		pat_fill(notify, what->notify_bytes, cmd->id, 0);
		opts.notify = notify;
		opts.notify_bytes = what->notify_bytes;
		opts.has_notify = 1;
	}
	status = tcpx_request_start(side->session, side->peer, what->op, &segment,
				    what->op == TCPX_OP_NOTIFY || what->len == 0 ? 0 : 1, &opts,
				    &side->request[cmd->id]);
	free(notify);
	return status;
}

static tcpx_status far_do_wait(struct far_side *side, const struct far_cmd *cmd,
			       struct far_reply *reply)
{
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_status status;

	status = tcpx_request_wait(side->session, side->request[cmd->id], (int64_t)cmd->arg[0],
				   &done);
	reply->value[0] = done.bytes;
	reply->value[1] = done.message_bytes;
	return status;
}

static tcpx_status far_do_notify_send(struct far_side *side, const struct far_cmd *cmd)
{
	uint64_t len = cmd->arg[0];
	void *data = malloc(len + 1);
	tcpx_status status;

	CHECK(data);
	pat_fill(data, len, cmd->arg[1], 0);
	status = tcpx_notify_send(side->session, side->peer, data, len);
	free(data);
	return status;
}

static tcpx_status far_do_take(struct far_side *side, const struct far_cmd *cmd,
			       struct far_reply *reply)
{
	const struct far_take *what = (const void *)cmd->data;
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status = tcpx_notify_take(side->session, what->timeout_ns, &note);

	if (status)
		return status;
	if (what->len) { /* at once, before anything else can arrive */
		int64_t bad = buf_check(&side->buf[what->buf], what->off, what->len, what->want, 0);

		CHECK_MSG(bad < 0, "notified before byte %lld was there", (long long)bad);
	}
	CHECK_EQ(note.peer.id, side->peer.id);
	if (what->seed)
		CHECK_EQ(pat_check(note.data, note.bytes, what->seed, 0), -1);
	reply->value[0] = note.bytes;
	reply->len = (uint32_t)(note.bytes < FAR_DATA ? note.bytes : FAR_DATA);
	if (reply->len)
		memcpy(reply->data, note.data, reply->len);
	if (!what->hold) {
		tcpx_notification_release(side->session, &note);
		return TCPX_OK;
	}
	CHECK(side->notes < FAR_NOTES);
	side->note[side->notes++].note = note;
	return TCPX_OK;
}

static void far_do_drop(struct far_side *side, uint32_t count)
{
	if (count == 0 || count > side->notes)
		count = side->notes;
	for (uint32_t i = 0; i < count; i++)
		tcpx_notification_release(side->session, &side->note[i].note);
	memmove(side->note, side->note + count, (side->notes - count) * sizeof(side->note[0]));
	side->notes -= count;
}

/* Sessions and peers. */
static int far_execute_peer(struct far_side *side, const struct far_cmd *cmd,
			    struct far_reply *reply)
{
	switch (cmd->op) {
	case FAR_OPEN:
		far_do_open(side, cmd, reply);
		return 1;
	case FAR_CLOSE:
		far_do_close(side);
		return 1;
	case FAR_CLOSE_SESSION:
		far_do_close_session(side);
		return 1;
	case FAR_ACCEPT:
		reply->status =
			tcpx_session_accept(side->session, (int64_t)cmd->arg[0], &side->peer);
		reply->value[0] = side->peer.id;
		return 1;
	case FAR_CONNECT:
		reply->status =
			tcpx_session_connect(side->session, cmd->data, cmd->len, NULL, &side->peer);
		reply->value[0] = side->peer.id;
		return 1;
	case FAR_CONNECT_TO:
		reply->status = tcpx_session_connect_to(side->session, (const char *)cmd->data,
							NULL, &side->peer);
		reply->value[0] = side->peer.id;
		return 1;
	case FAR_DISCONNECT:
		reply->status = tcpx_peer_disconnect(side->session, side->peer);
		return 1;
	case FAR_FLUSH:
		reply->status = tcpx_peer_flush(side->session, side->peer, (int64_t)cmd->arg[0]);
		return 1;
	case FAR_EVENT: {
		tcpx_event event = session_event(side->session, (int)cmd->arg[0]);

		reply->value[0] = (uint64_t)(int64_t)event.status;
		return 1;
	}
	case FAR_COUNTERS: {
		tcpx_counters *counters = (void *)reply->data;

		counters->sz = sizeof(*counters);
		reply->status = tcpx_session_counters(side->session, counters);
		reply->len = sizeof(*counters);
		return 1;
	}
	case FAR_PEER: {
		tcpx_peer_info *info = (void *)reply->data;

		info->sz = sizeof(*info);
		reply->status = tcpx_peer_query(side->session, side->peer, info);
		reply->len = sizeof(*info);
		return 1;
	}
	}
	return 0;
}

/* Memory. */
static int far_execute_memory(struct far_side *side, const struct far_cmd *cmd,
			      struct far_reply *reply)
{
	struct buf *buf = &side->buf[cmd->id % FAR_BUFS];
	struct place place = config.far_mem;

	switch (cmd->op) {
	case FAR_BUF: /* the last one's transfer may have ended for the near side only */
		if (side->region[cmd->id].id)
			(void)!tcpx_region_deregister(side->session, side->region[cmd->id],
						      LONG_NS);
		buf_free(buf);
		place.file |= cmd->arg[4] != 0;
		buf_make_at(buf, place, cmd->arg[2], cmd->arg[3]);
		reply->status = far_do_register(side, cmd, reply);
		return 1;
	case FAR_REGISTER:
		reply->status = far_do_register(side, cmd, reply);
		return 1;
	case FAR_CUT:
		buf_cut(buf, cmd->arg[0]);
		return 1;
	case FAR_DEREG:
		reply->status = tcpx_region_deregister(side->session, side->region[cmd->id],
						       (int64_t)cmd->arg[0]);
		return 1;
	case FAR_FILL:
		buf_fill(buf, cmd->arg[0], cmd->arg[1], cmd->arg[2], cmd->arg[3]);
		return 1;
	case FAR_PATTERN:
		reply->value[0] = (uint64_t)buf_check(buf, cmd->arg[0], cmd->arg[1], cmd->arg[2],
						      cmd->arg[3]);
		return 1;
	case FAR_BYTES:
		reply->value[0] =
			(uint64_t)buf_bytes(buf, cmd->arg[0], cmd->arg[1], (uint8_t)cmd->arg[2]);
		return 1;
	case FAR_SLACK:
		reply->value[0] = buf_slack_whole(buf);
		return 1;
	case FAR_RUN:
		reply->value[0] = buf_run(buf, 0, cmd->arg[0], POISON);
		return 1;
	case FAR_IMPORT:
		reply->status = tcpx_region_import(side->session, side->peer, cmd->data, cmd->len,
						   &side->remote[cmd->id]);
		return 1;
	}
	return 0;
}

/* As a helper of the application that never calls exec. The alarm ends one that a failed case
 * leaves. */
static uint64_t far_do_fork(void)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0) {
		signal(SIGALRM, SIG_DFL);
		alarm(100);
		for (;;)
			pause();
	}
	return (uint64_t)pid;
}

void far_execute(struct far_side *side, const struct far_cmd *cmd, struct far_reply *reply)
{
	memset(reply, 0, sizeof(*reply));
	if (far_execute_peer(side, cmd, reply) || far_execute_memory(side, cmd, reply))
		return;
	switch (cmd->op) {
	case FAR_START:
		reply->status = far_do_start(side, cmd);
		return;
	case FAR_POST:
		reply->status = tcpx_request_post(side->session, side->request[cmd->id]);
		return;
	case FAR_WAIT:
		reply->status = far_do_wait(side, cmd, reply);
		return;
	case FAR_CANCEL:
		reply->status = tcpx_request_cancel(side->session, side->request[cmd->id]);
		return;
	case FAR_RELEASE:
		reply->status = tcpx_request_release(side->session, side->request[cmd->id]);
		return;
	case FAR_NOTIFY_SEND:
		reply->status = far_do_notify_send(side, cmd);
		return;
	case FAR_NOTIFY_TAKE:
		reply->status = far_do_take(side, cmd, reply);
		return;
	case FAR_NOTIFY_DROP:
		far_do_drop(side, cmd->id);
		return;
	case FAR_FORK:
		reply->value[0] = far_do_fork();
		return;
	case FAR_PLAN: /* the destination of a list is in the buffers 0 .. */
		reply->value[0] = plan_compare((const void *)cmd->data, side->buf);
		return;
	}
	CHECK_MSG(0, "unknown far command %u", cmd->op);
}
