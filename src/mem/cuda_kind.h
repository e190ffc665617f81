/* SPDX-License-Identifier: Apache-2.0 */
/* The kind "cuda": memory of a CUDA device, staged through pinned slots by one thread per
 * device. */
#ifndef MEM_CUDA_KIND_H
#define MEM_CUDA_KIND_H

#include "mem/kind.h"
#include "sys/cuda.h"

extern const struct mem_kind mem_cuda;

/* Pinned slots near the device, mapped into every context. May take milliseconds, so not for the
 * data path. NULL with the last error. A slot holds the device until it is freed. Any thread. */
void *mem_cuda_slot_alloc(size_t bytes, uint32_t device);
void mem_cuda_slot_free(void *slot, size_t bytes, uint32_t device);

/* Unused slots, kept until free_left or until slot_left reuses one of the same size, because
 * freeing may wait for whatever runs on the device. Any thread. */
void mem_cuda_slot_leave(void *slot, size_t bytes, uint32_t device);
void *mem_cuda_slot_left(size_t bytes, uint32_t device); /* NULL: none */
void mem_cuda_slots_free_left(uint32_t device);

/* 1: the whole range lies in a slot of this device, and *out_at is its device address. 0: kernels
 * must not touch this memory. Any thread. */
int mem_cuda_slot_mapped(const void *slot, uint64_t bytes, uint32_t device, cuda_ptr *out_at);

#endif
