/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of CUDA memory pools, shared between processes: exports pools and their allocations, opens
 * those of another process, and counts how often each is open. */
#include "mem/cuda_share_pool.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/error.h"
#include "sys/fd.h"

/*
 * An open allocation of another process. The driver opens an allocation once per process: opening
 * it again returns the same address and pool, and one call closes it for all. So the uses are
 * counted here. (An application that opens the same allocation by itself is not counted. It must
 * not close it while a peer's region of it is in use.)
 */
struct opened {
	struct opened *next;
	cuda_pool pool;
	cuda_ptr at;
	uint32_t uses;
};

static struct opened *all_opened; /* of the sharing thread */

tcpx_status mem_cuda_pool_export(const struct sys_cuda_gpu *gpu, cuda_pool pool, cuda_ptr start,
				 struct cuda_pool_memory *out_memory, int *out_fd)
{
	int fd = -1;
	cuda_result result = gpu->api->pool_export(&fd, pool, CUDA_HANDLE_FD, 0);

	if (result == CUDA_ERR_INVALID_VALUE || result == CUDA_ERR_NOT_SUPPORTED) {
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "it is memory of a pool (cudaMallocAsync) that was made without a handle "
			  "for other processes");
		return error_next("allocate it by cudaMalloc, or from a pool made with "
				  "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; in PyTorch, "
				  "PYTORCH_CUDA_ALLOC_CONF=backend:native");
	}
	if (result != CUDA_OK)
		return sys_cuda_error(result, "descriptor of a pool of GPU memory");
	result = gpu->api->pool_export_memory(out_memory, start);
	if (result != CUDA_OK) {
		sys_fd_close(fd);
		return sys_cuda_error(result, "handle of GPU memory of a pool");
	}
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	*out_fd = fd;
	return TCPX_OK;
}

/* Closes the pool if none of its allocations is open. The driver refuses to close a pool of which
 * the application has an allocation open. */
static void pool_leave(const struct sys_cuda *api, cuda_pool pool)
{
	const struct opened *it = all_opened;

	while (it && it->pool != pool)
		it = it->next;
	if (!it)
		(void)api->pool_destroy(pool);
}

/* Closes an allocation. cuMemFree could wait for kernels of the application, so a stream of its own
 * does it. The pool cannot be closed before the stream is past it. */
static void memory_close(const struct sys_cuda *api, cuda_ptr at)
{
	cuda_stream stream = NULL;

	if (api->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0) != CUDA_OK) {
		(void)api->mem_free(at);
		return;
	}
	(void)api->mem_free_async(at, stream);
	(void)api->stream_synchronize(stream);
	(void)api->stream_destroy(stream);
}

/* Counts one more use of an allocation. Returns false if there is no memory for the count. */
static int opened_add(cuda_pool pool, cuda_ptr at)
{
	struct opened *it = all_opened;

	while (it && it->at != at)
		it = it->next;
	if (!it) {
		it = calloc(1, sizeof(*it));
		if (!it)
			return 0;
		*it = (struct opened){.next = all_opened, .pool = pool, .at = at};
		all_opened = it;
	}
	it->uses++;
	return 1;
}

/* Opens the pool, gives the device access to it, and opens the allocation. */
static tcpx_status pool_open(const struct sys_cuda *api, int fd,
			     const struct cuda_pool_memory *memory,
			     const struct cuda_access *access, cuda_pool *out_pool,
			     cuda_ptr *out_at)
{
	struct cuda_pool_memory copy = *memory; /* the driver takes a pointer to non-const */
	cuda_pool pool = NULL;
	cuda_ptr at = 0;
	cuda_result result =
		/* the driver takes fd by value */
		api->pool_import(&pool, (void *)(intptr_t)fd, CUDA_HANDLE_FD, 0);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "pool of GPU memory of another process");
	result = api->pool_access(pool, access, 1);
	if (result == CUDA_OK)
		result = api->pool_import_memory(&at, pool, &copy);
	if (result == CUDA_OK && opened_add(pool, at)) {
		*out_pool = pool;
		*out_at = at;
		return TCPX_OK;
	}
	if (result == CUDA_OK)
		memory_close(api, at); /* it has no other use, or there would be a count */
	pool_leave(api, pool);
	return result == CUDA_OK ? error_set(TCPX_ERR_NO_MEMORY, 0, "opening GPU memory")
				 : sys_cuda_error(result, "GPU memory of another process's pool");
}

tcpx_status mem_cuda_pool_open(const struct sys_cuda_gpu *gpu, int fd,
			       const struct cuda_pool_memory *memory, cuda_pool *inout_pool,
			       cuda_ptr *inout_at)
{
	const struct cuda_access access = {.location = {CUDA_LOCATION_DEVICE, gpu->device},
					   .flags = CUDA_ACCESS_READ_WRITE};
	cuda_result result;

	if (!*inout_at)
		return pool_open(gpu->api, fd, memory, &access, inout_pool, inout_at);
	result = gpu->api->pool_access(*inout_pool, &access, 1);
	return result == CUDA_OK ? TCPX_OK
				 : sys_cuda_error(result, "access to another process's GPU memory");
}

void mem_cuda_pool_close(const struct sys_cuda *api, cuda_ptr at)
{
	struct opened **link = &all_opened, *it;

	while (*link && (*link)->at != at)
		link = &(*link)->next;
	it = *link;
	if (!it || --it->uses)
		return;
	*link = it->next;
	memory_close(api, at);
	pool_leave(api, it->pool);
	free(it);
}
