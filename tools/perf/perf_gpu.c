/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers in GPU memory. The GPU generates and compares the pattern; without kernels the CPU
 * does, through a block of pinned memory. */
#include "perf_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/error.h"
#include "gpu_pattern.h"
#include "sys/cuda.h"

#define BLOCK_BYTES (16u << 20)

struct perf_gpu {
	struct sys_cuda_gpu *gpu;
	cuda_stream stream;
	uint8_t *block;		     /* pinned */
	struct gpu_pattern *pattern; /* NULL: the CPU generates and compares */
};

/* Keeps the first failure as the last error. */
static tcpx_status perf_gpu_status(cuda_result rc, const char *what)
{
	return rc == CUDA_OK ? TCPX_OK : sys_cuda_error(rc, what);
}

tcpx_status perf_gpu_open(uint32_t device, struct perf_gpu **out_gpu)
{
	struct perf_gpu *g = calloc(1, sizeof(*g));
	struct sys_cuda_scope scope;
	const struct sys_cuda *api;
	tcpx_status status;
	void *block = NULL;

	if (!g)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "a GPU's state");
	status = sys_cuda_get(device, &g->gpu);
	if (status != TCPX_OK) {
		free(g);
		return status;
	}
	api = g->gpu->api;
	status = sys_cuda_push(g->gpu, &scope);
	if (status == TCPX_OK) {
		status = perf_gpu_status(
			api->stream_create(&g->stream, CUDA_STREAM_NON_BLOCKING, 0), "a stream");
		if (status == TCPX_OK)
			status = perf_gpu_status(
				api->host_alloc(&block, BLOCK_BYTES, CUDA_HOST_PORTABLE),
				"pinned memory");
		sys_cuda_pop(&scope);
	}
	g->block = block;
	if (status != TCPX_OK) {
		perf_gpu_close(g);
		return status;
	}
	if (gpu_pattern_open(g->gpu, &g->pattern) != TCPX_OK) {
		g->pattern = NULL;
		LOG_INFO("test data on %s is made and compared by the CPU: %s", g->gpu->name,
			 error_last()->what);
	}
	*out_gpu = g;
	return TCPX_OK;
}

void perf_gpu_close(struct perf_gpu *g)
{
	struct sys_cuda_scope scope;
	tcpx_error kept = *error_last(); /* closing must not overwrite the last error */

	if (!g)
		return;
	gpu_pattern_close(g->pattern);
	if (sys_cuda_push(g->gpu, &scope) == TCPX_OK) {
		if (g->block)
			g->gpu->api->host_free(g->block);
		if (g->stream)
			g->gpu->api->stream_destroy(g->stream);
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(g->gpu);
	free(g);
	if (kept.status != TCPX_OK)
		error_raise(&kept);
}

uint32_t perf_gpu_device(const struct perf_gpu *g)
{
	return g->gpu->ordinal;
}

static tcpx_status no_room(const struct sys_cuda *api, cuda_result rc, uint64_t bytes,
			   const char *name)
{
	char want[BYTES_TEXT_MAX], have[BYTES_TEXT_MAX];
	size_t left = 0, total = 0;

	if (rc != CUDA_ERR_OUT_OF_MEMORY || api->mem_info(&left, &total) != CUDA_OK)
		return sys_cuda_error(rc, "GPU memory");
	error_set(TCPX_ERR_NO_MEMORY, 0, "a buffer of %s on %s, which has %s free",
		  bytes_format(bytes, want, sizeof(want)), name,
		  bytes_format(left, have, sizeof(have)));
	return error_next("lower --size or --working-set, or take another GPU");
}

tcpx_status perf_gpu_alloc(struct perf_gpu *g, uint64_t bytes, void **out_addr)
{
	const struct sys_cuda *api = g->gpu->api;
	struct sys_cuda_scope scope;
	cuda_ptr ptr = 0;
	cuda_result rc;
	tcpx_status status = sys_cuda_push(g->gpu, &scope);

	if (status != TCPX_OK)
		return status;
	rc = api->mem_alloc(&ptr, bytes);
	if (rc != CUDA_OK)
		status = no_room(api, rc, bytes, g->gpu->name);
	sys_cuda_pop(&scope);
	if (status == TCPX_OK)
		*out_addr = (void *)(uintptr_t)ptr;
	return status;
}

void perf_gpu_free(struct perf_gpu *g, void *addr)
{
	struct sys_cuda_scope scope;

	if (sys_cuda_push(g->gpu, &scope) != TCPX_OK)
		return;
	g->gpu->api->mem_free((cuda_ptr)(uintptr_t)addr);
	sys_cuda_pop(&scope);
}

/* The context must be current. */
static tcpx_status copy(struct perf_gpu *g, cuda_ptr dst, cuda_ptr src, uint64_t bytes)
{
	cuda_result rc = g->gpu->api->copy_async(dst, src, bytes, g->stream);

	if (rc == CUDA_OK)
		rc = g->gpu->api->stream_synchronize(g->stream);
	return perf_gpu_status(rc, "a copy of the test data");
}

static tcpx_status poison(struct perf_gpu *g, cuda_ptr dst, uint64_t length)
{
	cuda_result rc = g->gpu->api->set_async(dst, PERF_POISON, length, g->stream);

	if (rc == CUDA_OK)
		rc = g->gpu->api->stream_synchronize(g->stream);
	return perf_gpu_status(rc, "poison in a destination");
}

static tcpx_status fill_source(struct perf_gpu *g, cuda_ptr src, uint64_t length, uint64_t key,
			       const struct perf_leave *leave)
{
	tcpx_status status = TCPX_OK;

	if (g->pattern)
		return gpu_pattern_fill(g->pattern, src, 0, length, key);
	for (uint64_t at = 0, len; status == TCPX_OK && at < length; at += len) {
		len = length - at < BLOCK_BYTES ? length - at : BLOCK_BYTES;
		perf_pattern_fill(g->block, at, len, key);
		status = copy(g, src + at, (cuda_ptr)(uintptr_t)g->block, len);
		if (status == TCPX_OK)
			status = leave->ask(leave->arg);
	}
	return status;
}

tcpx_status perf_gpu_fill(struct perf_gpu *g, void *src, void *dst, uint64_t length, uint64_t key,
			  const struct perf_leave *leave)
{
	struct sys_cuda_scope scope;
	tcpx_status status = sys_cuda_push(g->gpu, &scope);

	if (status != TCPX_OK)
		return status;
	if (dst)
		status = poison(g, (cuda_ptr)(uintptr_t)dst, length);
	if (status == TCPX_OK && src)
		status = fill_source(g, (cuda_ptr)(uintptr_t)src, length, key, leave);
	sys_cuda_pop(&scope);
	return status;
}

/* View of a destination through the block. */
struct window {
	struct perf_gpu *gpu;
	cuda_ptr base;
	uint64_t length, at, len; /* at, len: the range that the block holds */
};

static tcpx_status perf_gpu_view(void *arg, uint64_t at, uint64_t len, const uint8_t **out,
				 uint64_t *out_len)
{
	struct window *w = arg;
	uint64_t left;
	tcpx_status status;

	if (at < w->at || at >= w->at + w->len) {
		w->at = at;
		w->len = w->length - at < BLOCK_BYTES ? w->length - at : BLOCK_BYTES;
		status = copy(w->gpu, (cuda_ptr)(uintptr_t)w->gpu->block, w->base + at, w->len);
		if (status != TCPX_OK)
			return status;
	}
	left = w->at + w->len - at;
	*out = w->gpu->block + (at - w->at);
	*out_len = len < left ? len : left;
	return TCPX_OK;
}

tcpx_status perf_gpu_check(struct perf_gpu *g, const struct perf_layout *layout, void *dst,
			   uint32_t used, uint64_t key, const struct perf_leave *leave,
			   struct perf_wrong *out_wrong)
{
	struct window w = {g, (cuda_ptr)(uintptr_t)dst, layout->working_set, 0, 0};
	struct perf_view view = {perf_gpu_view, &w};
	struct sys_cuda_scope scope;
	tcpx_status status;

	if (g->pattern)
		return gpu_pattern_check_layout(g->pattern, w.base, layout, used, key, out_wrong);
	status = sys_cuda_push(g->gpu, &scope);
	if (status != TCPX_OK)
		return status;
	status = perf_layout_check_view(layout, &view, used, key, leave, out_wrong);
	sys_cuda_pop(&scope);
	return status;
}

tcpx_status perf_gpu_flip(struct perf_gpu *g, void *byte)
{
	cuda_ptr ptr = (cuda_ptr)(uintptr_t)byte;
	struct sys_cuda_scope scope;
	tcpx_status status = sys_cuda_push(g->gpu, &scope);

	if (status != TCPX_OK)
		return status;
	status = copy(g, (cuda_ptr)(uintptr_t)g->block, ptr, 1);
	if (status == TCPX_OK) {
		g->block[0] ^= 0x10;
		status = copy(g, ptr, (cuda_ptr)(uintptr_t)g->block, 1);
	}
	sys_cuda_pop(&scope);
	return status;
}
