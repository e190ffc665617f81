/* SPDX-License-Identifier: Apache-2.0 */
/* Copies by the GPU's copy engine: what lies side by side on both sides is one driver call. */
#ifndef MEM_CUDA_ISSUE_H
#define MEM_CUDA_ISSUE_H

#include "mem/kind.h"
#include "sys/cuda.h"

/* Driver calls that mem_issue_copies would make. */
uint32_t mem_issue_calls(struct mem_copy *first);

/* Puts a list of copies, sorted by slot, into the stream. One that the driver refuses has its
 * result set; it still ends with the list, for a part of it may be in the stream. Returns CUDA_OK,
 * or why the device is broken. Owner; the context is current. */
cuda_result mem_issue_copies(const struct sys_cuda *api, cuda_stream stream,
			     struct mem_copy *first);

#endif
