/* SPDX-License-Identifier: Apache-2.0 */
/* A flow with queue ends in whatever order its completions reach the queue. The session is the
 * test's own: a request has ended when it is waited for, and the queue tells of it later. */
#include "perf_flow.h"
#include "unit.h"

#define TRANSFERS 4
#define SIZE 64

static struct {
	void *user[TRANSFERS];
	int in_flight[TRANSFERS];
	uint32_t prepared, posted, ended;
	uint32_t used;	/* transfers of the run */
	uint32_t last;	/* request whose first completion reaches the queue after all others */
	int last_ended; /* it has */
	int told_none;	/* a poll found nothing since all others have ended */
} fake;

tcpx_status __wrap_tcpx_request_prepare(tcpx_session *session, tcpx_peer peer, enum tcpx_op op,
					const tcpx_segment *segments, size_t count,
					const tcpx_request_opts *opts, tcpx_request *out);
tcpx_status __wrap_tcpx_request_post(tcpx_session *session, tcpx_request request);
tcpx_status __wrap_tcpx_request_wait(tcpx_session *session, tcpx_request request, int64_t timeout,
				     tcpx_completion *out);
int __wrap_tcpx_session_poll(tcpx_session *session, tcpx_completion *out, int max);
tcpx_status __wrap_tcpx_request_release(tcpx_session *session, tcpx_request request);

tcpx_status __wrap_tcpx_request_prepare(tcpx_session *session, tcpx_peer peer, enum tcpx_op op,
					const tcpx_segment *segments, size_t count,
					const tcpx_request_opts *opts, tcpx_request *out)
{
	(void)session, (void)peer, (void)op, (void)segments;
	assert_int_equal(count, 1);
	assert_true(opts->queue);
	fake.user[fake.prepared] = opts->user;
	out->id = ++fake.prepared;
	return TCPX_OK;
}

tcpx_status __wrap_tcpx_request_post(tcpx_session *session, tcpx_request request)
{
	(void)session;
	assert_false(fake.in_flight[request.id - 1]);
	fake.in_flight[request.id - 1] = 1;
	fake.posted++;
	return TCPX_OK;
}

tcpx_status __wrap_tcpx_request_wait(tcpx_session *session, tcpx_request request, int64_t timeout,
				     tcpx_completion *out)
{
	(void)session, (void)timeout;
	assert_true(fake.in_flight[request.id - 1]);
	out->bytes = SIZE;
	return TCPX_OK;
}

int __wrap_tcpx_session_poll(tcpx_session *session, tcpx_completion *out, int max)
{
	int got = 0;

	(void)session;
	for (uint32_t i = 0; i < fake.prepared && got < max; i++) {
		int late = i == fake.last && !fake.last_ended && !fake.told_none;

		if (!fake.in_flight[i] || late)
			continue;
		fake.in_flight[i] = 0;
		fake.last_ended |= i == fake.last;
		fake.ended++;
		out[got++] = (tcpx_completion){.sz = sizeof(*out),
					       .request = {i + 1},
					       .status = TCPX_OK,
					       .bytes = SIZE,
					       .user = fake.user[i]};
	}
	fake.told_none |= !got && fake.ended + 1 == fake.used;
	return got;
}

tcpx_status __wrap_tcpx_request_release(tcpx_session *session, tcpx_request request)
{
	(void)session, (void)request;
	return TCPX_OK;
}

static void the_queue_may_tell_of_any_request_last(void **state)
{
	struct perf_layout layout;

	(void)state;
	assert_int_equal(perf_layout_init(&layout, TRANSFERS * SIZE, SIZE, 1, 0), 0);
	for (uint32_t depth = 2; depth <= TRANSFERS; depth++)
		for (uint32_t last = 0; last < depth; last++) {
			struct perf_flow_opts opts = {
				.op = TCPX_OP_WRITE, .layout = &layout, .depth = depth, .queue = 1};
			struct perf_samples samples = {0};
			struct perf_flow flow;
			int64_t elapsed = -1;

			memset(&fake, 0, sizeof(fake));
			fake.used = 10 * TRANSFERS;
			fake.last = last;
			assert_int_equal(perf_flow_open(&flow, &opts), TCPX_OK);
			assert_int_equal(perf_flow_run(&flow, fake.used, &samples, &elapsed),
					 TCPX_OK);
			assert_true(elapsed >= 0);
			assert_int_equal(samples.count, fake.used);
			assert_int_equal(fake.posted, fake.used);
			assert_int_equal(fake.ended, fake.used);
			perf_flow_close(&flow);
			perf_samples_free(&samples);
		}
	perf_layout_fini(&layout);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_queue_may_tell_of_any_request_last),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
