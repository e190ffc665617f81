/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "cuda": memory of a CUDA device, staged through pinned slots by one thread per
 * device. */
#ifndef MEM_CUDA_KIND_H
#define MEM_CUDA_KIND_H

#include "mem/kind.h"
#include "sys/cuda.h"

extern const struct mem_kind mem_cuda;

/* Allocates pinned memory for a slot near the device, mapped into every context. This may take
 * milliseconds, so it is not for the data path. NULL: the last error says why. A slot keeps a
 * reference to the device until it is freed. Any thread. */
void *mem_cuda_slot_alloc(size_t bytes, uint32_t device);
void mem_cuda_slot_free(void *slot, size_t bytes, uint32_t device);

/* Keeps a slot that nobody uses any more; later mem_cuda_slots_free_left frees it, or
 * mem_cuda_slot_left hands it out again. Used in place of mem_cuda_slot_free where the caller
 * must not wait, because freeing may wait for whatever runs on the device. Any thread. */
void mem_cuda_slot_leave(void *slot, size_t bytes, uint32_t device);
/* returns a kept slot of this size, or NULL */
void *mem_cuda_slot_left(size_t bytes, uint32_t device);
void mem_cuda_slots_free_left(uint32_t device);

/* Returns 1 if the whole range lies in one slot that this device can access; *out_at is then the
 * device's address of the first byte. 0: kernels must not touch this memory. Any thread. */
int mem_cuda_slot_mapped(const void *slot, uint64_t bytes, uint32_t device, cuda_ptr *out_at);

#endif
