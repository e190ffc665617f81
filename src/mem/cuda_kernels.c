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

static tcpx_status find(const struct sys_cuda *api, cuda_module module, const char *name,
			cuda_function *out)
{
	cuda_result result = api->module_function(out, module, name);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuModuleGetFunction");
}

tcpx_status mem_cuda_kernels_load(const struct sys_cuda_gpu *gpu,
				  struct mem_cuda_kernels *out_kernels)
{
	const struct sys_cuda *api = gpu->api;
	struct mem_cuda_kernels k = {.gpu = gpu};
	cuda_result result;
	tcpx_status status;

	if (!image) {
		(void)error_set(TCPX_ERR_UNSUPPORTED, 0, "built without nvcc: no copy kernels");
		return error_next(
			"scattered GPU memory is copied piece by piece; build with -Dcuda");
	}
	result = api->module_load(&k.module, image);
	if (result == CUDA_ERR_NO_BINARY_FOR_GPU || result == CUDA_ERR_UNSUPPORTED_PTX_VERSION ||
	    result == CUDA_ERR_INVALID_PTX)
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "no copy kernel in this build runs on %s (capability %u.%u)",
				 gpu->name, gpu->capability / 10, gpu->capability % 10);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "cuModuleLoadData");
	status = find(api, k.module, "mem_gather", &k.gather);
	if (status == TCPX_OK)
		status = find(api, k.module, "mem_scatter", &k.scatter);
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
