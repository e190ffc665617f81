/* SPDX-License-Identifier: Apache-2.0 */
/* --op notify: a notification there and back; half of the time is one way. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "perf_lines.h"
#include "perf_pattern.h"
#include "perf_row.h"

#define BATCH 256		  /* most round trips between two requests to the other end */
#define BATCH_BYTES (16ull << 20) /* and about as many bytes */
#define WARM_UP_SHARE 0.1	  /* share of --time, if given */
#define SLICE_NS (50 * CLOCK_MS_NS)
#define STEP_NS (60 * CLOCK_S_NS)

struct echo {
	struct perf_client *client;
	const struct perf_row_plan *plan;
	struct perf_result *result;
	struct perf_samples samples;
	uint8_t *message;
	uint64_t sent;
};

/* Waits for the notification that comes back and compares it. */
static tcpx_status take_back(struct echo *e, int64_t *out_now)
{
	int64_t limit = clock_now_ns() + perf_time_left(e->client, STEP_NS);
	tcpx_notification note = {.sz = sizeof(note)};
	tcpx_status status;

	for (;;) {
		status = tcpx_notify_take(e->client->session, SLICE_NS, &note);
		*out_now = clock_now_ns();
		if (status != TCPX_IN_PROGRESS)
			break;
		status = perf_peer_lost(e->client);
		if (status != TCPX_OK)
			return status;
		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (*out_now > limit)
			return error_set(TCPX_ERR_TIMED_OUT, 0, "a notification did not come back");
	}
	if (status != TCPX_OK)
		return status;
	if (e->plan->inject && !e->result->wrong_bytes)
		e->message[e->plan->size - 1] ^= 1;
	if (e->plan->check) {
		uint64_t wrong = note.bytes != e->plan->size;

		for (size_t i = 0; i < note.bytes && i < e->plan->size; i++)
			wrong += ((const uint8_t *)note.data)[i] != e->message[i];
		e->result->wrong_bytes += wrong;
	}
	tcpx_notification_release(e->client->session, &note);
	return TCPX_OK;
}

static tcpx_status round_trip(struct echo *e)
{
	int64_t start, now;
	tcpx_status status;

	perf_pattern_fill(e->message, 0, e->plan->size,
			  perf_pattern_key(e->plan->seed, e->sent++, 0));
	e->message[0] = PERF_ECHO;
	start = clock_now_ns();
	while ((status = tcpx_notify_send(e->client->session, e->client->peer, e->message,
					  e->plan->size)) == TCPX_ERR_AGAIN) {
		status = perf_go_on(e->client);
		if (status != TCPX_OK)
			return status;
	}
	if (status == TCPX_OK)
		status = take_back(e, &now);
	if (status == TCPX_OK)
		perf_samples_add(&e->samples, (uint64_t)(now - start));
	return status;
}

/* Makes up to count round trips, at least one, until limit_ns. */
static tcpx_status run_batch(struct echo *e, uint64_t count, int64_t limit_ns)
{
	struct perf_window window = {0};
	struct perf_result *r = e->result;
	struct perf_verdict verdict = {0};
	struct perf_meter meter, remote;
	double before = e->samples.sum;
	uint64_t done = 0;
	tcpx_status status;

	if (perf_samples_reserve(&e->samples, count))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "samples");
	status = perf_ask(e->client, PERF_ARM, &window, sizeof(window), NULL, 0);
	meter = perf_meter_start(e->client->session, e->client->peer);
	while (status == TCPX_OK && done < count && (!done || clock_now_ns() < limit_ns)) {
		status = round_trip(e);
		done++;
	}
	meter = perf_meter_stop(&meter, e->client->session, e->client->peer);
	if (status == TCPX_OK)
		status = perf_ask(e->client, PERF_END, &window, sizeof(window), &verdict,
				  sizeof(verdict));
	if (status != TCPX_OK)
		return status;
	remote = (struct perf_meter){.cpu_ns = verdict.cpu_ns};
	perf_meter_add(&r->local, &meter);
	perf_meter_add(&r->remote, &remote);
	if (e->plan->perf_lines)
		perf_lines_window(r->iters, done, (uint64_t)((e->samples.sum - before) / 2),
				  e->samples.values + e->samples.count - done, 0.5);
	r->iters += done;
	r->elapsed_ns = (uint64_t)e->samples.sum;
	/* counts both ways, since the bytes went there and back */
	r->bytes_per_second = (double)r->iters * (double)e->plan->size * 2e9 / e->samples.sum;
	return TCPX_OK;
}

tcpx_status perf_echo_run(struct perf_client *client, const struct perf_row_plan *plan,
			  void (*progress)(void *arg, double share, double bytes_per_second),
			  void *arg, struct perf_result *out)
{
	struct echo e = {.client = client, .plan = plan, .result = out};
	uint64_t batch = BATCH_BYTES / plan->size;
	int64_t began = clock_now_ns(), limit = INT64_MAX;
	tcpx_status status;
	double share = 0;

	memset(out, 0, sizeof(*out));
	e.message = malloc(plan->size);
	if (!e.message)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "a notification");
	batch = batch > BATCH ? BATCH : batch ? batch : 1;
	if (plan->iters && plan->iters < batch)
		batch = plan->iters;
	if (!plan->iters)
		limit = began + (int64_t)(plan->seconds * WARM_UP_SHARE * 1e9);
	status = run_batch(&e, batch, limit);
	/* the first batch warmed up */
	*out = (struct perf_result){.wrong_bytes = out->wrong_bytes};
	e.samples.count = 0;
	e.samples.sum = 0;
	began = clock_now_ns();
	if (!plan->iters)
		limit = began + (int64_t)(plan->seconds * 1e9);
	while (status == TCPX_OK && share < 1) {
		uint64_t left = plan->iters ? plan->iters - out->iters : batch;

		progress(arg, share, out->bytes_per_second);
		status = perf_go_on(client);
		if (status == TCPX_OK)
			status = run_batch(&e, left < batch ? left : batch, limit);
		share = plan->iters ? (double)out->iters / (double)plan->iters
				    : (double)(clock_now_ns() - began) / (plan->seconds * 1e9);
	}
	if (status == TCPX_OK)
		out->time = perf_samples_summary(&e.samples, 0.5);
	perf_samples_free(&e.samples);
	free(e.message);
	return status;
}
