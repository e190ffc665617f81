/* SPDX-License-Identifier: Apache-2.0 */
/* Loads, launches and unloads the unpack kernels of one GPU. The caller must have made the GPU's
 * context current on its thread. */
#ifndef MEM_UNPACK_CUDA_H
#define MEM_UNPACK_CUDA_H

#include "mem/unpack_abi.h"
#include "sys/cuda.h"

struct mem_unpack_kernels {
	const struct sys_cuda_gpu *gpu;
	cuda_module module;
	cuda_function list, in_params;
};

/* Loads the kernels. Returns the errors of sys_cuda_module_load(). */
tcpx_status mem_unpack_kernels_load(const struct sys_cuda_gpu *gpu,
				    struct mem_unpack_kernels *out_kernels);
void mem_unpack_kernels_unload(struct mem_unpack_kernels *kernels);

/* Returns the number of blocks for a launch of `count` pieces: one per MEM_UNPACK_WARPS pieces, at
 * least one, and at most as many as the GPU runs at once. */
uint32_t mem_unpack_blocks(const struct sys_cuda_gpu *gpu, uint32_t count);

/* Puts one launch into the stream. The caller must have set args->blocks. `pieces` is the CPU
 * address of args->pieces; a list of up to MEM_UNPACK_INLINE pieces is copied into the launch
 * itself. */
cuda_result mem_unpack_kernels_launch(const struct mem_unpack_kernels *kernels, cuda_stream stream,
				      const struct mem_unpack_args *args,
				      const struct base_frag *pieces);

#endif
