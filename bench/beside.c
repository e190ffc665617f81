/* SPDX-License-Identifier: Apache-2.0 */
/* Small writes beside a large one to the same peer: how long 8 bytes take meanwhile. */
#include "bench_pair.h"
#include "bench_util.h"

#define MEMORY_BYTES (256ull << 20)
#define LARGE_PIECES 4 /* of MEMORY_BYTES: one transfer of 2^30 bytes */
#define SAMPLES_WANTED 4000
#define LARGE_MOST 40

/* Small writes until the large one ends; samples are whole, post to end. */
static size_t one_round(struct bench_pair *pair, tcpx_request large, tcpx_request small,
			int64_t *samples, size_t room)
{
	size_t n = 0;

	must("post large", tcpx_request_post(pair->session, large));
	while (tcpx_request_test(pair->session, large, NULL) == TCPX_IN_PROGRESS) {
		int64_t begin = now_ns();

		must("post small", tcpx_request_post(pair->session, small));
		must("wait small",
		     tcpx_request_wait(pair->session, small, TCPX_WAIT_FOREVER, NULL));
		if (n < room)
			samples[n++] = now_ns() - begin;
	}
	must("large", tcpx_request_test(pair->session, large, NULL));
	return n;
}

int main(void)
{
	static int64_t samples[SAMPLES_WANTED];
	tcpx_segment pieces[LARGE_PIECES], piece;
	struct bench_pair pair;
	tcpx_request large, small;
	size_t n = 0;
	int rounds = 0;
	int64_t begin, p50;
	double seconds;

	bench_pair_open(&pair, MEMORY_BYTES + 64, 0);
	for (int i = 0; i < LARGE_PIECES; i++)
		pieces[i] = (tcpx_segment){.local = pair.near_region,
					   .remote = pair.far_region,
					   .length = MEMORY_BYTES};
	piece = (tcpx_segment){.local = pair.near_region,
			       .local_offset = MEMORY_BYTES,
			       .remote = pair.far_region,
			       .remote_offset = MEMORY_BYTES,
			       .length = 8};
	must("prepare", tcpx_request_prepare(pair.session, pair.peer, TCPX_OP_WRITE, pieces,
					     LARGE_PIECES, NULL, &large));
	must("prepare",
	     tcpx_request_prepare(pair.session, pair.peer, TCPX_OP_WRITE, &piece, 1, NULL, &small));
	bench_write(&pair, MEMORY_BYTES);
	begin = now_ns();
	for (; n < SAMPLES_WANTED && rounds < LARGE_MOST; rounds++)
		n += one_round(&pair, large, small, samples + n, SAMPLES_WANTED - n);
	seconds = (double)(now_ns() - begin) / 1e9;
	p50 = percentile(samples, n, 0.5);
	printf("{\"samples\": %zu, \"large_bytes_per_second\": %.0f, \"p50\": %.9f, \"p99\": %.9f, "
	       "\"max\": %.9f}\n",
	       n, (double)rounds * LARGE_PIECES * MEMORY_BYTES / seconds, (double)p50 / 1e9,
	       (double)percentile(samples, n, 0.99) / 1e9, (double)(n ? samples[n - 1] : 0) / 1e9);
	bench_pair_close(&pair);
	return 0;
}
