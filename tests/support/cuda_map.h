/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory as applications make it without cuMemAlloc: mapped by addresses (cuMemMap), and of a
 * pool that other processes may open. */
#ifndef TESTS_CUDA_MAP_H
#define TESTS_CUDA_MAP_H

#include "sys/cuda.h"

static inline struct cuda_alloc_prop cuda_map_prop(uint32_t device, int handle_types)
{
	return (struct cuda_alloc_prop){.type = CUDA_ALLOC_PINNED,
					.handle_types = handle_types,
					.location = {CUDA_LOCATION_DEVICE, (int)device}};
}

/* Up to the granularity; 0: the driver does not say. */
static inline size_t cuda_map_round(const struct sys_cuda *api, uint32_t device, size_t bytes)
{
	struct cuda_alloc_prop prop = cuda_map_prop(device, CUDA_HANDLE_FD);
	size_t grain = 0;

	if (api->vmm_granularity(&grain, &prop, CUDA_GRANULARITY_MINIMUM) != CUDA_OK || !grain)
		return 0;
	return (bytes + grain - 1) / grain * grain;
}

/* One allocation of whole grains at reserved addresses, open to its device; only the mapping keeps
 * it. CUDA_HANDLE_FD: other processes may have it; CUDA_HANDLE_NONE: they may not. */
static inline cuda_result cuda_map_at(const struct sys_cuda *api, uint32_t device, cuda_ptr at,
				      size_t bytes, int handle_types)
{
	struct cuda_alloc_prop prop = cuda_map_prop(device, handle_types);
	struct cuda_access access = {{CUDA_LOCATION_DEVICE, (int)device}, CUDA_ACCESS_READ_WRITE};
	cuda_alloc alloc;
	cuda_result result = api->vmm_create(&alloc, bytes, &prop, 0);

	if (result != CUDA_OK)
		return result;
	result = api->vmm_map(at, bytes, 0, alloc, 0);
	(void)api->vmm_release(alloc);
	return result == CUDA_OK ? api->vmm_access(at, bytes, &access, 1) : result;
}

/* Maps one allocation for each grain, as PyTorch's expandable segments do. The context must be
 * current. */
static inline cuda_result cuda_map_take(const struct sys_cuda *api, uint32_t device, size_t bytes,
					cuda_ptr *out)
{
	size_t all = cuda_map_round(api, device, bytes), grain = cuda_map_round(api, device, 1);
	cuda_result result = api->vmm_reserve(out, all, 0, 0, 0);

	for (size_t at = 0; at < all && result == CUDA_OK; at += grain)
		result = cuda_map_at(api, device, *out + at, grain, CUDA_HANDLE_FD);
	return result;
}

static inline cuda_result cuda_map_give(const struct sys_cuda *api, uint32_t device, size_t bytes,
					cuda_ptr at)
{
	size_t all = cuda_map_round(api, device, bytes);
	cuda_result result = api->vmm_unmap(at, all), freed = api->vmm_unreserve(at, all);

	return result == CUDA_OK ? freed : result;
}

/* Creates a pool and allocates memory from it. The context must be current. */
static inline cuda_result cuda_pool_take(const struct sys_cuda *api, uint32_t device, size_t bytes,
					 cuda_ptr *out)
{
	struct cuda_pool_prop prop = {.type = CUDA_ALLOC_PINNED,
				      .handle_types = CUDA_HANDLE_FD,
				      .location = {CUDA_LOCATION_DEVICE, (int)device}};
	cuda_pool pool = NULL;
	cuda_result result = api->pool_create(&pool, &prop);

	if (result == CUDA_OK)
		result = api->pool_alloc(out, bytes, pool, NULL);
	return result == CUDA_OK ? api->stream_synchronize(NULL) : result;
}

/* Frees the memory and destroys its pool. */
static inline cuda_result cuda_pool_give(const struct sys_cuda *api, cuda_ptr at)
{
	cuda_pool pool = NULL;
	cuda_result result = api->pointer_attribute(&pool, CUDA_POINTER_MEMPOOL, at);

	if (result == CUDA_OK)
		result = api->mem_free(at);
	return result == CUDA_OK ? api->pool_destroy(pool) : result;
}

#endif
