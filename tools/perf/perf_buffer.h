/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of a measurement: anonymous memory or a GPU's, and its registration. */
#ifndef TOOLS_PERF_BUFFER_H
#define TOOLS_PERF_BUFFER_H

#include <stdint.h>

#include <tcpx/memory.h>

#include "perf_gpu.h"
#include "perf_place.h"

struct perf_buffer {
	void *addr; /* NULL: no buffer */
	uint64_t length;
	enum tcpx_mem_kind kind;
	struct perf_gpu *gpu; /* GPU that has the memory; NULL: host memory */
	tcpx_region region;
};

/* Provides `bytes` bytes of memory, registered with both rights; a buffer that fits is kept.
 * gpu: for TCPX_MEM_CUDA; it must outlive the buffer. */
tcpx_status perf_buffer_open(struct perf_buffer *buffer, tcpx_session *session, uint64_t length,
			     enum tcpx_mem_kind kind, struct perf_gpu *gpu);
void perf_buffer_close(struct perf_buffer *buffer, tcpx_session *session);

#endif
