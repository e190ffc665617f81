/* SPDX-License-Identifier: Apache-2.0 */
/* What calls cost: a prepare and a post of many segments, 1000 registrations, a first transfer. */
#include <string.h>

#include "bench_pair.h"
#include "bench_util.h"

#define SEGMENTS 100000
#define PIECE_BYTES 1024
#define ROUNDS 15
#define REGIONS 1000
#define MEMORY_BYTES (256ull << 20)
#define FIRST_BYTES (1ull << 20)

static int64_t thread_cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Every segment has its own random places on both sides. */
static void random_segments(const struct bench_pair *pair, tcpx_segment *segments)
{
	size_t slots = MEMORY_BYTES / PIECE_BYTES;
	uint64_t *near_slots = malloc(slots * sizeof(uint64_t));
	uint64_t *far_slots = malloc(slots * sizeof(uint64_t));

	if (!near_slots || !far_slots)
		die("memory");
	for (size_t i = 0; i < slots; i++)
		near_slots[i] = far_slots[i] = i * PIECE_BYTES;
	shuffle(near_slots, slots, 1);
	shuffle(far_slots, slots, 2);
	for (size_t i = 0; i < SEGMENTS; i++)
		segments[i] = (tcpx_segment){.local = pair->near_region,
					     .local_offset = near_slots[i],
					     .remote = pair->far_region,
					     .remote_offset = far_slots[i],
					     .length = PIECE_BYTES};
	free(near_slots);
	free(far_slots);
}

/* Medians of both calls; the request ends before the next round. */
static void measure_posts(struct bench_pair *pair, int64_t *out_prepare, int64_t *out_post,
			  int64_t *out_post_cpu)
{
	tcpx_segment *segments = malloc(SEGMENTS * sizeof(*segments));
	int64_t prepares[ROUNDS], posts[ROUNDS], cpus[ROUNDS];

	if (!segments)
		die("memory");
	random_segments(pair, segments);
	for (int i = 0; i < ROUNDS; i++) {
		tcpx_request request;
		int64_t begin = now_ns();

		must("prepare", tcpx_request_prepare(pair->session, pair->peer, TCPX_OP_WRITE,
						     segments, SEGMENTS, NULL, &request));
		prepares[i] = now_ns();
		cpus[i] = thread_cpu_ns();
		must("post", tcpx_request_post(pair->session, request));
		cpus[i] = thread_cpu_ns() - cpus[i];
		posts[i] = now_ns() - prepares[i];
		prepares[i] -= begin;
		must("wait", tcpx_request_wait(pair->session, request, TCPX_WAIT_FOREVER, NULL));
		tcpx_request_release(pair->session, request);
	}
	*out_prepare = percentile(prepares, ROUNDS, 0.5);
	*out_post = percentile(posts, ROUNDS, 0.5);
	*out_post_cpu = percentile(cpus, ROUNDS, 0.5);
	free(segments);
}

static int64_t measure_registrations(struct bench_pair *pair)
{
	static tcpx_region regions[REGIONS];
	TCPX_OPTS(tcpx_region_opts, shared, .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	int64_t begin = now_ns(), took;

	for (int i = 0; i < REGIONS; i++)
		must("register", tcpx_region_register(pair->session, pair->memory + i * 65536,
						      65536, &shared, &regions[i]));
	took = now_ns() - begin;
	for (int i = 0; i < REGIONS; i++)
		must("deregister", tcpx_region_deregister(pair->session, regions[i], 0));
	return took;
}

int main(void)
{
	struct bench_pair pair;
	int64_t first, prepare, post, post_cpu, registrations;

	bench_pair_open(&pair, MEMORY_BYTES, 0);
	first = bench_write(&pair, FIRST_BYTES);
	measure_posts(&pair, &prepare, &post, &post_cpu);
	registrations = measure_registrations(&pair);
	printf("{\"segments\": %d, \"prepare\": %.9f, \"post\": %.9f, \"post_cpu\": %.9f, "
	       "\"registrations\": %d, "
	       "\"register_all\": %.9f, \"connect\": %.9f, \"first_transfer\": %.9f}\n",
	       SEGMENTS, (double)prepare / 1e9, (double)post / 1e9, (double)post_cpu / 1e9, REGIONS,
	       (double)registrations / 1e9, (double)pair.connect_ns / 1e9, (double)first / 1e9);
	bench_pair_close(&pair);
	return 0;
}
