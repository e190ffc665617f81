/* SPDX-License-Identifier: Apache-2.0 */
/* The unpack kernels of one GPU: loaded, launched, unloaded. The GPU's context is current on the
 * thread of every call. */
#ifndef MEM_UNPACK_CUDA_H
#define MEM_UNPACK_CUDA_H

#include "mem/unpack_abi.h"
#include "sys/cuda.h"

struct mem_unpack_kernels {
	const struct sys_cuda_gpu *gpu;
	cuda_module module;
	cuda_function list, in_params;
};

/* As sys_cuda_module_load(). */
tcpx_status mem_unpack_kernels_load(const struct sys_cuda_gpu *gpu,
				    struct mem_unpack_kernels *out_kernels);
void mem_unpack_kernels_unload(struct mem_unpack_kernels *kernels);

/* Blocks for so many pieces: one for as many as it has warps, as far as all have room at once. */
uint32_t mem_unpack_blocks(const struct sys_cuda_gpu *gpu, uint32_t count);

/* One launch; args->blocks is set. pieces: what args->pieces is for the CPU; few of them travel in
 * the launch itself. */
cuda_result mem_unpack_kernels_launch(const struct mem_unpack_kernels *kernels, cuda_stream stream,
				      const struct mem_unpack_args *args,
				      const struct base_frag *pieces);

#endif
