/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of a measurement: anonymous memory or a GPU's, and its registration. */
#ifndef TOOLS_PERF_BUFFER_H
#define TOOLS_PERF_BUFFER_H

#include <stdint.h>

#include <tcpx/memory.h>

#include "perf_gpu.h"
#include "perf_place.h"

struct perf_buffer {
	void *addr; /* NULL: there is none */
	uint64_t length;
	enum tcpx_mem_kind kind;
	struct perf_gpu *gpu; /* its memory; NULL: host memory */
	tcpx_region region;
};

/* Memory of so many bytes, registered with both rights; what was there is kept when it fits. gpu:
 * for TCPX_MEM_CUDA, and it stays the caller's until the buffer is closed. */
tcpx_status perf_buffer_open(struct perf_buffer *buffer, tcpx_session *session, uint64_t length,
			     enum tcpx_mem_kind kind, struct perf_gpu *gpu);
void perf_buffer_close(struct perf_buffer *buffer, tcpx_session *session);

#endif
