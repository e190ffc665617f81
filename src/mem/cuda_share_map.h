/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped GPU memory (cuMemMap) between processes. */
#ifndef MEM_CUDA_SHARE_MAP_H
#define MEM_CUDA_SHARE_MAP_H

#include "sys/cuda.h"

/* Exports the one mapping that contains the region: the offset of the region in it, its length, and
 * a close-on-exec descriptor of its memory, owned by the caller. ERR_UNSUPPORTED: it was made
 * without that option, or the region lies in several mappings. The context is current. */
tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd);
/* Opens a mapping to the device; *inout_base 0: first maps all memory of the descriptor, which the
 * caller keeps. The driver refuses anything but GPU memory, and more than there is. The context is
 * current. */
tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base);
/* No move from it is under way; no context need be current. */
void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span);

#endif
