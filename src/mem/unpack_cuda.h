/* SPDX-License-Identifier: Apache-2.0 */
/* The unpack kernels of one GPU: load, launch, unload. The caller has made the GPU's context
 * current on its thread. */
#ifndef MEM_UNPACK_CUDA_H
#define MEM_UNPACK_CUDA_H

#include "mem/unpack_abi.h"
#include "sys/cuda.h"

struct mem_unpack_kernels {
	const struct sys_cuda_gpu *gpu;
	cuda_module module;
	cuda_function list, in_params;
};

/* Loads the kernels. Errors are those of sys_cuda_module_load(). */
tcpx_status mem_unpack_kernels_load(const struct sys_cuda_gpu *gpu,
				    struct mem_unpack_kernels *out_kernels);
void mem_unpack_kernels_unload(struct mem_unpack_kernels *kernels);

/* Returns the number of blocks for a launch of count pieces: one per MEM_UNPACK_WARPS pieces, at
 * least one, at most what runs on the GPU at once. */
uint32_t mem_unpack_blocks(const struct sys_cuda_gpu *gpu, uint32_t count);

/* Puts one launch into the stream; args->blocks is set by the caller. pieces: CPU address of
 * args->pieces; a list of up to MEM_UNPACK_INLINE pieces is copied into the launch itself. */
cuda_result mem_unpack_kernels_launch(const struct mem_unpack_kernels *kernels, cuda_stream stream,
				      const struct mem_unpack_args *args,
				      const struct base_frag *pieces);

#endif
