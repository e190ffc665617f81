/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of perf_fill and perf_check. */
#include "gpu_pattern.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/error.h"
#include "check_abi.h"

#define THREADS 512
#define BLOCKS_PER_SM 4 /* enough loads in flight to reach the speed of the memory */

extern const unsigned char perf_check_image[]; /* of check.cu: a fatbin, or PTX text */

_Static_assert(sizeof(struct gpu_check_args) == 48 && sizeof(struct gpu_check_result) == 16 &&
		       sizeof(struct gpu_check_layout_args) == 72,
	       "the CUDA compiler lays them out so");

struct gpu_pattern {
	const struct sys_cuda_gpu *gpu;
	cuda_module module;
	cuda_function fill, check, check_layout;
	cuda_stream stream;
	cuda_ptr result;
	cuda_ptr tables; /* tables of a layout, dst_piece before src_slot */
	uint64_t tables_bytes;
};

/* Frees what has been created. The context must be current. */
static void let_go(struct gpu_pattern *p)
{
	const struct sys_cuda *api = p->gpu->api;

	if (p->tables)
		(void)api->mem_free(p->tables);
	if (p->result)
		(void)api->mem_free(p->result);
	if (p->stream)
		(void)api->stream_destroy(p->stream);
	if (p->module)
		(void)api->module_unload(p->module);
}

static tcpx_status gpu_pattern_load(struct gpu_pattern *p)
{
	const struct sys_cuda *api = p->gpu->api;
	cuda_result result;
	tcpx_status status;

	status = sys_cuda_module_load(p->gpu, perf_check_image, "check", &p->module);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(p->gpu, p->module, "perf_fill", &p->fill);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(p->gpu, p->module, "perf_check", &p->check);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(p->gpu, p->module, "perf_check_layout",
					      &p->check_layout);
	if (status != TCPX_OK)
		return status;
	result = api->stream_create(&p->stream, CUDA_STREAM_NON_BLOCKING, 0);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "cuStreamCreateWithPriority");
	result = api->mem_alloc(&p->result, sizeof(struct gpu_check_result));
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuMemAlloc");
}

tcpx_status gpu_pattern_open(const struct sys_cuda_gpu *gpu, struct gpu_pattern **out_pattern)
{
	struct sys_cuda_scope scope;
	struct gpu_pattern *p;
	tcpx_status status;

	p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for check kernels");
	p->gpu = gpu;
	status = sys_cuda_push(gpu, &scope);
	if (status == TCPX_OK) {
		status = gpu_pattern_load(p);
		if (status != TCPX_OK)
			let_go(p);
		sys_cuda_pop(&scope);
	}
	if (status != TCPX_OK) {
		free(p);
		return status;
	}
	*out_pattern = p;
	return TCPX_OK;
}

void gpu_pattern_close(struct gpu_pattern *pattern)
{
	struct sys_cuda_scope scope;

	if (!pattern)
		return;
	if (sys_cuda_push(pattern->gpu, &scope) == TCPX_OK) {
		let_go(pattern);
		sys_cuda_pop(&scope);
	}
	free(pattern);
}

/* Launches a kernel and waits for it. The context must be current. */
static tcpx_status launch(struct gpu_pattern *p, cuda_function function, void *args, uint64_t bytes)
{
	const struct sys_cuda *api = p->gpu->api;
	uint64_t words = bytes / 16 + 2, most = (uint64_t)p->gpu->sms * BLOCKS_PER_SM;
	uint64_t blocks = (words + THREADS - 1) / THREADS;
	void *params[] = {args};
	cuda_result result;

	blocks = blocks < most ? blocks : most ? most : 1;
	result = api->launch(function, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, p->stream, params,
			     NULL);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "cuLaunchKernel");
	result = api->stream_synchronize(p->stream);
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuStreamSynchronize");
}

static tcpx_status pattern_launch_fill(struct gpu_pattern *p, struct gpu_check_args args)
{
	struct sys_cuda_scope scope;
	tcpx_status status;

	if (!args.bytes)
		return TCPX_OK;
	status = sys_cuda_push(p->gpu, &scope);
	if (status != TCPX_OK)
		return status;
	status = launch(p, p->fill, &args, args.bytes);
	sys_cuda_pop(&scope);
	return status;
}

/* Runs a check of `bytes` bytes, whose args name p->result. The context must be current. */
static tcpx_status check_pushed(struct gpu_pattern *p, cuda_function function, void *args,
				uint64_t bytes, struct gpu_check_result *out)
{
	const struct sys_cuda *api = p->gpu->api;
	struct gpu_check_result begin = {.wrong = 0, .first = UINT64_MAX};
	cuda_result result;
	tcpx_status status;

	/* The copy uses the stream of the kernel; on the default stream it might not have ended
	 * yet. */
	result = api->copy_async(p->result, (cuda_ptr)(uintptr_t)&begin, sizeof(begin), p->stream);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "cuMemcpyAsync");
	status = launch(p, function, args, bytes);
	if (status != TCPX_OK)
		return status;
	result = api->copy_async((cuda_ptr)(uintptr_t)out, p->result, sizeof(*out), p->stream);
	if (result == CUDA_OK)
		result = api->stream_synchronize(p->stream);
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuMemcpyAsync");
}

static tcpx_status pattern_launch_check(struct gpu_pattern *p, struct gpu_check_args args,
					uint64_t *out_wrong, uint64_t *out_first)
{
	struct gpu_check_result result = {0};
	struct sys_cuda_scope scope;
	tcpx_status status;

	if (args.bytes) {
		status = sys_cuda_push(p->gpu, &scope);
		if (status != TCPX_OK)
			return status;
		args.result = p->result;
		status = check_pushed(p, p->check, &args, args.bytes, &result);
		sys_cuda_pop(&scope);
		if (status != TCPX_OK)
			return status;
	}
	*out_wrong = result.wrong;
	if (result.wrong && out_first)
		*out_first = result.first;
	return TCPX_OK;
}

tcpx_status gpu_pattern_fill(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t pos,
			     uint64_t bytes, uint64_t key)
{
	return pattern_launch_fill(
		pattern,
		(struct gpu_check_args){.buf = buf, .bytes = bytes, .pos = pos, .key = key});
}

tcpx_status gpu_pattern_check(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t pos,
			      uint64_t bytes, uint64_t key, uint64_t *out_wrong,
			      uint64_t *out_first)
{
	return pattern_launch_check(
		pattern,
		(struct gpu_check_args){.buf = buf, .bytes = bytes, .pos = pos, .key = key},
		out_wrong, out_first);
}

tcpx_status gpu_pattern_poison(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t bytes)
{
	return pattern_launch_fill(
		pattern, (struct gpu_check_args){.buf = buf, .bytes = bytes, .poison = 1});
}

tcpx_status gpu_pattern_poison_check(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t bytes,
				     uint64_t *out_wrong, uint64_t *out_first)
{
	return pattern_launch_check(
		pattern, (struct gpu_check_args){.buf = buf, .bytes = bytes, .poison = 1},
		out_wrong, out_first);
}

/* Copies the tables of the layout to GPU memory. The context must be current. */
static tcpx_status put_tables(struct gpu_pattern *p, const struct perf_layout *layout)
{
	uint64_t half = (uint64_t)layout->transfers * layout->batch * sizeof(uint32_t);
	const struct sys_cuda *api = p->gpu->api;
	cuda_result result = CUDA_OK;

	if (!layout->dst_piece)
		return TCPX_OK;
	if (p->tables_bytes < 2 * half) {
		if (p->tables)
			(void)api->mem_free(p->tables);
		p->tables = 0;
		p->tables_bytes = 0;
		result = api->mem_alloc(&p->tables, 2 * half);
		if (result == CUDA_OK)
			p->tables_bytes = 2 * half;
	}
	if (result == CUDA_OK)
		result = api->copy_async(p->tables, (cuda_ptr)(uintptr_t)layout->dst_piece, half,
					 p->stream);
	if (result == CUDA_OK)
		result = api->copy_async(p->tables + half, (cuda_ptr)(uintptr_t)layout->src_slot,
					 half, p->stream);
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "the tables of a layout");
}

tcpx_status gpu_pattern_check_layout(struct gpu_pattern *p, cuda_ptr dst,
				     const struct perf_layout *layout, uint32_t used, uint64_t key,
				     struct perf_wrong *out_wrong)
{
	struct gpu_check_layout_args args = {
		.buf = dst,
		.bytes = layout->working_set,
		.stride = layout->stride,
		.piece = layout->piece,
		.key = key,
		.result = p->result,
		.slots = layout->transfers * layout->batch,
		.with_data = used * layout->batch,
	};
	struct gpu_check_result result;
	struct sys_cuda_scope scope;
	tcpx_status status = sys_cuda_push(p->gpu, &scope);

	if (status != TCPX_OK)
		return status;
	status = put_tables(p, layout);
	if (layout->dst_piece) {
		args.dst_piece = p->tables;
		args.src_slot = p->tables + args.slots * sizeof(uint32_t);
	}
	if (status == TCPX_OK)
		status = check_pushed(p, p->check_layout, &args, args.bytes, &result);
	sys_cuda_pop(&scope);
	if (status == TCPX_OK)
		*out_wrong = (struct perf_wrong){result.wrong, result.wrong ? result.first : 0};
	return status;
}
