/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of a measurement. */
#include "perf_buffer.h"

#include <errno.h>
#include <sys/mman.h>

#include <tcpx/session.h>

#include "base/error.h"

tcpx_status perf_buffer_open(struct perf_buffer *buffer, tcpx_session *session, uint64_t length,
			     enum tcpx_mem_kind kind)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = kind,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	struct perf_buffer fresh = {.length = length, .kind = kind};
	tcpx_status status;

	if (buffer->addr && buffer->length == length && buffer->kind == kind)
		return TCPX_OK;
	perf_buffer_close(buffer, session);
	fresh.addr = mmap(NULL, length, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (fresh.addr == MAP_FAILED)
		return error_set(TCPX_ERR_NO_MEMORY, errno, "a buffer of %llu bytes",
				 (unsigned long long)length);
	status = tcpx_region_register(session, fresh.addr, length, &opts, &fresh.region);
	if (status != TCPX_OK) {
		munmap(fresh.addr, length);
		return status;
	}
	*buffer = fresh;
	return TCPX_OK;
}

void perf_buffer_close(struct perf_buffer *buffer, tcpx_session *session)
{
	if (!buffer->addr)
		return;
	/* Memory the library still holds (BUSY) is left mapped: a late byte must not hit others. */
	if (tcpx_region_deregister(session, buffer->region, 0) == TCPX_OK)
		munmap(buffer->addr, buffer->length);
	*buffer = (struct perf_buffer){0};
}
