/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of a measurement: anonymous memory and its registration. */
#ifndef TOOLS_PERF_BUFFER_H
#define TOOLS_PERF_BUFFER_H

#include <stdint.h>

#include <tcpx/memory.h>

struct perf_buffer {
	void *addr; /* NULL: there is none */
	uint64_t length;
	enum tcpx_mem_kind kind;
	tcpx_region region;
};

/* Memory of so many bytes, registered with both rights; what was there is kept when it fits. */
tcpx_status perf_buffer_open(struct perf_buffer *buffer, tcpx_session *session, uint64_t length,
			     enum tcpx_mem_kind kind);
void perf_buffer_close(struct perf_buffer *buffer, tcpx_session *session);

#endif
