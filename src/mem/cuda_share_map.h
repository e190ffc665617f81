/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped GPU memory (cuMemMap) between processes. */
#ifndef MEM_CUDA_SHARE_MAP_H
#define MEM_CUDA_SHARE_MAP_H

#include "sys/cuda.h"

/* Exports the one mapping that contains the region at addr. *out_offset: offset of the region in
 * the mapping; *out_span: length of the mapping; *out_fd: a close-on-exec descriptor of its
 * memory, owned by the caller. ERR_UNSUPPORTED: the memory was created without a handle for other
 * processes, or the region lies in several mappings. The context is current. */
tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd);
/* Gives the device access to a mapping of *inout_base. If *inout_base is 0, first maps all memory
 * of the descriptor and stores the address there; fd stays the caller's. The driver refuses a
 * descriptor of anything but GPU memory, and a span that is longer than the memory. The context is
 * current. */
tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base);
/* Unmaps a mapping from which no move is under way. The context need not be current. */
void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span);

#endif
