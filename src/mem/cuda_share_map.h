/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped GPU memory (cuMemMap) between processes. */
#ifndef MEM_CUDA_SHARE_MAP_H
#define MEM_CUDA_SHARE_MAP_H

#include "sys/cuda.h"

/* The context is current. The one mapping that the region lies in: where the region begins in it,
 * how long it is, and a descriptor of its memory, close-on-exec, the caller's. ERR_UNSUPPORTED: it
 * was not made for that, or the region lies in several. */
tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd);
/* The context is current. Opens a mapping to the device; *inout_base 0: first maps all of the
 * memory of the descriptor, which stays the caller's, at addresses of this process. The driver
 * refuses what is no GPU memory, and more than there is. */
tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base);
/* No move of it is under way, and no context need be current. */
void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span);

#endif
