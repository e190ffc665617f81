/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the GPU's copy engine: contiguous copies become one driver call. */
#ifndef MEM_CUDA_ISSUE_H
#define MEM_CUDA_ISSUE_H

#include "mem/kind.h"
#include "sys/cuda.h"

#define MEM_BOUNCE_BYTES (1ull << 20)

/* Returns the number of driver calls that mem_issue_copies would make for this list without a
 * bounce buffer, or `enough` if there would be more. */
uint32_t mem_issue_calls(struct mem_copy *first, uint32_t enough);

/* Puts a list of copies, sorted by slot address, into the stream. If the driver refuses a copy,
 * sets the copy's `result`; the caller must still end this copy only with the whole list, because a
 * part of it may be in the stream. If `bounce` is not NULL, copies within the GPU (mem_copy.within)
 * go through this buffer, MEM_BOUNCE_BYTES of pinned memory for this stream alone, by two calls for
 * each MEM_BOUNCE_BYTES. Returns CUDA_OK, or the error that made the device unusable. Called by the
 * owner thread; the context must be current. */
cuda_result mem_issue_copies(const struct sys_cuda *api, cuda_stream stream, void *bounce,
			     struct mem_copy *first);

#endif
