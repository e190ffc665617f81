/* SPDX-License-Identifier: Apache-2.0 */
/* What the completion queue costs the caller: a completion taken, by requests in flight; a post of
 * many against a loop of posts. */
#include "bench_pair.h"
#include "bench_util.h"

#define MOST 10000
#define BATCH 64
#define ROUNDS 15

static tcpx_request requests[MOST];
static tcpx_status statuses[MOST];

static void prepare(struct bench_pair *pair)
{
	TCPX_OPTS(tcpx_request_opts, opts, .queue = 1);

	for (uint32_t i = 0; i < MOST; i++) {
		tcpx_segment segment = {.local = pair->near_region,
					.local_offset = i * 64,
					.remote = pair->far_region,
					.remote_offset = i * 64,
					.length = 64};

		must("prepare", tcpx_request_prepare(pair->session, pair->peer, TCPX_OP_WRITE,
						     &segment, 1, &opts, &requests[i]));
	}
}

/* Nanoseconds of the caller for each post. */
static double post(struct bench_pair *pair, uint32_t count, int many)
{
	int64_t begin = now_ns();

	if (many)
		must("post", tcpx_request_post_many(pair->session, requests, count, statuses));
	else
		for (uint32_t i = 0; i < count; i++)
			must("post", tcpx_request_post(pair->session, requests[i]));
	return (double)(now_ns() - begin) / count;
}

/* Nanoseconds for each completion, all of which wait. */
static double take(struct bench_pair *pair, uint32_t count)
{
	tcpx_completion done[BATCH] = {{.sz = sizeof(done[0])}};
	uint32_t taken = 0;
	int64_t begin;

	must("flush", tcpx_peer_flush(pair->session, pair->peer, TCPX_WAIT_FOREVER));
	begin = now_ns();
	while (taken < count) {
		int got = tcpx_session_poll(pair->session, done, BATCH);

		if (got <= 0)
			die("poll");
		for (int i = 0; i < got; i++)
			must("request", done[i].status);
		taken += (uint32_t)got;
	}
	return (double)(now_ns() - begin) / count;
}

static void measure(struct bench_pair *pair, uint32_t count, const char *end)
{
	int64_t one[ROUNDS], many[ROUNDS], polls[2 * ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		one[i] = (int64_t)post(pair, count, 0);
		polls[2 * i] = (int64_t)take(pair, count);
		many[i] = (int64_t)post(pair, count, 1);
		polls[2 * i + 1] = (int64_t)take(pair, count);
	}
	printf("{\"requests\": %u, \"post_ns\": %lld, \"post_many_ns\": %lld, \"poll_ns\": %lld}%s",
	       count, (long long)percentile(one, ROUNDS, 0.5),
	       (long long)percentile(many, ROUNDS, 0.5),
	       (long long)percentile(polls, 2 * ROUNDS, 0.5), end);
}

int main(void)
{
	struct bench_pair pair;

	bench_pair_open(&pair, MOST * 64, 0);
	prepare(&pair);
	printf("[");
	measure(&pair, 100, ",\n ");
	measure(&pair, 1000, ",\n ");
	measure(&pair, MOST, "]\n");
	bench_pair_close(&pair);
	return 0;
}
