/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded copy kernels of one GPU: load, launch, unload. The caller has made the GPU's context
 * current (sys_cuda_push). */
#ifndef MEM_CUDA_KERNELS_H
#define MEM_CUDA_KERNELS_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"
#include "mem/move_abi.h"
#include "sys/cuda.h"

struct mem_cuda_kernels {
	const struct sys_cuda_gpu *gpu;
	cuda_module module, move_module;
	cuda_function gather, scatter, move;
};

/* Loads the kernels. Errors are those of sys_cuda_module_load(). Called at registration, so that
 * no transfer waits for it. */
tcpx_status mem_cuda_kernels_load(const struct sys_cuda_gpu *gpu,
				  struct mem_cuda_kernels *out_kernels);

/* Puts one launch into the stream: pieces into the slot (to_slot 1) or the slot into pieces (0).
 * args is copied; the caller keeps what it points to until the stream has passed the launch.
 * Never blocks. ERR_SYSTEM: nothing was launched. */
tcpx_status mem_cuda_kernels_launch(const struct mem_cuda_kernels *kernels, int to_slot,
				    cuda_stream stream, const struct mem_copy_args *args);

/* Puts one launch of the move kernel (move_abi.h) into the stream: from memory that this GPU can
 * read to memory that it can write. args and ERR_SYSTEM as in mem_cuda_kernels_launch. */
tcpx_status mem_cuda_kernels_move(const struct mem_cuda_kernels *kernels, cuda_stream stream,
				  const struct mem_move_args *args);

/* Unloads the kernels; the caller makes sure that no launch is under way. Ignores errors: at
 * process exit the driver may be gone already. */
void mem_cuda_kernels_unload(struct mem_cuda_kernels *kernels);

#endif
