/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the GPU's copy engine: contiguous copies become one driver call. */
#ifndef MEM_CUDA_ISSUE_H
#define MEM_CUDA_ISSUE_H

#include "mem/kind.h"
#include "sys/cuda.h"

/* Number of driver calls that mem_issue_copies would make; counting stops at enough. */
uint32_t mem_issue_calls(struct mem_copy *first, uint32_t enough);

/* Puts a list of copies, sorted by slot, into the stream. A copy that the driver refuses gets its
 * result set; it still ends with the list, because a part of it may be in the stream. Returns
 * CUDA_OK, or why the device is broken. Owner thread; the context is current. */
cuda_result mem_issue_copies(const struct sys_cuda *api, cuda_stream stream,
			     struct mem_copy *first);

#endif
