/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CUDA driver whether pages of GPU memory can be exported. See cuda_cover.h. */
#include "mem/cuda_cover.h"

#include <unistd.h>

#include "base/error.h"
#include "sys/fd.h"

#define CALL "cuMemGetHandleForAddressRange"

static tcpx_status cover_refused(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes,
				 const char *why)
{
	int exports = 1;

	error_set(TCPX_ERR_UNSUPPORTED, 0,
		  "GPU %u: no dma-buf of the %llu bytes of pages at %#llx: %s", gpu->ordinal,
		  (unsigned long long)bytes, (unsigned long long)at, why);
	if (gpu->api->device_attribute(&exports, CUDA_DEVICE_DMABUF_SUPPORTED, gpu->device) ==
		    CUDA_OK &&
	    !exports)
		return error_next("install a GPU driver that exports dma-bufs (NVIDIA's open "
				  "kernel modules)");
	return error_next("allocate the memory aligned to 64 KiB and in multiples of 64 KiB");
}

/* Asks the driver for a dma-buf of the range, and closes its descriptor at once. */
static tcpx_status ask_driver(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes)
{
	int fd = -1; /* a driver that refuses may leave `fd` unchanged */
	cuda_result result = gpu->api->mem_export(&fd, at, (size_t)bytes, CUDA_RANGE_DMABUF_FD, 0);

	if (result == CUDA_OK && fd >= 0) {
		sys_fd_close(fd);
		return TCPX_OK;
	}
	if (result == CUDA_OK)
		return cover_refused(gpu, at, bytes, CALL " gave no descriptor");
	(void)sys_cuda_error(result, CALL);
	return cover_refused(gpu, at, bytes, error_last()->what);
}

/* For drivers that cannot export a dma-buf: checks that the range lies in one allocation. */
static tcpx_status check_allocation(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes)
{
	const struct sys_cuda *api = gpu->api;
	cuda_ptr start = 0;
	size_t size = 0;

	if (api->pointer_attribute(&start, CUDA_POINTER_RANGE_START, at) == CUDA_OK &&
	    api->pointer_attribute(&size, CUDA_POINTER_RANGE_SIZE, at) == CUDA_OK && start <= at &&
	    at - start <= size && bytes <= size - (at - start))
		return TCPX_OK;
	return cover_refused(gpu, at, bytes,
			     "they reach outside the allocation, and the driver has no " CALL);
}

tcpx_status mem_cuda_cover(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes)
{
	return gpu->api->mem_export ? ask_driver(gpu, at, bytes) : check_allocation(gpu, at, bytes);
}
