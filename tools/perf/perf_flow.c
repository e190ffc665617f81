/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers of one direction: prepare, run a window, receive a window. */
#include "perf_flow.h"

#include <stdlib.h>

#include <tcpx/session.h>

#include "base/clock.h"
#include "base/error.h"
#include "cli_output.h"
#include "perf_message.h"

#define SLICE_NS (100 * CLOCK_MS_NS) /* how often Ctrl-C is checked */
#define STEP_NS (60 * CLOCK_S_NS)    /* longest time of a transfer */
#define DEPTH_MAX 1024

/* The local segment is source or destination by the direction of the bytes; the peer's is the
 * other one. */
static void segment_set(tcpx_segment *s, const struct perf_flow_opts *o, uint32_t piece)
{
	uint64_t src = perf_layout_src(o->layout, piece), dst = perf_layout_dst(o->layout, piece);
	int out = o->op == TCPX_OP_WRITE || o->op == TCPX_OP_SEND;

	s->local = o->local;
	s->remote = o->remote;
	s->local_offset = out ? src : dst;
	s->remote_offset = out ? dst : src;
	s->length = o->layout->piece;
}

tcpx_status perf_flow_open(struct perf_flow *flow, const struct perf_flow_opts *opts)
{
	static const uint8_t pong = PERF_PONG;
	TCPX_OPTS(tcpx_request_opts, more, .queue = opts->queue != 0);
	const struct perf_layout *layout = opts->layout;
	tcpx_segment *segments = calloc(layout->batch, sizeof(*segments));
	uint32_t depth = opts->depth < DEPTH_MAX ? opts->depth : DEPTH_MAX;
	uint32_t most = PERF_PIECES_MAX / layout->batch, least = depth < most ? depth : most;
	uint32_t count = opts->share && layout->transfers < least ? least : layout->transfers;
	tcpx_status status = TCPX_OK;

	*flow = (struct perf_flow){
		.session = opts->session,
		.peer = opts->peer,
		.requests = calloc(count, sizeof(*flow->requests)),
		.idle = calloc(count, sizeof(*flow->idle)),
		.posted = calloc(count, sizeof(*flow->posted)),
		.depth = depth,
		.queue = opts->queue,
		.size = layout->size,
		.deadline_ns = opts->deadline_ns,
	};
	if (opts->pong) {
		more.notify = &pong;
		more.notify_bytes = 1;
	}
	if (!segments || !flow->requests || !flow->idle || !flow->posted)
		status = error_set(TCPX_ERR_NO_MEMORY, 0, "requests of a row");
	for (uint32_t t = 0; status == TCPX_OK && t < count; t++) {
		for (uint32_t i = 0; i < layout->batch; i++)
			segment_set(&segments[i], opts, t % layout->transfers * layout->batch + i);
		more.user = (void *)(uintptr_t)t;
		status = tcpx_request_prepare(opts->session, opts->peer, opts->op, segments,
					      layout->batch, &more, &flow->requests[t]);
		if (status == TCPX_OK)
			flow->prepared++;
	}
	free(segments);
	if (status != TCPX_OK)
		perf_flow_close(flow);
	return status;
}

void perf_flow_close(struct perf_flow *flow)
{
	for (uint32_t i = 0; i < flow->prepared; i++)
		tcpx_request_release(flow->session, flow->requests[i]);
	free(flow->requests);
	free(flow->idle);
	free(flow->posted);
	*flow = (struct perf_flow){0};
}

/* Waits for one request in slices, to check Ctrl-C and the deadline. */
static tcpx_status wait_one(struct perf_flow *flow, tcpx_request request, int64_t limit_ns)
{
	for (;;) {
		tcpx_completion done = {.sz = sizeof(done)};
		tcpx_status status = tcpx_request_wait(flow->session, request, SLICE_NS, &done);

		if (status == TCPX_OK && (done.bytes != flow->size))
			return error_set(TCPX_ERR_INTERNAL, 0,
					 "a transfer of %llu bytes ended well after %llu",
					 (unsigned long long)flow->size,
					 (unsigned long long)done.bytes);
		if (status < 0) {
			flow->error.sz = sizeof(flow->error);
			if (tcpx_request_error(flow->session, request, &flow->error) == TCPX_OK)
				return error_raise(&flow->error);
			return status;
		}
		if (status == TCPX_OK)
			return TCPX_OK;
		if (cli_interrupted)
			return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
		if (clock_now_ns() > limit_ns)
			return error_set(TCPX_ERR_TIMED_OUT, 0,
					 "a transfer of %llu bytes did not end in time",
					 (unsigned long long)flow->size);
	}
}

static int64_t step_limit(const struct perf_flow *flow, int64_t now)
{
	int64_t limit = now + STEP_NS;

	return flow->deadline_ns && flow->deadline_ns < limit ? flow->deadline_ns : limit;
}

struct active {
	uint32_t index;
	int64_t posted_ns;
};

/* Requests in flight. */
struct flight {
	struct active list[DEPTH_MAX];
	uint32_t count;
	/* counted since the window began; also the two ends of the ring of idle requests */
	uint64_t posted, ended;
};

static tcpx_status post_next(struct perf_flow *flow, struct flight *f)
{
	uint32_t index = flow->idle[f->posted % flow->prepared];

	f->list[f->count] = (struct active){index, clock_now_ns()};
	f->count++;
	f->posted++;
	return tcpx_request_post(flow->session, flow->requests[index]);
}

/* Removes requests that have ended from the list; the first one has. */
static tcpx_status sweep(struct perf_flow *flow, struct flight *f, int64_t now,
			 struct perf_samples *samples)
{
	struct active *list = f->list;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < f->count; i++) {
		tcpx_request request = flow->requests[list[i].index];
		tcpx_status status = TCPX_OK;

		if (i)
			status = tcpx_request_test(flow->session, request, NULL);
		if (status == TCPX_IN_PROGRESS) {
			list[kept++] = list[i];
			continue;
		}
		if (status != TCPX_OK)
			return wait_one(flow, request, now); /* sets the last error */
		perf_samples_add(samples, (uint64_t)(now - list[i].posted_ns));
		flow->idle[f->ended++ % flow->prepared] = list[i].index;
	}
	f->count = kept;
	return TCPX_OK;
}

static tcpx_status perf_flow_stopped(void)
{
	if (cli_interrupted)
		return error_set(TCPX_ERR_CANCELLED, 0, "interrupted");
	return error_set(TCPX_ERR_TIMED_OUT, 0, "the time of --timeout is over");
}

/* perf_flow_run() for a flow with queue. It sleeps until the oldest request has ended and then
 * takes all that have; waiting for any completion would wake up for each. */
static tcpx_status run_queued(struct perf_flow *flow, uint32_t used, struct perf_samples *samples,
			      int64_t *out_elapsed_ns)
{
	tcpx_completion ends[64] = {{.sz = sizeof(ends[0])}};
	int64_t start = clock_now_ns(), now = start;
	int64_t limit = flow->deadline_ns ? flow->deadline_ns : INT64_MAX;
	uint32_t most = flow->depth < flow->prepared ? flow->depth : flow->prepared;
	uint64_t posted = 0, ended = 0;
	struct list_node in_flight;
	tcpx_status status = TCPX_OK;
	int got;

	list_init(&in_flight);
	while (ended < used) {
		struct perf_posted *oldest;

		for (; posted < used && posted - ended < most; posted++) {
			uint32_t index = flow->idle[posted % flow->prepared];

			flow->posted[index].ns = clock_now_ns();
			list_push_back(&in_flight, &flow->posted[index].node);
			status = tcpx_request_post(flow->session, flow->requests[index]);
			if (status != TCPX_OK)
				return status;
		}
		oldest = LIST_ENTRY(in_flight.next, struct perf_posted, node);
		status = wait_one(flow, flow->requests[oldest - flow->posted],
				  step_limit(flow, now));
		now = clock_now_ns();
		if (status == TCPX_OK && (cli_interrupted || now > limit))
			status = perf_flow_stopped();
		if (status != TCPX_OK)
			return status;
		while ((got = tcpx_session_poll(flow->session, ends, 64)) > 0)
			for (int i = 0; i < got; i++) {
				uint32_t index = (uint32_t)(uintptr_t)ends[i].user;

				if (ends[i].status != TCPX_OK || ends[i].bytes != flow->size)
					return wait_one(flow, ends[i].request, now); /* says why */
				perf_samples_add(samples, (uint64_t)(now - flow->posted[index].ns));
				list_remove(&flow->posted[index].node);
				flow->idle[ended++ % flow->prepared] = index;
			}
		if (got < 0)
			return (tcpx_status)got;
	}
	*out_elapsed_ns = now - start;
	return TCPX_OK;
}

tcpx_status perf_flow_run(struct perf_flow *flow, uint32_t used, struct perf_samples *samples,
			  int64_t *out_elapsed_ns)
{
	struct flight f = {.count = 0};
	int64_t start = clock_now_ns(), now = start;
	int64_t limit = flow->deadline_ns ? flow->deadline_ns : INT64_MAX;
	tcpx_status status;

	if (perf_samples_reserve(samples, used))
		return error_set(TCPX_ERR_NO_MEMORY, 0, "samples");
	for (uint32_t i = 0; i < flow->prepared; i++)
		flow->idle[i] = i;
	if (flow->queue)
		return run_queued(flow, used, samples, out_elapsed_ns);
	while (f.posted < used || f.count) {
		while (f.posted < used && f.count < flow->depth &&
		       f.posted - f.ended < flow->prepared) {
			status = post_next(flow, &f);
			if (status != TCPX_OK)
				return status;
		}
		status = wait_one(flow, flow->requests[f.list[0].index], step_limit(flow, now));
		now = clock_now_ns();
		if (status == TCPX_OK && (cli_interrupted || now > limit))
			status = perf_flow_stopped();
		if (status == TCPX_OK)
			status = sweep(flow, &f, now, samples);
		if (status != TCPX_OK)
			return status;
	}
	*out_elapsed_ns = now - start;
	return TCPX_OK;
}

tcpx_status perf_flow_post(struct perf_flow *flow, uint32_t used)
{
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; status == TCPX_OK && i < used; i++)
		status = tcpx_request_post(flow->session, flow->requests[i]);
	return status;
}

tcpx_status perf_flow_wait(struct perf_flow *flow, uint32_t used)
{
	tcpx_status status = TCPX_OK;

	for (uint32_t i = 0; status == TCPX_OK && i < used; i++)
		status = wait_one(flow, flow->requests[i], step_limit(flow, clock_now_ns()));
	return status;
}
