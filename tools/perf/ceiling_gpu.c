/* SPDX-License-Identifier: Apache-2.0 */
/* The rate of copy engines. */
#include "ceiling_gpu.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "sys/cuda.h"

#define COPY_BYTES (4ull << 20)
#define RUN_BYTES (1ull << 30)
#define RUN_NS (50 * CLOCK_MS_NS) /* enough time where 1 GiB takes longer */
#define RUNS 5

/* A source, a destination and the way of copying. */
struct copier {
	const struct sys_cuda_gpu *gpu, *peer; /* peer: the other GPU, or NULL */
	enum ceiling_way way;
	cuda_stream stream;
	void *ring;
	cuda_ptr memory, peer_memory;
	uint64_t bytes; /* bytes of memory, and of peer_memory */
};

static cuda_result issue(const struct copier *c, uint64_t at)
{
	const struct sys_cuda *api = c->gpu->api;
	cuda_ptr host = (cuda_ptr)(uintptr_t)c->ring + at % CEILING_RING_BYTES;
	cuda_ptr device = c->memory + at % c->bytes;

	if (c->peer)
		return api->copy_peer_async(c->peer_memory, c->peer->ctx, c->memory, c->gpu->ctx,
					    c->bytes, c->stream);
	if (c->way == CEILING_D2H)
		return api->copy_async(host, device, COPY_BYTES, c->stream);
	return api->copy_async(device, host, COPY_BYTES, c->stream);
}

static tcpx_status ceiling_gpu_run(const struct copier *c, uint64_t bytes, int64_t *out_ns)
{
	uint64_t step = c->peer ? c->bytes : COPY_BYTES;
	int64_t start = clock_now_ns();
	cuda_result rc = CUDA_OK;

	for (uint64_t at = 0; rc == CUDA_OK && at < bytes; at += step)
		rc = issue(c, at);
	if (rc == CUDA_OK)
		rc = c->gpu->api->stream_synchronize(c->stream);
	if (rc != CUDA_OK)
		return sys_cuda_error(rc, "ceiling: a copy");
	*out_ns = clock_now_ns() - start;
	return TCPX_OK;
}

static int ceiling_gpu_compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static tcpx_status ceiling_gpu_measure(const struct copier *c, uint64_t *out_rate)
{
	uint64_t first = c->peer ? c->bytes : CEILING_RING_BYTES, bytes = RUN_BYTES, rates[RUNS];
	int64_t ns = 0;
	tcpx_status status = ceiling_gpu_run(c, first, &ns);

	if (status == TCPX_OK) /* the first copy is cold; the second tells how many are enough */
		status = ceiling_gpu_run(c, first, &ns);
	if (status != TCPX_OK)
		return status;
	while (bytes > first && (double)ns * (double)(bytes / first) > (double)RUN_NS)
		bytes /= 2;
	bytes = bytes < first ? first : bytes;
	for (unsigned i = 0; i < RUNS; i++) {
		status = ceiling_gpu_run(c, bytes, &ns);
		if (status != TCPX_OK)
			return status;
		rates[i] = (uint64_t)((double)bytes * 1e9 / (double)(ns ? ns : 1));
	}
	qsort(rates, RUNS, sizeof(rates[0]), ceiling_gpu_compare);
	*out_rate = rates[RUNS / 2];
	return TCPX_OK;
}

/* Allocates as much GPU memory as is free, at least room for one copy. The context must be
 * current. */
static cuda_result take_memory(const struct sys_cuda *api, cuda_ptr *out, uint64_t *bytes)
{
	cuda_result rc;

	for (;;) {
		rc = api->mem_alloc(out, *bytes);
		if (rc != CUDA_ERR_OUT_OF_MEMORY || *bytes <= COPY_BYTES)
			return rc;
		*bytes /= 2;
	}
}

static tcpx_status measure_ring(struct copier *c, uint64_t *out_rate)
{
	const struct sys_cuda *api = c->gpu->api;
	cuda_result rc = take_memory(api, &c->memory, &c->bytes);
	tcpx_status status;

	if (rc == CUDA_OK)
		rc = api->host_alloc(&c->ring, CEILING_RING_BYTES, CUDA_HOST_PORTABLE);
	if (rc == CUDA_OK)
		rc = api->stream_create(&c->stream, CUDA_STREAM_NON_BLOCKING, 0);
	status = rc == CUDA_OK ? ceiling_gpu_measure(c, out_rate)
			       : sys_cuda_error(rc, "ceiling: memory");
	if (c->stream)
		api->stream_destroy(c->stream);
	if (c->ring)
		api->host_free(c->ring);
	if (c->memory)
		api->mem_free(c->memory);
	return status;
}

tcpx_status ceiling_gpu_copy(uint32_t device, enum ceiling_way way, uint64_t *out_rate)
{
	struct copier c = {.way = way, .bytes = CEILING_GPU_BYTES};
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	tcpx_status status = sys_cuda_get(device, &gpu);

	if (status != TCPX_OK)
		return status;
	c.gpu = gpu;
	status = sys_cuda_push(gpu, &scope);
	if (status == TCPX_OK) {
		status = measure_ring(&c, out_rate);
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(gpu);
	return status;
}

/* Allocates memory of the other GPU that the GPU of the current context can reach. */
static tcpx_status take_peer(struct copier *c)
{
	const struct sys_cuda *api = c->gpu->api;
	struct sys_cuda_scope scope;
	cuda_result rc = api->ctx_enable_peer(c->peer->ctx, 0);
	tcpx_status status;

	if (rc != CUDA_OK && rc != CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED)
		return sys_cuda_error(rc, "ceiling: peer access");
	status = sys_cuda_push(c->peer, &scope);
	if (status != TCPX_OK)
		return status;
	rc = take_memory(api, &c->peer_memory, &c->bytes);
	sys_cuda_pop(&scope);
	return rc == CUDA_OK ? TCPX_OK : sys_cuda_error(rc, "ceiling: memory of the other GPU");
}

static tcpx_status ceiling_gpu_measure_peer(struct copier *c, uint64_t *out_rate)
{
	const struct sys_cuda *api = c->gpu->api;
	tcpx_status status = take_peer(c);
	cuda_result rc = CUDA_OK;

	if (status == TCPX_OK) {
		rc = take_memory(api, &c->memory, &c->bytes); /* at most as much as on this GPU */
		if (rc == CUDA_OK)
			rc = api->stream_create(&c->stream, CUDA_STREAM_NON_BLOCKING, 0);
		status = rc == CUDA_OK ? ceiling_gpu_measure(c, out_rate)
				       : sys_cuda_error(rc, "ceiling: memory");
	}
	if (c->stream)
		api->stream_destroy(c->stream);
	if (c->memory)
		api->mem_free(c->memory);
	if (c->peer_memory) /* the address tells the GPU */
		api->mem_free(c->peer_memory);
	return status;
}

tcpx_status ceiling_gpu_peer(uint32_t from, uint32_t to, uint64_t *out_rate)
{
	struct copier c = {.bytes = CEILING_GPU_BYTES};
	struct sys_cuda_gpu *gpu, *peer;
	struct sys_cuda_scope scope;
	tcpx_status status = sys_cuda_get(from, &gpu);
	uint64_t rate = 0;
	int can = 0;

	if (status != TCPX_OK)
		return status;
	status = sys_cuda_get(to, &peer);
	if (status != TCPX_OK) {
		sys_cuda_put(gpu);
		return status;
	}
	c.gpu = gpu;
	c.peer = peer;
	if (gpu->api->device_can_access(&can, gpu->device, peer->device) == CUDA_OK && can) {
		status = sys_cuda_push(gpu, &scope);
		if (status == TCPX_OK) {
			status = ceiling_gpu_measure_peer(&c, &rate);
			sys_cuda_pop(&scope);
		}
	}
	sys_cuda_put(peer);
	sys_cuda_put(gpu);
	if (status == TCPX_OK)
		*out_rate = rate;
	return status;
}

/* The smaller rate; 0 stands for "not on the path". */
static double ceiling_gpu_least(double a, double b)
{
	if (a > 0 && b > 0)
		return a < b ? a : b;
	return a > 0 ? a : b;
}

double ceiling_smallest(const struct ceiling_rates *rates, unsigned directions)
{
	double engines = 0;

	for (unsigned i = 0; i < 2; i++) {
		double slower = ceiling_gpu_least(rates->d2h[i], rates->h2d[i]);

		if (!(directions >> i & 1))
			continue;
		if (slower <= 0) { /* a direction without a GPU does not limit the sum */
			engines = 0;
			break;
		}
		engines += slower;
	}
	if (rates->direct && rates->peer > 0)
		return rates->peer;
	return ceiling_gpu_least(rates->tcp, engines);
}
