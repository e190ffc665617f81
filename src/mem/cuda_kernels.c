/* SPDX-License-Identifier: Apache-2.0 */
/* The embedded copy kernels through the driver's function table. */
#include <stddef.h>
#include <string.h>

#include "base/error.h"
#include "mem/cuda_kernels.h"

#ifdef TCPX_WITH_NVCC
extern const unsigned char mem_copy_fatbin[]; /* made from copy.cu */
static const void *const image = mem_copy_fatbin;
#else
static const void *const image = NULL;
#endif

tcpx_status mem_cuda_module_load(const struct sys_cuda_gpu *gpu, const void *fatbin,
				 const char *what, cuda_module *out_module)
{
	cuda_result result;

	if (!fatbin)
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "built without nvcc: no %s kernels",
				 what);
	result = gpu->api->module_load(out_module, fatbin);
	if (result == CUDA_ERR_NO_BINARY_FOR_GPU || result == CUDA_ERR_UNSUPPORTED_PTX_VERSION ||
	    result == CUDA_ERR_INVALID_PTX)
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "no %s kernel in this build runs on %s (capability %u.%u)", what,
				 gpu->name, gpu->capability / 10, gpu->capability % 10);
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuModuleLoadData");
}

tcpx_status mem_cuda_module_find(const struct sys_cuda_gpu *gpu, cuda_module module,
				 const char *name, cuda_function *out_function)
{
	cuda_result result = gpu->api->module_function(out_function, module, name);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuModuleGetFunction");
}

tcpx_status mem_cuda_kernels_load(const struct sys_cuda_gpu *gpu,
				  struct mem_cuda_kernels *out_kernels)
{
	struct mem_cuda_kernels k = {.gpu = gpu};
	tcpx_status status;

	status = mem_cuda_module_load(gpu, image, "copy", &k.module);
	if (status != TCPX_OK && !image)
		return error_next(
			"scattered GPU memory is copied piece by piece; build with -Dcuda");
	if (status != TCPX_OK)
		return status;
	status = mem_cuda_module_find(gpu, k.module, "mem_gather", &k.gather);
	if (status == TCPX_OK)
		status = mem_cuda_module_find(gpu, k.module, "mem_scatter", &k.scatter);
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
	struct mem_copy_args copy = *args; /* the driver's parameter is not const */
	void *params[] = {&copy};
	cuda_result result = kernels->gpu->api->launch(to_slot ? kernels->gather : kernels->scatter,
						       args->blocks, 1, 1, MEM_COPY_THREADS, 1, 1,
						       0, stream, params, NULL);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuLaunchKernel");
}

void mem_cuda_kernels_unload(struct mem_cuda_kernels *kernels)
{
	if (kernels->module)
		(void)kernels->gpu->api->module_unload(kernels->module);
	memset(kernels, 0, sizeof(*kernels));
}
