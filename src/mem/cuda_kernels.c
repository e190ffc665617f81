/* SPDX-License-Identifier: Apache-2.0 */
/* Loads and launches the embedded copy and move kernels through the driver's function table. */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "mem/cuda_kernels.h"

/* The compiled code of copy.cu and move.cu, as fatbins or PTX text. */
extern const unsigned char mem_copy_image[], mem_move_image[];

tcpx_status mem_cuda_kernels_load(const struct sys_cuda_gpu *gpu,
				  struct mem_cuda_kernels *out_kernels)
{
	struct mem_cuda_kernels k = {.gpu = gpu};
	tcpx_status status;

	status = sys_cuda_module_load(gpu, mem_copy_image, "copy", &k.module);
	if (status != TCPX_OK)
		return status;
	status = sys_cuda_module_find(gpu, k.module, "mem_gather", &k.gather);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(gpu, k.module, "mem_scatter", &k.scatter);
	if (status == TCPX_OK)
		status = sys_cuda_module_load(gpu, mem_move_image, "move", &k.move_module);
	if (status == TCPX_OK)
		status = sys_cuda_module_find(gpu, k.move_module, "mem_move", &k.move);
	if (status != TCPX_OK) {
		mem_cuda_kernels_unload(&k);
		return status;
	}
	*out_kernels = k;
	return TCPX_OK;
}

tcpx_status mem_cuda_kernels_launch(const struct mem_cuda_kernels *kernels, int to_slot,
				    cuda_stream stream, const struct mem_copy_args *args)
{
	struct mem_copy_args copy = *args; /* the driver takes a pointer to non-const */
	void *params[] = {&copy};
	cuda_result result = kernels->gpu->api->launch(to_slot ? kernels->gather : kernels->scatter,
						       args->blocks, 1, 1, MEM_COPY_THREADS, 1, 1,
						       0, stream, params, NULL);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuLaunchKernel");
}

tcpx_status mem_cuda_kernels_move(const struct mem_cuda_kernels *kernels, cuda_stream stream,
				  const struct mem_move_args *args)
{
	struct mem_move_args copy = *args;
	void *params[] = {&copy};
	cuda_result result = kernels->gpu->api->launch(
		kernels->move, args->blocks, 1, 1, MEM_MOVE_THREADS, 1, 1, 0, stream, params, NULL);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuLaunchKernel");
}

void mem_cuda_kernels_unload(struct mem_cuda_kernels *kernels)
{
	if (kernels->move_module)
		(void)kernels->gpu->api->module_unload(kernels->move_module);
	if (kernels->module)
		(void)kernels->gpu->api->module_unload(kernels->module);
	memset(kernels, 0, sizeof(*kernels));
}
