/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU buffers for an example, by the CUDA driver alone: no toolkit to build, no library to link
 * (-ldl before glibc 2.34). A program with the CUDA runtime has cudaSetDevice, cudaMalloc,
 * cudaMemcpy and cudaDeviceSynchronize for it.
 */
#ifndef CUDA_MEMORY_H
#define CUDA_MEMORY_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The driver that libtcpx loads too. */
static inline void *cuda_call(const char *name)
{
	const char *path = getenv("TCPX_CUDA_LIBRARY");
	void *driver = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW);
	void *call = driver ? dlsym(driver, name) : NULL;

	if (call)
		return call;
	fprintf(stderr, "CUDA driver: %s\n", dlerror());
	exit(1);
}

#define CUDA(name, params, ...)                                                                    \
	do {                                                                                       \
		int cuda_result = ((int(*) params)cuda_call(#name))(__VA_ARGS__);                  \
		if (cuda_result) {                                                                 \
			fprintf(stderr, "%s: CUDA error %d\n", #name, cuda_result);                \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

/* Makes the n-th GPU that this process sees current, counted round; returns its index. */
static inline uint32_t cuda_use(int n)
{
	void *context;
	int count, device;

	CUDA(cuInit, (unsigned), 0);
	CUDA(cuDeviceGetCount, (int *), &count);
	CUDA(cuDeviceGet, (int *, int), &device, n % count);
	/* the context that libtcpx reaches: the primary one, as of the CUDA runtime */
	CUDA(cuDevicePrimaryCtxRetain, (void **, int), &context, device);
	CUDA(cuCtxSetCurrent, (void *), context);
	return (uint32_t)(n % count);
}

/* Between host and GPU, either way. It has ended when this returns, for every reader: the driver
 * comes back from a copy of ordinary memory to the GPU before the bytes are there. */
static inline void cuda_copy(void *to, const void *from, size_t bytes)
{
	CUDA(cuMemcpy, (unsigned long long, unsigned long long, size_t), (uintptr_t)to,
	     (uintptr_t)from, bytes);
	CUDA(cuCtxSynchronize, (void), );
}

/* GPU memory that holds the bytes of data: whoever posts it next sends them, no older ones. */
static inline void *cuda_buffer(const void *data, size_t bytes)
{
	unsigned long long at;

	CUDA(cuMemAlloc_v2, (unsigned long long *, size_t), &at, bytes);
	cuda_copy((void *)(uintptr_t)at, data, bytes);
	return (void *)(uintptr_t)at;
}

/* Not while it is registered. */
static inline void cuda_free(void *at)
{
	CUDA(cuMemFree_v2, (unsigned long long), (uintptr_t)at);
}

#endif
