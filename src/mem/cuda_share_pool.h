/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of CUDA memory pools (cuMemAllocFromPoolAsync): exports it to other processes, and opens
 * memory of other processes. A descriptor stands for the whole pool. Only pools that were created
 * with a handle for other processes can be exported; the default pool of a device cannot.
 */
#ifndef MEM_CUDA_SHARE_POOL_H
#define MEM_CUDA_SHARE_POOL_H

#include "sys/cuda.h"

/* Exports the allocation that begins at `start`, which belongs to the pool. *out_fd is a descriptor
 * of the pool, which the caller must close. Returns ERR_UNSUPPORTED if the pool was created without
 * a handle for other processes. The context must be current. */
tcpx_status mem_cuda_pool_export(const struct sys_cuda_gpu *gpu, cuda_pool pool, cuda_ptr start,
				 struct cuda_pool_memory *out_memory, int *out_fd);
/* Gives the device access to the memory of the pool *inout_pool. If *inout_at is 0, first opens the
 * pool of the descriptor and the allocation `memory`, and stores the pool in *inout_pool and the
 * allocation's address in *inout_at. `fd` and `memory` are the peer's claims; the driver refuses
 * those that do not belong together. The context must be current. Only the sharing thread. */
tcpx_status mem_cuda_pool_open(const struct sys_cuda_gpu *gpu, int fd,
			       const struct cuda_pool_memory *memory, cuda_pool *inout_pool,
			       cuda_ptr *inout_at);
/* Undoes mem_cuda_pool_open. No move that uses the memory may be under way. The context must be
 * current. Only the sharing thread. */
void mem_cuda_pool_close(const struct sys_cuda *api, cuda_ptr at);

#endif
