/* SPDX-License-Identifier: Apache-2.0 */
/* Test data in GPU memory, generated and checked by the GPU itself. */
#ifndef TOOLS_GPU_PATTERN_H
#define TOOLS_GPU_PATTERN_H

#include <stdint.h>

#include <tcpx/types.h>

#include "perf_layout.h"
#include "sys/cuda.h"

/* The kernels of one GPU. For one thread at a time. Each call uses the context of the GPU,
 * restores the one that was current, and returns when the GPU has finished. */
struct gpu_pattern;

/* Fails as sys_cuda_module_load(); after ERR_UNSUPPORTED the caller copies the bytes and
 * compares them on the CPU. gpu must outlive the object. */
tcpx_status gpu_pattern_open(const struct sys_cuda_gpu *gpu, struct gpu_pattern **out_pattern);
void gpu_pattern_close(struct gpu_pattern *pattern); /* NULL is fine */

/* As perf_pattern_fill() and perf_pattern_check(), for any alignment and length. out_first (an
 * offset in buf) is unchanged if no byte is wrong. */
tcpx_status gpu_pattern_fill(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t pos,
			     uint64_t bytes, uint64_t key);
tcpx_status gpu_pattern_check(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t pos,
			      uint64_t bytes, uint64_t key, uint64_t *out_wrong,
			      uint64_t *out_first);

/* The same for PERF_POISON in every byte. */
tcpx_status gpu_pattern_poison(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t bytes);
tcpx_status gpu_pattern_poison_check(struct gpu_pattern *pattern, cuda_ptr buf, uint64_t bytes,
				     uint64_t *out_wrong, uint64_t *out_first);

/* As perf_layout_check(), in one launch. */
tcpx_status gpu_pattern_check_layout(struct gpu_pattern *pattern, cuda_ptr dst,
				     const struct perf_layout *layout, uint32_t used, uint64_t key,
				     struct perf_wrong *out_wrong);

#endif
