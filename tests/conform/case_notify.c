/* SPDX-License-Identifier: Apache-2.0 */
/* Notifications: sizes, order, attached ones after their bytes, budget. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "conform.h"

#define RW (TCPX_RIGHT_READ | TCPX_RIGHT_WRITE)

static tcpx_status notify(struct env *env, uint64_t bytes, uint64_t seed)
{
	void *data = malloc(bytes + 1);
	tcpx_status status;

	CHECK(data);
	pat_fill(data, bytes, seed, 0);
	status = tcpx_notify_send(env->session, env->peer, data, bytes);
	free(data); /* copied */
	return status;
}

static void nothing_there(struct env *env)
{
	struct far_take take = {.timeout_ns = 0};

	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	EXPECT(far_take(env, &take, NULL), TCPX_IN_PROGRESS);
}

static void case_notify_sizes(struct env *env)
{
	static const uint64_t sizes[] = {0,	1,     8,      100,	4096,	 16384,
					 16385, 65536, 524289, 3000001, 64 * MIB};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct far_take take = {.timeout_ns = LONG_NS, .seed = i + 1};
		uint64_t bytes = 99;

		OK(notify(env, sizes[i], i + 1));
		OK(far_take(env, &take, &bytes));
		CHECK_EQ(bytes, sizes[i]);
		OK(far_simple(env, FAR_NOTIFY_SEND, 0, sizes[i], i + 20, 0, 0));
		OK(near_take(env, i + 20, &bytes));
		CHECK_EQ(bytes, sizes[i]);
	}
	EXPECT(tcpx_notify_send(env->session, env->peer, "", TCPX_NOTIFY_MAX + 1ul),
	       TCPX_ERR_LIMIT);
	EXPECT(tcpx_notify_send(env->session, env->peer, NULL, 4), TCPX_ERR_INVALID);
	OK(tcpx_notify_send(env->session, env->peer, NULL, 0));
}

/* Standalone: first in, first out, large and small mixed, alone or as requests. */
static void case_notify_order(struct env *env)
{
	enum { COUNT = 600 };
	static tcpx_request request[COUNT];

	for (uint64_t i = 0; i < COUNT; i++) {
		uint64_t bytes = i % 10 == 9 ? 70000 + i : i % 10 == 5 ? 0 : i;

		if (i % 7 == 3) {
			uint8_t *data = malloc(bytes + 1);
			TCPX_OPTS(tcpx_request_opts, opts, .notify = data, .notify_bytes = bytes);

			CHECK(data);
			pat_fill(data, bytes, i + 1, 0);
			OK(tcpx_request_start(env->session, env->peer, TCPX_OP_NOTIFY, NULL, 0,
					      &opts, &request[i]));
			free(data);
		} else {
			OK(notify(env, bytes, i + 1));
		}
	}
	for (uint64_t i = 0; i < COUNT; i++) {
		struct far_take take = {.timeout_ns = LONG_NS, .seed = i + 1};
		uint64_t bytes = 0;

		OK(far_take(env, &take, &bytes));
		CHECK_EQ(bytes, i % 10 == 9 ? 70000 + i : i % 10 == 5 ? 0 : i);
	}
	for (uint64_t i = 3; i < COUNT; i += 7) {
		OK(near_wait(env, request[i], NULL));
		OK(tcpx_request_release(env->session, request[i]));
	}
	nothing_there(env);
}

/* Attached to a WRITE: when it can be taken, every byte is in place; exactly one comes. */
static void case_notify_write(struct env *env)
{
	static const uint64_t sizes[] = {1, 8, 8, 8192, 16385, 400000, 3000001, 20000000};
	static const uint32_t notes[] = {0, 4096, 4097, 5, 20000, 100, 2000000, 100};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct far_take take = {.timeout_ns = LONG_NS, .buf = 0, .len = sizes[i]};
		tcpx_segment segment = {.length = sizes[i]};
		uint8_t *data = malloc(notes[i] + 1);
		TCPX_OPTS(tcpx_request_opts, opts, .notify = data, .notify_bytes = notes[i],
			  .has_notify = 1);
		tcpx_request request;
		struct buf buf;

		CHECK(data);
		pat_fill(data, notes[i], i + 1, 0);
		buf_make(&buf, sizes[i], i);
		segment.local = near_register(env, &buf, 0);
		segment.remote = far_buf(env, 0, sizes[i], RW, 1);
		OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
					&request));
		memset(data, 0, notes[i]); /* prepare has copied it */
		free(data);
		for (uint64_t round = 0; round < 5; round++) {
			uint64_t bytes = 1 << 30;

			buf_fill(&buf, 0, buf.size, 100 + round, 0);
			OK(tcpx_request_post(env->session, request));
			take.seed = i + 1;
			take.want = 100 + round;
			OK(far_take(env, &take, &bytes));
			CHECK_EQ(bytes, notes[i]);
			OK(near_wait(env, request, NULL));
		}
		nothing_there(env);
		OK(tcpx_request_release(env->session, request));
		OK(tcpx_region_deregister(env->session, segment.local, 0));
		OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
		buf_free(&buf);
	}
}

/* Attached to a READ: it appears at the responder after the initiator has the data. */
static void case_notify_read(struct env *env)
{
	static const uint64_t sizes[] = {1, 16385, 5000001};

	for (size_t i = 0; i < 3; i++) {
		TCPX_OPTS(tcpx_request_opts, opts, .notify = "read", .notify_bytes = 4);
		struct far_take take = {.timeout_ns = LONG_NS};
		tcpx_segment segment = {.length = sizes[i]};
		tcpx_request request;
		uint64_t bytes;
		struct buf buf;

		buf_make(&buf, sizes[i], 2);
		segment.local = near_register(env, &buf, 0);
		segment.remote = far_buf(env, 0, sizes[i], RW, 0);
		far_fill(env, 0, 0, sizes[i], i + 1, 0);
		for (int round = 0; round < 3; round++) {
			buf_poison(&buf);
			OK(tcpx_request_start(env->session, env->peer, TCPX_OP_READ, &segment, 1,
					      &opts, &request));
			OK(far_take(env, &take, &bytes));
			CHECK_EQ(bytes, 4);
			CHECK_EQ(buf_check(&buf, 0, buf.size, i + 1, 0), -1);
			OK(near_wait(env, request, NULL));
			OK(tcpx_request_release(env->session, request));
		}
		nothing_there(env);
		OK(tcpx_region_deregister(env->session, segment.local, 0));
		OK(far_simple(env, FAR_DEREG, 0, 0, 0, 0, 0));
		buf_free(&buf);
	}
}

/* Many attached ones in flight: as many arrive as were attached, each with its own bytes. */
static void case_notify_many_attached(struct env *env)
{
	enum { COUNT = 50 };
	static bool seen[COUNT];
	uint64_t size = 250000;
	tcpx_request request[COUNT];
	tcpx_segment segment = {.length = size};
	struct buf buf;

	buf_make(&buf, COUNT * size, 0);
	buf_fill(&buf, 0, buf.size, 1, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, COUNT * size, RW, 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		TCPX_OPTS(tcpx_request_opts, opts, .notify = &i, .notify_bytes = sizeof(i));

		segment.local_offset = segment.remote_offset = i * size;
		OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
				      &request[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		struct far_cmd cmd = {.op = FAR_NOTIFY_TAKE};
		struct far_take take = {.timeout_ns = LONG_NS};
		struct far_reply reply;
		uint32_t which;

		memcpy(cmd.data, &take, sizeof(take));
		OK(far_call(env, &cmd, &reply));
		CHECK_EQ(reply.value[0], sizeof(which));
		memcpy(&which, reply.data, sizeof(which));
		CHECK(which < COUNT && !seen[which]);
		seen[which] = true;
		CHECK_EQ(far_pattern(env, 0, which * size, size, 1, which * size), -1);
	}
	nothing_there(env);
	for (int i = 0; i < COUNT; i++)
		OK(near_wait(env, request[i], NULL));
}

/* A transfer the target refused never notifies. */
static void case_notify_failed(struct env *env)
{
	TCPX_OPTS(tcpx_request_opts, opts, .notify = "never", .notify_bytes = 5);
	tcpx_segment segment[2] = {{.length = 100000}, {.length = 100000}}, small;
	struct far_take take = {.timeout_ns = 0};
	struct buf buf;

	buf_make(&buf, 100000, 0);
	segment[0].local = segment[1].local = near_register(env, &buf, 0);
	segment[0].remote = far_buf(env, 0, 100000, TCPX_RIGHT_WRITE, 0);
	segment[1].remote = far_buf(env, 1, 100000, TCPX_RIGHT_READ, 0);
	small = segment[1];
	small.length = 8;
	for (int i = 0; i < 10; i++) {
		EXPECT(near_run(env, TCPX_OP_WRITE, segment, 2, &opts), TCPX_ERR_REMOTE_RIGHTS);
		EXPECT(near_run(env, TCPX_OP_READ, segment, 1, &opts), TCPX_ERR_REMOTE_RIGHTS);
		EXPECT(near_run(env, TCPX_OP_WRITE, &small, 1, &opts), TCPX_ERR_REMOTE_RIGHTS);
	}
	OK(tcpx_notify_send(env->session, env->peer, "after", 5));
	take.timeout_ns = LONG_NS;
	OK(far_take(env, &take, NULL));
	nothing_there(env);
}

/* Credit for what the far side has released so far is back: all of ours has arrived there, and a
 * notification from there comes after the credit on the same lane. */
static void await_credit(struct env *env)
{
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	OK(far_simple(env, FAR_NOTIFY_SEND, 0, 1, 1, 0, 0));
	OK(near_take(env, 1, NULL));
}

/* Small ones leave with their notification, which the target drops and gives back: more of them
 * than its budget holds. */
static void case_notify_refused_budget(struct env *env)
{
	enum { NOTE = 4000, COUNT = 100 };
	static uint8_t text[60 * KIB];
	struct env_tune far = {.notify_budget = 64 * KIB};
	TCPX_OPTS(tcpx_request_opts, opts, .notify = text, .notify_bytes = NOTE);
	struct far_take take = {.timeout_ns = LONG_NS};
	tcpx_segment refused = {.length = 8}, segment = {.length = 8};
	tcpx_status status;
	uint64_t bytes;
	struct buf buf;

	env_open_tuned(env, NULL, &far);
	buf_make(&buf, 8, 0);
	buf_fill(&buf, 0, buf.size, 1, 0);
	refused.local = segment.local = near_register(env, &buf, 0);
	refused.remote = far_buf(env, 0, 8, TCPX_RIGHT_READ, 0);
	segment.remote = far_buf(env, 1, 8, RW, 0);
	for (int i = 0; i < COUNT; i++) {
		status = near_run(env, TCPX_OP_WRITE, &refused, 1, &opts);
		if (status == TCPX_ERR_AGAIN) { /* refusals are told before credit */
			await_credit(env);
			status = near_run(env, TCPX_OP_WRITE, &refused, 1, &opts);
		}
		EXPECT(status, TCPX_ERR_REMOTE_RIGHTS);
	}
	opts.notify_bytes = sizeof(text);
	while ((status = near_run(env, TCPX_OP_WRITE, &segment, 1, &opts)) == TCPX_ERR_AGAIN)
		await_credit(env); /* of nearly all of them */
	OK(status);
	OK(far_take(env, &take, &bytes));
	CHECK_EQ(bytes, sizeof(text));
	CHECK_EQ(far_pattern(env, 1, 0, 8, 1, 0), -1);
	nothing_there(env);
}

/* The budget is a number of bytes per peer: full means AGAIN, nothing stalls, it comes back. */
static void case_notify_budget(struct env *env)
{
	struct env_tune far = {.notify_budget = MIB};
	TCPX_OPTS(tcpx_request_opts, opts, .notify_bytes = 64 * KIB);
	struct far_take take = {.timeout_ns = LONG_NS, .hold = true};
	tcpx_segment segment = {.length = 100000};
	tcpx_request request;
	tcpx_status status;
	int sent = 0, taken;
	static uint8_t text[64 * KIB];
	struct buf buf;

	env_open_tuned(env, NULL, &far);
	buf_make(&buf, 100000, 0);
	buf_fill(&buf, 0, buf.size, 1, 0);
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 100000, RW, 0);
	while ((status = notify(env, 64 * KIB, 7)) == TCPX_OK)
		sent++;
	EXPECT(status, TCPX_ERR_AGAIN);
	CHECK(sent >= 8 && sent <= 16);
	opts.notify = text;
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
				&request));
	EXPECT(tcpx_request_post(env->session, request), TCPX_ERR_AGAIN);
	EXPECT(tcpx_request_test(env->session, request, NULL), TCPX_ERR_STATE); /* not started */
	OK(near_run(env, TCPX_OP_WRITE, &segment, 1, NULL)); /* channels do not stall */
	CHECK_EQ(far_pattern(env, 0, 0, 100000, 1, 0), -1);
	for (int round = 0; round < 3; round++) {
		for (taken = 0; taken < sent; taken++)
			OK(far_take(env, &take, NULL));
		EXPECT(notify(env, 64 * KIB, 7), TCPX_ERR_AGAIN); /* taken is not released */
		far_drop(env, 1);
		await_credit(env);
		OK(notify(env, 64 * KIB, 7));
		far_drop(env, 0);
		for (int i = 1; i < sent; i++) {
			status = notify(env, 64 * KIB, 7);
			if (status == TCPX_ERR_AGAIN) {
				await_credit(env);
				status = notify(env, 64 * KIB, 7);
			}
			OK(status);
		}
	}
	for (taken = 0; taken < sent; taken++)
		OK(far_take(env, &take, NULL));
	far_drop(env, 0);
	await_credit(env);
	OK(tcpx_request_post(env->session, request));
	OK(near_wait(env, request, NULL));
	take.hold = false;
	OK(far_take(env, &take, NULL));
	nothing_there(env);
}

struct repost {
	struct env *env;
	tcpx_request request;
	_Atomic bool over;
};

static void *await_again_and_again(void *arg)
{
	struct repost *repost = arg;

	while (!atomic_load(&repost->over))
		OK(tcpx_request_wait(repost->env->session, repost->request, TCPX_WAIT_FOREVER,
				     NULL));
	return NULL;
}

/* A post that fails leaves the last end as it was: its status, and those who wait; it is no end. */
static void case_notify_repost_fails(struct env *env)
{
	struct env_tune far = {.notify_budget = MIB};
	struct repost repost = {.env = env};
	TCPX_OPTS(tcpx_request_opts, opts, .notify_bytes = 64 * KIB, .queue = 1);
	tcpx_segment segment = {.length = 100000};
	tcpx_completion done = {.sz = sizeof(done)};
	tcpx_status status;
	pthread_t thread;
	static uint8_t text[64 * KIB];
	struct buf buf;

	env_open_tuned(env, NULL, &far);
	buf_make(&buf, 100000, 0);
	opts.notify = text;
	segment.local = near_register(env, &buf, 0);
	segment.remote = far_buf(env, 0, 100000, RW, 0);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, &opts,
			      &repost.request));
	OK(near_wait(env, repost.request, NULL));
	CHECK_EQ(tcpx_session_poll(env->session, &done, 1), 1);
	while ((status = notify(env, 64 * KIB, 7)) == TCPX_OK)
		;
	EXPECT(status, TCPX_ERR_AGAIN);
	CHECK(pthread_create(&thread, NULL, await_again_and_again, &repost) == 0);
	for (int i = 0; i < (config.light ? 1000 : 20000); i++) {
		EXPECT(tcpx_request_post(env->session, repost.request), TCPX_ERR_AGAIN);
		OK(tcpx_request_test(env->session, repost.request, &done));
		CHECK_EQ(done.bytes, segment.length);
	}
	atomic_store(&repost.over, true);
	CHECK(pthread_join(thread, NULL) == 0);
	CHECK_EQ(tcpx_session_poll(env->session, &done, 1), 0);
}

/* A single notification larger than the whole budget can never be sent: said at once. */
static void case_notify_over_budget(struct env *env)
{
	struct env_tune far = {.notify_budget = MIB};
	tcpx_status status;

	env_open_tuned(env, NULL, &far);
	status = notify(env, 4 * MIB, 1);
	CHECK_MSG(status == TCPX_ERR_LIMIT || status == TCPX_ERR_AGAIN, "%s",
		  tcpx_status_name(status));
	OK(notify(env, 100, 1));
}

static void case_notify_both_ways(struct env *env)
{
	for (uint64_t i = 0; i < 500; i++) {
		struct far_take take = {.timeout_ns = LONG_NS, .seed = i + 1};

		OK(notify(env, i, i + 1));
		OK(far_simple(env, FAR_NOTIFY_SEND, 0, i * 3, i + 9, 0, 0));
		OK(far_take(env, &take, NULL));
		OK(near_take(env, i + 9, NULL));
	}
}

/* A request is prepared once; what goes along with it is another thing each time. */
static void case_notify_changed(struct env *env)
{
	tcpx_segment segment = {.length = 1000};
	uint8_t data[1000] = {0}, word[100];
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_request request;
	uint64_t bytes;

	segment.local = near_host(env, data, sizeof(data), 0);
	segment.remote = far_buf(env, 0, sizeof(data), RW, 0);
	OK(tcpx_request_prepare(env->session, env->peer, TCPX_OP_WRITE, &segment, 1, NULL,
				&request));
	for (uint64_t seed = 1; seed <= 3; seed++) { /* before the first post, and between */
		pat_fill(word, sizeof(word), seed, 0);
		OK(tcpx_request_notify(env->session, request, word, seed * 10, 1));
		memset(word, 0, sizeof(word)); /* copied */
		OK(tcpx_request_post(env->session, request));
		OK(near_wait(env, request, NULL));
		OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS, .seed = seed}, &bytes));
		CHECK_EQ(bytes, seed * 10);
	}
	OK(tcpx_request_notify(env->session, request, NULL, 0, 1));
	OK(tcpx_request_post(env->session, request));
	OK(far_take(env, &(struct far_take){.timeout_ns = LONG_NS}, &bytes));
	CHECK_EQ(bytes, 0);
	OK(near_wait(env, request, NULL));
	OK(tcpx_request_notify(env->session, request, NULL, 0, 0));
	OK(tcpx_request_post(env->session, request));
	OK(near_wait(env, request, NULL));
	nothing_there(env);
	EXPECT(tcpx_request_notify(env->session, request, NULL, 1, 1), TCPX_ERR_INVALID);
	EXPECT(tcpx_request_notify(env->session, request, word, TCPX_NOTIFY_MAX + 1ul, 1),
	       TCPX_ERR_LIMIT);
	OK(tcpx_request_release(env->session, request));
	EXPECT(tcpx_request_notify(env->session, request, word, 1, 1), TCPX_ERR_STALE);
	OK(tcpx_request_start(env->session, env->peer, TCPX_OP_RECV, &segment, 1, NULL, &request));
	EXPECT(tcpx_request_notify(env->session, request, word, 1, 1), TCPX_ERR_INVALID);
	EXPECT(tcpx_request_notify(env->session, request, NULL, 0, 0), TCPX_ERR_STATE);
	/* whose it is, also once he is gone */
	OK(far_simple(env, FAR_NOTIFY_SEND, 0, 5, 1, 0, 0));
	OK(far_simple(env, FAR_FLUSH, 0, (uint64_t)LONG_NS, 0, 0, 0));
	OK(far_simple(env, FAR_CLOSE, 0, 0, 0, 0, 0));
	CHECK(is_peer_error(near_wait(env, request, NULL)));
	OK(tcpx_peer_disconnect(env->session, env->peer));
	OK(tcpx_notify_take(env->session, LONG_NS, &note));
	CHECK(!strcmp(note.name, "far"));
	CHECK_EQ(note.bytes, 5);
	tcpx_notification_release(env->session, &note);
	CHECK(!note.name && !note.data);
}

static char warned[512];

static void keep_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	if (strstr(line, "on their way"))
		snprintf(warned, sizeof(warned), "%s", line);
}

/* Who ends a link loses what the peer has not taken, which the log says; after a flush it says
 * nothing. */
static void case_notify_lost_at_the_end(struct env *env)
{
	struct far_take take = {.timeout_ns = LONG_NS};

	tcpx_log_set(keep_line, NULL, TCPX_LOG_WARN);
	OK(tcpx_notify_send(env->session, env->peer, "taken", 5));
	OK(tcpx_peer_flush(env->session, env->peer, LONG_NS));
	OK(far_take(env, &take, NULL));
	far_stop(env);
	for (int i = 0; i < 3; i++)
		OK(tcpx_notify_send(env->session, env->peer, "lost", 4));
	OK(tcpx_peer_disconnect(env->session, env->peer));
	CHECK_MSG(strstr(warned, "closed while 3 notifications"), "'%s'", warned);
	CHECK(strstr(warned, "tcpx_peer_flush()"));
	CHECK(kill(env->pid, SIGCONT) == 0);
	tcpx_log_set(NULL, NULL, TCPX_LOG_WARN);
}

/* A close waits for notifications that are on their way. If it returns before its 0.2 s are over,
 * the peer has all of them. */
static void case_notify_before_close(struct env *env)
{
	enum { COUNT = 20, BYTES = 256 * KIB };
	static uint8_t data[BYTES];
	int64_t begin_ns;
	uint64_t bytes;
	bool in_time;

	for (int i = 0; i < COUNT; i++)
		OK(tcpx_notify_send(env->session, env->peer, data, sizeof(data)));
	begin_ns = clock_now_ns();
	tcpx_session_close(env->session);
	in_time = clock_now_ns() - begin_ns < 200 * MS;
	env->session = NULL;
	for (int i = 0; i < COUNT && in_time; i++) {
		struct far_take take = {.timeout_ns = LONG_NS};

		OK(far_take(env, &take, &bytes));
		CHECK_EQ(bytes, BYTES);
	}
}

const struct case_row cases_notify[] = {
	{"notify_sizes", case_notify_sizes, 0},
	{"notify_order", case_notify_order, 0},
	{"notify_write", case_notify_write, 0},
	{"notify_read", case_notify_read, 0},
	{"notify_many_attached", case_notify_many_attached, 0},
	{"notify_failed", case_notify_failed, 0},
	{"notify_refused_budget", case_notify_refused_budget, CASE_BARE},
	{"notify_budget", case_notify_budget, CASE_BARE},
	{"notify_repost_fails", case_notify_repost_fails, CASE_BARE},
	{"notify_over_budget", case_notify_over_budget, CASE_BARE},
	{"notify_both_ways", case_notify_both_ways, 0},
	{"notify_changed", case_notify_changed, 0},
	{"notify_lost_at_the_end", case_notify_lost_at_the_end, CASE_TWO},
	{"notify_before_close", case_notify_before_close, CASE_TWO},
	{0},
};
