/* SPDX-License-Identifier: Apache-2.0 */
/* Two sessions between two GPUs while each call of the driver fails once: an error or the right
 * bytes, no hang, nothing left behind, and the caller's context stays current. */
#include <signal.h>

#include "cuda_rig.h"
#include <tcpx/tcpx.h>

#define BYTES ((1u << 20) + 4099)
#define PATIENCE_NS (50 * 1000000000LL) /* the guard against hangs, never a verdict about speed */

static const char *failing = "none"; /* what was injected */
static unsigned failing_nth;
static int failing_result;
static cuda_ctx mine; /* a context of the application, current all the time */
static cuda_ptr near, far;
static uint8_t *want, *got;

/* Each step has memory of its own: what a failed WRITE was to write may change until its owner
 * takes it back. */
enum step { STEP_WRITE, STEP_READ, STEP_SEND, STEP_RECV, STEPS };

#define FAIL(...)                                                                                  \
	do {                                                                                       \
		print_error("%s call %u with %d: ", failing, failing_nth, failing_result);         \
		fail_msg(__VA_ARGS__);                                                             \
	} while (0)

/* A public call must leave the context current that was; an error has a text. */
static tcpx_status called(tcpx_status status, const char *call)
{
	cuda_ctx now = NULL;

	if (api->ctx_current(&now) != CUDA_OK || now != mine)
		FAIL("%s leaves another context current", call);
	if (status < 0 && !tcpx_last_error()->what[0])
		FAIL("%s: %s without a text", call, tcpx_status_name(status));
	return status;
}
#define CALL(expr) called((expr), #expr)

struct side {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_region region;
	uint8_t token[TCPX_TOKEN_BYTES];
};

struct both {
	struct side client, server;
	tcpx_region remote;
};

static tcpx_status side_open(struct side *side, uint32_t flags, cuda_ptr at, uint32_t device)
{
	TCPX_OPTS(tcpx_session_opts, opts, .bind = "127.0.0.1", .flags = flags);
	TCPX_OPTS(tcpx_region_opts, memory, .kind = TCPX_MEM_CUDA, .device = device,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	tcpx_status status = CALL(tcpx_session_open(&opts, &side->session));

	if (status != TCPX_OK)
		return status;
	status = CALL(tcpx_region_register(side->session, (void *)(uintptr_t)at, STEPS * BYTES,
					   &memory, &side->region));
	if (status == TCPX_OK)
		status = CALL(tcpx_region_export(side->session, side->region, side->token));
	return status;
}

static tcpx_status both_connect(struct both *both)
{
	uint8_t info[TCPX_INFO_MAX_BYTES];
	tcpx_status status;
	uint16_t port;
	size_t len;

	status = CALL(tcpx_session_listen(both->server.session, NULL, &port));
	if (status == TCPX_OK)
		status = CALL(tcpx_session_info(both->server.session, info, sizeof(info), &len));
	if (status == TCPX_OK)
		status = CALL(tcpx_session_connect(both->client.session, info, len, NULL,
						   &both->client.peer));
	if (status == TCPX_OK)
		status = CALL(
			tcpx_session_accept(both->server.session, PATIENCE_NS, &both->server.peer));
	if (status == TCPX_OK)
		status = CALL(tcpx_region_import(both->client.session, both->client.peer,
						 both->server.token, TCPX_TOKEN_BYTES,
						 &both->remote));
	return status;
}

static tcpx_status finish(struct side *side, tcpx_request request)
{
	tcpx_status status = CALL(tcpx_request_wait(side->session, request, PATIENCE_NS, NULL));

	if (status == TCPX_IN_PROGRESS)
		FAIL("a request hangs");
	(void)CALL(tcpx_request_release(side->session, request));
	return status;
}

static tcpx_status start(struct both *both, enum step step, enum tcpx_op op, const char *note,
			 tcpx_request *out)
{
	TCPX_OPTS(tcpx_request_opts, opts, .notify = note, .notify_bytes = note ? strlen(note) : 0);
	tcpx_segment piece = {
		.local = both->client.region, .local_offset = step * BYTES, .length = BYTES};

	if (op == TCPX_OP_WRITE || op == TCPX_OP_READ) {
		piece.remote = both->remote;
		piece.remote_offset = step * BYTES;
	}
	return CALL(tcpx_request_start(both->client.session, both->client.peer, op, &piece, 1,
				       &opts, out));
}

static void memory_fill(cuda_ptr from, cuda_ptr to, enum step step)
{
	from += step * BYTES;
	to += step * BYTES;
	for (unsigned i = 0; i < BYTES; i++)
		want[i] = (uint8_t)(i * 13 + i / 1021 + step);
	memset(got, 0xee, BYTES);
	assert_int_equal(fake.write(to, got, BYTES), 0);
	assert_int_equal(fake.write(from, want, BYTES), 0);
}

static void memory_check(cuda_ptr at, enum step step, const char *what)
{
	assert_int_equal(fake.read(at + step * BYTES, got, BYTES), 0);
	if (memcmp(got, want, BYTES) != 0)
		FAIL("%s ended well with wrong bytes", what);
}

static unsigned both_write(struct both *both)
{
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_request request;

	memory_fill(near, far, STEP_WRITE);
	if (start(both, STEP_WRITE, TCPX_OP_WRITE, "written", &request) != TCPX_OK ||
	    finish(&both->client, request) != TCPX_OK)
		return 0;
	memory_check(far, STEP_WRITE, "WRITE");
	if (CALL(tcpx_notify_take(both->server.session, PATIENCE_NS, &note)) != TCPX_OK)
		FAIL("a WRITE without its notification");
	tcpx_notification_release(both->server.session, &note);
	return 1;
}

static unsigned both_read(struct both *both)
{
	tcpx_request request;

	memory_fill(far, near, STEP_READ);
	if (start(both, STEP_READ, TCPX_OP_READ, NULL, &request) != TCPX_OK ||
	    finish(&both->client, request) != TCPX_OK)
		return 0;
	memory_check(near, STEP_READ, "READ");
	return 1;
}

/* Towards the server, or back. */
static unsigned both_send(struct both *both, enum tcpx_op op)
{
	enum tcpx_op other = op == TCPX_OP_SEND ? TCPX_OP_RECV : TCPX_OP_SEND;
	enum step step = op == TCPX_OP_SEND ? STEP_SEND : STEP_RECV;
	tcpx_segment piece = {
		.local = both->server.region, .local_offset = step * BYTES, .length = BYTES};
	tcpx_status here, there;
	tcpx_request ours, theirs;

	if (op == TCPX_OP_SEND)
		memory_fill(near, far, step);
	else
		memory_fill(far, near, step);
	if (CALL(tcpx_request_start(both->server.session, both->server.peer, other, &piece, 1, NULL,
				    &theirs)) != TCPX_OK)
		return 0;
	here = start(both, step, op, NULL, &ours);
	if (here != TCPX_OK) { /* nobody comes */
		there = CALL(tcpx_request_cancel_wait(both->server.session, theirs, PATIENCE_NS));
		if (there == TCPX_IN_PROGRESS)
			FAIL("a cancelled request hangs");
		(void)CALL(tcpx_request_release(both->server.session, theirs));
		return 0;
	}
	here = finish(&both->client, ours);
	there = finish(&both->server, theirs);
	if ((op == TCPX_OP_SEND ? here : there) == TCPX_OK &&
	    (op == TCPX_OP_SEND ? there : here) != TCPX_OK)
		FAIL("a SEND ended well, its RECV with %s",
		     tcpx_status_name(op == TCPX_OP_SEND ? there : here));
	if (here != TCPX_OK || there != TCPX_OK)
		return 0;
	memory_check(op == TCPX_OP_SEND ? far : near, step, "RECV");
	return 1;
}

/* All of it: returns 1 where nothing failed. */
static unsigned run(uint32_t flags)
{
	struct both both = {0};
	unsigned good = 0;

	if (side_open(&both.server, flags, far, 1) == TCPX_OK &&
	    side_open(&both.client, flags, near, 0) == TCPX_OK && both_connect(&both) == TCPX_OK)
		good = both_write(&both) + both_read(&both) + both_send(&both, TCPX_OP_SEND) +
		       both_send(&both, TCPX_OP_RECV);
	if (both.client.session)
		tcpx_session_close(both.client.session);
	if (both.server.session)
		tcpx_session_close(both.server.session);
	(void)called(TCPX_OK, "tcpx_session_close");
	return good == 4;
}

static void no_line(void *arg, enum tcpx_log_level level, const char *line)
{
	(void)arg;
	(void)level;
	(void)line;
}

static int setup(void **state)
{
	cuda_device device[2];
	cuda_ctx ctx;

	(void)state;
	tcpx_log_set(no_line, NULL, TCPX_LOG_ERROR);
	want = malloc(BYTES);
	got = malloc(BYTES);
	assert_true(want && got);
	for (int i = 0; i < 2; i++) { /* the memory's, whatever the library does with its own */
		assert_int_equal(api->device_get(&device[i], i), CUDA_OK);
		assert_int_equal(api->ctx_retain(&ctx, device[i]), CUDA_OK);
	}
	near = rig_alloc(0, STEPS * BYTES);
	far = rig_alloc(1, STEPS * BYTES);
	assert_int_equal(api->ctx_create(&mine, 0, device[0]), CUDA_OK);
	return 0;
}

static int teardown(void **state)
{
	cuda_device device;

	(void)state;
	assert_int_equal(api->ctx_destroy(mine), CUDA_OK);
	mine = NULL;
	rig_free(0, near);
	rig_free(1, far);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(api->device_get(&device, i), CUDA_OK);
		assert_int_equal(api->ctx_release(device), CUDA_OK);
	}
	free(want);
	free(got);
	tcpx_log_set(NULL, NULL, TCPX_LOG_WARN);
	return fake.live(NULL) != 0;
}

/* Returns whether the transfers felt it. */
static int fail_once(const char *symbol, unsigned nth, int result, uint32_t flags, unsigned live)
{
	struct fakecuda_live left;
	int felt;

	failing = symbol;
	failing_nth = nth;
	failing_result = result;
	assert_int_equal(fake.fail_call(symbol, nth, result), 0);
	felt = !run(flags);
	fake.fail_call(symbol, 1, 0);
	/* A close waits a second for threads that let things go. */
	if (fake.settle(live) != live && fake.live(&left) != live)
		FAIL("leaves %d: contexts %u host %u registrations %u streams %u events %u",
		     (int)(fake.live(NULL) - live), left.contexts, left.host, left.registrations,
		     left.streams, left.events);
	return felt;
}

/* The first, the second, one in the middle and the last call of each, over tcp and inside the
 * process in turn, with one result after the other; by TEST_LONG=1 all with all. */
static void every_call_fails_once(void **state)
{
	static const int results[] = {CUDA_ERR_OUT_OF_MEMORY, CUDA_ERR_LAUNCH_FAILED,
				      CUDA_ERR_INVALID_VALUE};
	static const uint32_t ways[] = {TCPX_SESSION_NO_LOCAL, TCPX_SESSION_LOCAL_ONLY};
	const char *text = getenv("TEST_LONG");
	unsigned live = fake.live(NULL), felt = 0, not = 0, turn = 0;
	int longer = text && strcmp(text, "1") == 0;
	uint64_t calls[RIG_SYMBOLS][2];

	(void)state;
	for (int way = 0; way < 2; way++) {
		for (size_t i = 0; i < RIG_SYMBOLS; i++)
			calls[i][way] = fake.calls(rig_symbols[i]);
		assert_true(run(ways[way]));
		assert_int_equal(fake.settle(live), live);
		for (size_t i = 0; i < RIG_SYMBOLS; i++)
			calls[i][way] = fake.calls(rig_symbols[i]) - calls[i][way];
	}
	for (size_t i = 0; i < RIG_SYMBOLS; i++) {
		if (strcmp(rig_symbols[i], "cuCtxGetCurrent") == 0) /* only this test asks */
			continue;
		for (unsigned all = 0; all < 24; all++) {
			unsigned way = all % 2, result = all / 2 % 3, which = all / 6;
			uint64_t count = calls[i][way];
			uint64_t nth[] = {1, 2, count / 2, count};

			if (!nth[which] || nth[which] > count ||
			    (which && nth[which] <= nth[which - 1]))
				continue;
			if (!longer && (result != (which + i) % 3 || way != (which + i / 3) % 2))
				continue;
			if (fail_once(rig_symbols[i], (unsigned)nth[which], results[result],
				      ways[way], live))
				felt++;
			else
				not ++;
			turn++;
		}
	}
	print_message("%u failures: %u ended something, %u nothing\n", turn, felt, not );
	assert_true(felt > 0);
	failing = "none";
	assert_true(run(ways[0]) && run(ways[1]));
	assert_int_equal(fake.settle(live), live);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(every_call_fails_once, setup, teardown),
	};

	/* pools as small as they may be: each run makes its own */
	if (setenv("TCPX_STAGING_BYTES", "8M", 1) || rig_open())
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
