/* SPDX-License-Identifier: Apache-2.0 */
/* The memory kind "cuda": memory of a CUDA device. One thread per device copies it from and to
 * slots of pinned host memory. */
#ifndef MEM_CUDA_KIND_H
#define MEM_CUDA_KIND_H

#include "mem/kind.h"
#include "sys/cuda.h"

extern const struct mem_kind mem_cuda;

/* Allocates pinned memory for a slot, preferably on the device's NUMA node, mapped into every
 * context. May take milliseconds, so it must not be called in the data path. Returns NULL on
 * failure; the last error says why. The slot holds a reference to the device until it is freed. Any
 * thread. */
void *mem_cuda_slot_alloc(size_t bytes, uint32_t device);
void mem_cuda_slot_free(void *slot, size_t bytes, uint32_t device);

/* Keeps an unused slot until mem_cuda_slots_free_left frees it or mem_cuda_slot_left returns it for
 * reuse. Called instead of mem_cuda_slot_free where the caller must not wait, because freeing may
 * wait for any work of the device. Any thread. */
void mem_cuda_slot_leave(void *slot, size_t bytes, uint32_t device);
/* returns a kept slot of this size for reuse, or NULL */
void *mem_cuda_slot_left(size_t bytes, uint32_t device);
void mem_cuda_slots_free_left(uint32_t device);

/* Returns 1 if the whole range lies in one slot that kernels on this device can access. *out_at is
 * then the range's address for the device. Returns 0 if kernels must not access the range. Any
 * thread. */
int mem_cuda_slot_mapped(const void *slot, uint64_t bytes, uint32_t device, cuda_ptr *out_at);

#endif
