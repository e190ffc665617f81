/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory mapped with cuMemMap, shared between processes: finds the bounds of a mapping, exports
 * its descriptor, and maps the descriptor of another process. */
#include "mem/cuda_share_map.h"

#include <fcntl.h>

#include "base/error.h"

/* An allocation of the application; a reference to it is held while its mapping is examined. */
struct found {
	const struct sys_cuda *api;
	cuda_alloc alloc;
	uint64_t step; /* granularity of mappings in bytes */
};

/* *out_mapped is 1 if cuMemRetainAllocationHandle should succeed at this address: memory is mapped
 * there that belongs neither to a context nor to a CUDA memory pool. Returns the driver's error;
 * that there is no memory at the address is no error. */
static cuda_result is_mapped_at(const struct sys_cuda *api, cuda_ptr at, int *out_mapped)
{
	static const int names[] = {CUDA_POINTER_CONTEXT, CUDA_POINTER_MAPPED,
				    CUDA_POINTER_MEMPOOL};
	cuda_ctx ctx = NULL;
	void *pool = NULL;
	int mapped = 0;
	void *outs[] = {&ctx, &mapped, &pool};
	cuda_result result = api->pointer_attributes(3, names, outs, at);

	*out_mapped = result == CUDA_OK && mapped && !ctx && !pool;
	return result == CUDA_ERR_INVALID_VALUE ? CUDA_OK : result;
}

/*
 * *out_same is 1 if the allocation of `found` is mapped at this address too. If the driver cannot
 * tell although memory is mapped there, returns the driver's error. The caller must not take this
 * for the end of the mapping: the region's offset would be wrong, and the peer would read wrong
 * bytes.
 */
static cuda_result is_same_at(const struct found *found, cuda_ptr at, int *out_same)
{
	cuda_alloc other = 0;
	cuda_result result = found->api->vmm_retain(&other, (void *)(uintptr_t)at), asked;
	int mapped;

	*out_same = result == CUDA_OK && other == found->alloc;
	if (result == CUDA_OK) {
		(void)found->api->vmm_release(other);
		return CUDA_OK;
	}
	asked = is_mapped_at(found->api, at, &mapped);
	return asked == CUDA_OK && mapped ? result : asked;
}

/* Finds the bounds of the mapping around `addr`. The mapping ends where another allocation or no
 * memory is mapped. The range that the driver reports is not used: it is the whole reservation in
 * some driver versions and the mapping in others. */
static cuda_result find_bounds(const struct found *found, cuda_ptr addr, cuda_ptr *out_start,
			       cuda_ptr *out_end)
{
	cuda_ptr start = addr - addr % found->step, end = start + found->step;
	cuda_result result = CUDA_OK;
	int same = 1;

	while (result == CUDA_OK && same && start >= found->step) {
		result = is_same_at(found, start - found->step, &same);
		if (result == CUDA_OK && same)
			start -= found->step;
	}
	for (same = 1; result == CUDA_OK && same;) {
		result = is_same_at(found, end, &same);
		if (result == CUDA_OK && same)
			end += found->step;
	}
	*out_start = start;
	*out_end = end;
	return result;
}

/* Sets found->step. Returns ERR_UNSUPPORTED if the application created the allocation without a
 * handle for other processes. */
static tcpx_status read_granularity(struct found *found)
{
	struct cuda_alloc_prop prop;
	cuda_result result = found->api->vmm_properties(&prop, found->alloc);
	size_t step = 0;

	if (result == CUDA_OK)
		result = found->api->vmm_granularity(&step, &prop, CUDA_GRANULARITY_MINIMUM);
	if (result != CUDA_OK || !step)
		return sys_cuda_error(result ? result : CUDA_ERR_UNKNOWN,
				      "properties of mapped GPU memory");
	if (!(prop.handle_types & CUDA_HANDLE_FD)) {
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "mapped GPU memory was made without a handle for other processes");
		return error_next(
			"ask cuMemCreate for CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; in "
			"PyTorch, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
	}
	found->step = step;
	return TCPX_OK;
}

static tcpx_status export_found(struct found *found, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd)
{
	cuda_ptr start = 0, end = 0;
	cuda_result result;
	tcpx_status status;
	int fd = -1;

	status = read_granularity(found);
	if (status != TCPX_OK)
		return status;
	result = find_bounds(found, addr, &start, &end);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "bounds of mapped GPU memory");
	if (length > end - addr) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "the region spans more than one mapping");
		return error_next("register each mapping by itself; in PyTorch, "
				  "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
	}
	result = found->api->vmm_export(&fd, found->alloc, CUDA_HANDLE_FD, 0);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "descriptor of mapped GPU memory");
	(void)fcntl(fd, F_SETFD, FD_CLOEXEC);
	*out_offset = addr - start;
	*out_span = end - start;
	*out_fd = fd;
	return TCPX_OK;
}

tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd)
{
	struct found found = {.api = gpu->api};
	cuda_result result = gpu->api->vmm_retain(&found.alloc, (void *)(uintptr_t)addr);
	tcpx_status status;

	if (result != CUDA_OK)
		return sys_cuda_error(result, "handle of mapped GPU memory");
	status = export_found(&found, addr, length, out_offset, out_span, out_fd);
	(void)gpu->api->vmm_release(found.alloc);
	return status;
}

/* Maps `span` bytes of the memory of a descriptor and stores their address in *out_base. No device
 * has access to the memory yet. */
static tcpx_status map_import(const struct sys_cuda *api, int fd, uint64_t span, cuda_ptr *out_base)
{
	cuda_alloc alloc = 0;
	cuda_ptr base = 0;
	cuda_result result =
		/* the driver takes fd by value */
		api->vmm_import(&alloc, (void *)(intptr_t)fd, CUDA_HANDLE_FD);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "mapped GPU memory of another process");
	result = api->vmm_reserve(&base, span, 0, 0, 0);
	if (result == CUDA_OK) {
		result = api->vmm_map(base, span, 0, alloc, 0);
		if (result != CUDA_OK)
			(void)api->vmm_unreserve(base, span);
	}
	(void)api->vmm_release(alloc); /* the mapping holds a reference */
	if (result != CUDA_OK)
		return sys_cuda_error(result, "mapping GPU memory of another process");
	*out_base = base;
	return TCPX_OK;
}

tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base)
{
	const struct cuda_access access = {.location = {CUDA_LOCATION_DEVICE, gpu->device},
					   .flags = CUDA_ACCESS_READ_WRITE};
	cuda_ptr base = *inout_base;
	tcpx_status status = TCPX_OK;
	cuda_result result;

	if (!base)
		status = map_import(gpu->api, fd, span, &base);
	if (status != TCPX_OK)
		return status;
	result = gpu->api->vmm_access(base, span, &access, 1);
	if (result != CUDA_OK) {
		if (!*inout_base)
			mem_cuda_map_close(gpu->api, base, span);
		return sys_cuda_error(result, "access to mapped GPU memory of another process");
	}
	*inout_base = base;
	return TCPX_OK;
}

void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span)
{
	(void)api->vmm_unmap(base, span);
	(void)api->vmm_unreserve(base, span);
}
