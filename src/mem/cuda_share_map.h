/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory mapped with cuMemMap: exports it to other processes, and maps memory of other
 * processes. A region may lie in many mappings (PyTorch's expandable segments are made of mappings
 * of 2 or 20 MiB), and each mapping has a descriptor of its own. The exporter puts all of them as
 * messages into a new unix socket, whose other end stands for the region: it is passed to the
 * opener like any descriptor. Descriptors that nobody has received belong to no process's table.
 */
#ifndef MEM_CUDA_SHARE_MAP_H
#define MEM_CUDA_SHARE_MAP_H

#include "sys/cuda.h"

/* Exports the mappings that contain the region at `addr`. *out_offset is the offset of the region
 * in the first mapping, *out_span the bytes of all mappings. *out_fd is the socket from which
 * mem_cuda_map_open receives them; sys_fd_close must close it. Returns ERR_UNSUPPORTED if memory
 * was created without a handle for other processes, ERR_NO_DESCRIPTORS if a later call may succeed,
 * ERR_LIMIT if the socket has no room for all descriptors. The context must be current. */
tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd);
/* Gives the device access to the mapped memory at *inout_base. If *inout_base is 0, first receives
 * the mappings from `fd`, maps them one after another, and stores the address of the first in
 * *inout_base. `fd` may be any descriptor, because the peer chose it; it still belongs to the
 * caller. Returns ERR_PROTOCOL if the mappings do not add up to `span`, ERR_AGAIN if this process
 * has no room for descriptors. The driver refuses descriptors of anything other than GPU memory,
 * and mappings longer than their memory. Does not wait for the peer. The context must be
 * current. */
tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base);
/* Unmaps what mem_cuda_map_open has mapped. No move that uses it may be under way. The context need
 * not be current. */
void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span);

#endif
