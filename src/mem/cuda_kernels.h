/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, launches and unloads the embedded copy and move kernels of one GPU. The caller must have
 * made the GPU's context current (sys_cuda_push). */
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

/* Loads the kernels. Returns the errors of sys_cuda_module_load(). Called when the GPU's owner
 * thread starts, usually because memory is registered, so that no transfer waits for the
 * loading. */
tcpx_status mem_cuda_kernels_load(const struct sys_cuda_gpu *gpu,
				  struct mem_cuda_kernels *out_kernels);

/* Puts one launch into the stream. The launch copies the pieces into the slot if `to_slot` is 1, or
 * the slot into the pieces if it is 0. `args` is copied; the memory that it points to must stay
 * valid until the stream has passed the launch. Never blocks. If it returns an error, nothing was
 * launched. */
tcpx_status mem_cuda_kernels_launch(const struct mem_cuda_kernels *kernels, int to_slot,
				    cuda_stream stream, const struct mem_copy_args *args);

/* Puts one launch of the move kernel (move_abi.h) into the stream. The kernel copies from memory
 * that this GPU can read to memory that it can write. For `args` and errors see
 * mem_cuda_kernels_launch. */
tcpx_status mem_cuda_kernels_move(const struct mem_cuda_kernels *kernels, cuda_stream stream,
				  const struct mem_move_args *args);

/* Unloads the kernels. The caller must make sure that no launch is under way. Ignores errors,
 * because the driver may have been shut down already at process exit. */
void mem_cuda_kernels_unload(struct mem_cuda_kernels *kernels);

#endif
