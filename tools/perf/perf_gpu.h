/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers of a measurement in GPU memory. */
#ifndef TOOLS_PERF_GPU_H
#define TOOLS_PERF_GPU_H

#include "perf_layout.h"

struct perf_gpu;

/* Opens the device: its primary context, a stream, a block of pinned memory. For one thread at a
 * time. ERR_UNSUPPORTED, ERR_INVALID (no such device), ERR_NO_MEMORY, ERR_SYSTEM. */
tcpx_status perf_gpu_open(uint32_t device, struct perf_gpu **out_gpu);
void perf_gpu_close(struct perf_gpu *gpu); /* NULL is allowed */

uint32_t perf_gpu_device(const struct perf_gpu *gpu);

/* Allocates memory of the device; the text of ERR_NO_MEMORY says how much is free. */
tcpx_status perf_gpu_alloc(struct perf_gpu *gpu, uint64_t bytes, void **out_addr);
void perf_gpu_free(struct perf_gpu *gpu, void *addr);

/* As perf_fill(), for buffers in this memory; NULL: no buffer. */
tcpx_status perf_gpu_fill(struct perf_gpu *gpu, void *src, void *dst, uint64_t length, uint64_t key,
			  const struct perf_leave *leave);

/* As perf_layout_check(). */
tcpx_status perf_gpu_check(struct perf_gpu *gpu, const struct perf_layout *layout, void *dst,
			   uint32_t used, uint64_t key, const struct perf_leave *leave,
			   struct perf_wrong *out_wrong);

/* Flips a bit of the byte. */
tcpx_status perf_gpu_flip(struct perf_gpu *gpu, void *byte);

#endif
