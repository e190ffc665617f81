/* SPDX-License-Identifier: Apache-2.0 */
/* --op pingpong: a WRITE with a notification, answered by another one; half of the time is one
 * way. */
#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "perf_row.h"

#define SLICE_NS (50 * CLOCK_MS_NS)
#define STEP_NS (60 * CLOCK_S_NS)

/* A WRITE that failed gets no answer. */
static tcpx_status still_well(struct perf_client *client, tcpx_request request, int64_t limit_ns)
{
	tcpx_error error = {.sz = sizeof(error)};
	tcpx_status status = tcpx_request_test(client->session, request, NULL);

	if (status < 0 && tcpx_request_error(client->session, request, &error) == TCPX_OK)
		return error_raise(&error);
	if (status < 0)
		return status;
	status = perf_peer_lost(client);
	if (status == TCPX_OK)
		status = perf_go_on(client);
	if (status == TCPX_OK && clock_now_ns() > limit_ns)
		return error_set(TCPX_ERR_TIMED_OUT, 0, "a WRITE was not answered");
	return status;
}

static tcpx_status perf_pong_take_answer(struct perf_client *client, tcpx_request request)
{
	int64_t limit = clock_now_ns() + perf_time_left(client, STEP_NS);
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;

	for (;;) {
		status = tcpx_notify_take(client->session, SLICE_NS, &note);
		if (status == TCPX_OK) {
			int is_pong = note.bytes && *(const uint8_t *)note.data == PERF_PONG;

			tcpx_notification_release(client->session, &note);
			if (is_pong)
				return TCPX_OK;
			continue; /* an answer to a request that was given up */
		}
		if (status < 0)
			return status;
		status = still_well(client, request, limit);
		if (status != TCPX_OK)
			return status;
	}
}

tcpx_status perf_pong_run(struct perf_client *client, struct perf_flow *flow, uint32_t used,
			  struct perf_samples *samples, int64_t *out_elapsed_ns)
{
	int64_t start = clock_now_ns(), before = start, now = start;
	tcpx_status status = TCPX_OK;

	if (perf_samples_reserve(samples, used))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "samples");
	for (uint32_t i = 0; status == TCPX_OK && i < used; i++) {
		before = clock_now_ns();
		status = tcpx_request_post(client->session, flow->requests[i]);
		if (status == TCPX_OK)
			status = perf_pong_take_answer(client, flow->requests[i]);
		now = clock_now_ns();
		perf_samples_add(samples, (uint64_t)(now - before));
		if (status == TCPX_OK && cli_interrupted)
			status = perf_go_on(client);
	}
	if (status == TCPX_OK)
		status = perf_flow_wait(flow, used);
	if (status == TCPX_OK)
		*out_elapsed_ns = now - start;
	return status;
}
