/* SPDX-License-Identifier: Apache-2.0 */
/* One buffer of a measurement. */
#include "perf_buffer.h"

#include <errno.h>
#include <sys/mman.h>

#include <tcpx/session.h>

#include "base/error.h"

static tcpx_status perf_buffer_take(struct perf_buffer *buffer)
{
	void *addr;

	if (buffer->gpu)
		return perf_gpu_alloc(buffer->gpu, buffer->length, &buffer->addr);
	addr = mmap(NULL, buffer->length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (addr == MAP_FAILED)
		return error_set(TCPX_ERR_NO_MEMORY, errno, "a buffer of %llu bytes",
				 (unsigned long long)buffer->length);
	buffer->addr = addr;
	return TCPX_OK;
}

static void give_back(struct perf_buffer *buffer)
{
	if (buffer->gpu)
		perf_gpu_free(buffer->gpu, buffer->addr);
	else
		munmap(buffer->addr, buffer->length);
}

tcpx_status perf_buffer_open(struct perf_buffer *buffer, tcpx_session *session, uint64_t length,
			     enum tcpx_mem_kind kind, struct perf_gpu *gpu)
{
	TCPX_OPTS(tcpx_region_opts, opts, .kind = kind, .device = gpu ? perf_gpu_device(gpu) : 0,
		  .rights = TCPX_RIGHT_READ | TCPX_RIGHT_WRITE);
	struct perf_buffer fresh = {.length = length, .kind = kind, .gpu = gpu};
	tcpx_status status;

	if (buffer->addr && buffer->length == length && buffer->kind == kind && buffer->gpu == gpu)
		return TCPX_OK;
	perf_buffer_close(buffer, session);
	status = perf_buffer_take(&fresh);
	if (status != TCPX_OK)
		return status;
	status = tcpx_region_register(session, fresh.addr, length, &opts, &fresh.region);
	if (status != TCPX_OK) {
		give_back(&fresh);
		return status;
	}
	*buffer = fresh;
	return TCPX_OK;
}

void perf_buffer_close(struct perf_buffer *buffer, tcpx_session *session)
{
	if (!buffer->addr)
		return;
	/* Memory that the library still holds (BUSY) is leaked, so that a late byte cannot hit
	 * other memory. */
	if (tcpx_region_deregister(session, buffer->region, 0) == TCPX_OK)
		give_back(buffer);
	*buffer = (struct perf_buffer){0};
}
