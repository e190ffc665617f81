/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of GPU memory that share_rig.h can allocate. Two processes can share most of them. */
#ifndef UNIT_SHARE_MEMORY_H
#define UNIT_SHARE_MEMORY_H

#include "cuda_map.h"
#include "cuda_rig.h"

#define SHARE_BYTES ((20u << 20) + 12345)

/* The kind of memory of both sides. */
enum share_memory {
	SHARE_ALLOC,   /* cuMemAlloc */
	SHARE_POOL,    /* cuMemAllocAsync, default pool */
	SHARE_POOL_FD, /* a pool that other processes can open */
	SHARE_MAPPED,  /* cuMemMap */
	SHARE_INSIDE,  /* part of the second of three mappings, which follow an unmapped gap */
	SHARE_CLOSED,  /* cuMemMap without a handle for other processes */
	SHARE_ACROSS, /* three mappings; the region starts within the first and ends in the third */
};
/* A reservation: a gap, followed by adjacent mappings. Sizes are in grains. */
static const struct share_layout {
	unsigned gap, grains[3];
	size_t offset; /* bytes from the end of the gap to the region */
	int handle_types;
} share_layouts[] = {
	[SHARE_MAPPED] = {0, {11}, 0, CUDA_HANDLE_FD},
	[SHARE_INSIDE] = {2, {1, 14, 2}, (8u << 20) + 77777, CUDA_HANDLE_FD},
	[SHARE_CLOSED] = {0, {11}, 0, CUDA_HANDLE_NONE},
	[SHARE_ACROSS] = {1, {4, 5, 6}, (3u << 20) + 4321, CUDA_HANDLE_FD},
};
static enum share_memory share_memory; /* of both processes */

static inline size_t layout_mapped(const struct share_layout *is)
{
	return (size_t)(is->grains[0] + is->grains[1] + is->grains[2]) << 21;
}

static inline cuda_ptr layout_take(uint32_t device)
{
	const struct share_layout *is = &share_layouts[share_memory];
	size_t gap = (size_t)is->gap << 21;
	struct rig_scope rig;
	cuda_ptr base = 0, at;

	rig_enter(&rig, device);
	assert_int_equal(cuda_map_round(api, device, 1), 2u << 20);
	assert_int_equal(api->vmm_reserve(&base, gap + layout_mapped(is), 0, 0, 0), CUDA_OK);
	at = base += gap;
	for (unsigned i = 0; i < 3 && is->grains[i]; i++) {
		assert_int_equal(
			cuda_map_at(api, device, at, (size_t)is->grains[i] << 21, is->handle_types),
			CUDA_OK);
		at += (size_t)is->grains[i] << 21;
	}
	rig_leave(&rig);
	return base + is->offset;
}

static inline cuda_ptr pool_take(uint32_t device)
{
	struct rig_scope rig;
	cuda_ptr memory = 0;

	rig_enter(&rig, device);
	assert_int_equal(cuda_pool_take(api, device, SHARE_BYTES, &memory), CUDA_OK);
	rig_leave(&rig);
	return memory;
}

static inline void pool_give(uint32_t device, cuda_ptr memory)
{
	struct rig_scope rig;

	rig_enter(&rig, device);
	assert_int_equal(cuda_pool_give(api, memory), CUDA_OK);
	rig_leave(&rig);
}

static inline cuda_ptr share_alloc(uint32_t device)
{
	switch (share_memory) {
	case SHARE_ALLOC:
		return rig_alloc(device, SHARE_BYTES);
	case SHARE_POOL:
		return rig_alloc_pool(device, SHARE_BYTES);
	case SHARE_POOL_FD:
		return pool_take(device);
	default:
		return layout_take(device);
	}
}

static inline void share_give(uint32_t device, cuda_ptr memory)
{
	const struct share_layout *is = &share_layouts[share_memory];
	size_t gap = (size_t)is->gap << 21;

	if (share_memory <= SHARE_POOL_FD) {
		(share_memory == SHARE_POOL_FD ? pool_give : rig_free)(device, memory);
		return;
	}
	memory -= is->offset;
	assert_int_equal(api->vmm_unmap(memory, layout_mapped(is)), CUDA_OK);
	assert_int_equal(api->vmm_unreserve(memory - gap, gap + layout_mapped(is)), CUDA_OK);
}

#endif
