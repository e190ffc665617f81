/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory mapped with cuMemMap: exports it to other processes, and maps memory of other
 * processes. */
#ifndef MEM_CUDA_SHARE_MAP_H
#define MEM_CUDA_SHARE_MAP_H

#include "sys/cuda.h"

/* Exports the mapping that contains the region at `addr`. *out_offset is the offset of the region
 * in the mapping, and *out_span the length of the mapping. *out_fd is a close-on-exec descriptor of
 * the mapping's memory, which the caller must close. Returns ERR_UNSUPPORTED if the memory was
 * created without a handle for other processes, or if the region lies in several mappings. The
 * context must be current. */
tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd);
/* Gives the device access to the mapping at *inout_base. If *inout_base is 0, first maps `span`
 * bytes of the memory of the descriptor `fd` and stores their address in *inout_base. `fd` still
 * belongs to the caller. The driver refuses a descriptor of anything other than GPU memory, and a
 * `span` that is longer than the memory. The context must be current. */
tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base);
/* Unmaps a mapping. No move that uses it may be under way. The context need not be current. */
void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span);

#endif
