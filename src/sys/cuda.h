/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, loaded at run time. Contains the table of its functions, and the visible devices
 * with their primary contexts.
 *
 * A call that needs a context must run between sys_cuda_push and sys_cuda_pop on the same thread.
 * sys_cuda_pop makes the previous context of the thread current again. The primary context of a
 * device is retained from the first sys_cuda_get to the last sys_cuda_put of the process.
 */
#ifndef SYS_CUDA_H
#define SYS_CUDA_H

#include "abi/cuda.h"
#include <tcpx/types.h>

/*
 * X(name, symbol, oldest driver version with the function, parameters). Loading fails if the driver
 * lacks a function that is not newer than the driver. Functions that are newer may be NULL.
 */
#define SYS_CUDA_DRIVER_MIN 11040
#define SYS_CUDA_LIST(X)                                                                           \
	X(init, "cuInit", 2000, (unsigned flags))                                                  \
	X(driver_version, "cuDriverGetVersion", 2020, (int *out))                                  \
	X(error_name, "cuGetErrorName", 6000, (cuda_result result, const char **out))              \
	X(error_string, "cuGetErrorString", 6000, (cuda_result result, const char **out))          \
	X(device_count, "cuDeviceGetCount", 2000, (int *out))                                      \
	X(device_get, "cuDeviceGet", 2000, (cuda_device * out, int ordinal))                       \
	X(device_name, "cuDeviceGetName", 2000, (char *out, int len, cuda_device device))          \
	X(device_attribute, "cuDeviceGetAttribute", 2000,                                          \
	  (int *out, int attribute, cuda_device device))                                           \
	X(device_pci, "cuDeviceGetPCIBusId", 4010, (char *out, int len, cuda_device device))       \
	X(device_uuid, "cuDeviceGetUuid_v2", 11040, (struct cuda_uuid * out, cuda_device device))  \
	X(device_bytes, "cuDeviceTotalMem_v2", 3020, (size_t * out, cuda_device device))           \
	X(device_can_access, "cuDeviceCanAccessPeer", 4000,                                        \
	  (int *out, cuda_device device, cuda_device peer))                                        \
	X(ctx_retain, "cuDevicePrimaryCtxRetain", 7000, (cuda_ctx * out, cuda_device device))      \
	X(ctx_release, "cuDevicePrimaryCtxRelease_v2", 11000, (cuda_device device))                \
	X(ctx_push, "cuCtxPushCurrent_v2", 4000, (cuda_ctx ctx))                                   \
	X(ctx_pop, "cuCtxPopCurrent_v2", 4000, (cuda_ctx * out))                                   \
	X(ctx_current, "cuCtxGetCurrent", 4000, (cuda_ctx * out))                                  \
	X(ctx_create, "cuCtxCreate_v2", 3020,                                                      \
	  (cuda_ctx * out, unsigned flags, cuda_device device))                                    \
	X(ctx_destroy, "cuCtxDestroy_v2", 4000, (cuda_ctx ctx))                                    \
	X(ctx_synchronize, "cuCtxSynchronize", 2000, (void))                                       \
	X(ctx_priorities, "cuCtxGetStreamPriorityRange", 5050,                                     \
	  (int *out_least, int *out_greatest))                                                     \
	X(ctx_enable_peer, "cuCtxEnablePeerAccess", 4000, (cuda_ctx peer, unsigned flags))         \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", 10010, (int *inout_mode))             \
	X(mem_info, "cuMemGetInfo_v2", 3020, (size_t * out_free, size_t * out_total))              \
	X(mem_alloc, "cuMemAlloc_v2", 3020, (cuda_ptr * out, size_t bytes))                        \
	X(mem_alloc_managed, "cuMemAllocManaged", 6000,                                            \
	  (cuda_ptr * out, size_t bytes, unsigned flags))                                          \
	X(mem_free, "cuMemFree_v2", 3020, (cuda_ptr ptr))                                          \
	X(mem_alloc_async, "cuMemAllocAsync", 11020,                                               \
	  (cuda_ptr * out, size_t bytes, cuda_stream stream))                                      \
	X(mem_free_async, "cuMemFreeAsync", 11020, (cuda_ptr ptr, cuda_stream stream))             \
	X(host_alloc, "cuMemHostAlloc", 2020, (void **out, size_t bytes, unsigned flags))          \
	X(host_free, "cuMemFreeHost", 2000, (void *ptr))                                           \
	X(host_register, "cuMemHostRegister_v2", 6050, (void *ptr, size_t bytes, unsigned flags))  \
	X(host_unregister, "cuMemHostUnregister", 4000, (void *ptr))                               \
	X(host_device_ptr, "cuMemHostGetDevicePointer_v2", 3020,                                   \
	  (cuda_ptr * out, void *ptr, unsigned flags))                                             \
	X(pointer_attribute, "cuPointerGetAttribute", 4000,                                        \
	  (void *out, int attribute, cuda_ptr ptr))                                                \
	X(pointer_attributes, "cuPointerGetAttributes", 7000,                                      \
	  (unsigned count, const int *attributes, void **outs, cuda_ptr ptr))                      \
	X(copy, "cuMemcpy", 4000, (cuda_ptr dst, cuda_ptr src, size_t bytes))                      \
	X(copy_async, "cuMemcpyAsync", 4000,                                                       \
	  (cuda_ptr dst, cuda_ptr src, size_t bytes, cuda_stream stream))                          \
	X(copy_peer_async, "cuMemcpyPeerAsync", 4000,                                              \
	  (cuda_ptr dst, cuda_ctx dst_ctx, cuda_ptr src, cuda_ctx src_ctx, size_t bytes,           \
	   cuda_stream stream))                                                                    \
	X(set_async, "cuMemsetD8Async", 3020,                                                      \
	  (cuda_ptr dst, unsigned char value, size_t bytes, cuda_stream stream))                   \
	X(stream_create, "cuStreamCreateWithPriority", 5050,                                       \
	  (cuda_stream * out, unsigned flags, int priority))                                       \
	X(stream_destroy, "cuStreamDestroy_v2", 4000, (cuda_stream stream))                        \
	X(stream_query, "cuStreamQuery", 2000, (cuda_stream stream))                               \
	X(stream_synchronize, "cuStreamSynchronize", 2000, (cuda_stream stream))                   \
	X(stream_wait_event, "cuStreamWaitEvent", 3020,                                            \
	  (cuda_stream stream, cuda_event event, unsigned flags))                                  \
	X(stream_write, "cuStreamWriteValue32_v2", 11070,                                          \
	  (cuda_stream stream, cuda_ptr addr, uint32_t value, unsigned flags))                     \
	X(event_create, "cuEventCreate", 2000, (cuda_event * out, unsigned flags))                 \
	X(event_destroy, "cuEventDestroy_v2", 4000, (cuda_event event))                            \
	X(event_record, "cuEventRecord", 2000, (cuda_event event, cuda_stream stream))             \
	X(event_query, "cuEventQuery", 2000, (cuda_event event))                                   \
	X(module_load, "cuModuleLoadData", 2000, (cuda_module * out, const void *image))           \
	X(module_unload, "cuModuleUnload", 2000, (cuda_module module))                             \
	X(module_function, "cuModuleGetFunction", 2000,                                            \
	  (cuda_function * out, cuda_module module, const char *name))                             \
	X(launch, "cuLaunchKernel", 4000,                                                          \
	  (cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,              \
	   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,            \
	   cuda_stream stream, void **params, void **extra))                                       \
	X(ipc_get, "cuIpcGetMemHandle", 4010, (struct cuda_ipc_mem * out, cuda_ptr ptr))           \
	X(ipc_open, "cuIpcOpenMemHandle_v2", 11000,                                                \
	  (cuda_ptr * out, struct cuda_ipc_mem handle, unsigned flags))                            \
	X(ipc_close, "cuIpcCloseMemHandle", 4010, (cuda_ptr ptr))                                  \
	X(mem_export, "cuMemGetHandleForAddressRange", 11070,                                      \
	  (void *out, cuda_ptr ptr, size_t bytes, int type, unsigned long long flags))             \
	X(vmm_granularity, "cuMemGetAllocationGranularity", 10020,                                 \
	  (size_t * out, const struct cuda_alloc_prop *prop, int flags))                           \
	X(vmm_create, "cuMemCreate", 10020,                                                        \
	  (cuda_alloc * out, size_t bytes, const struct cuda_alloc_prop *prop,                     \
	   unsigned long long flags))                                                              \
	X(vmm_release, "cuMemRelease", 10020, (cuda_alloc handle))                                 \
	X(vmm_retain, "cuMemRetainAllocationHandle", 11000, (cuda_alloc * out, void *addr))        \
	X(vmm_properties, "cuMemGetAllocationPropertiesFromHandle", 10020,                         \
	  (struct cuda_alloc_prop * out, cuda_alloc handle))                                       \
	X(vmm_export, "cuMemExportToShareableHandle", 10020,                                       \
	  (void *out, cuda_alloc handle, int type, unsigned long long flags))                      \
	X(vmm_import, "cuMemImportFromShareableHandle", 10020,                                     \
	  (cuda_alloc * out, void *os_handle, int type))                                           \
	X(vmm_reserve, "cuMemAddressReserve", 10020,                                               \
	  (cuda_ptr * out, size_t bytes, size_t alignment, cuda_ptr addr,                          \
	   unsigned long long flags))                                                              \
	X(vmm_unreserve, "cuMemAddressFree", 10020, (cuda_ptr ptr, size_t bytes))                  \
	X(vmm_map, "cuMemMap", 10020,                                                              \
	  (cuda_ptr ptr, size_t bytes, size_t offset, cuda_alloc handle,                           \
	   unsigned long long flags))                                                              \
	X(vmm_unmap, "cuMemUnmap", 10020, (cuda_ptr ptr, size_t bytes))                            \
	X(vmm_access, "cuMemSetAccess", 10020,                                                     \
	  (cuda_ptr ptr, size_t bytes, const struct cuda_access *access, size_t count))

struct sys_cuda {
#define SYS_CUDA_MEMBER(name, symbol, since, params) cuda_result(*name) params;
	SYS_CUDA_LIST(SYS_CUDA_MEMBER)
#undef SYS_CUDA_MEMBER
	int version; /* version of the driver: 1000 x major + 10 x minor */
	int devices; /* number of devices visible to this process, > 0 */
};

/* A visible device. Its ordinal means something in this process only; other processes identify the
 * device by its PCI address. */
struct sys_cuda_gpu {
	const struct sys_cuda *api;
	uint32_t ordinal;
	cuda_device device;
	cuda_ctx ctx; /* the primary context, retained */
	char pci[16]; /* such as "0000:17:00.0", in lower case as in sysfs */
	char name[64];
	int numa;		  /* NUMA node of the nearest host memory, -1 if unknown */
	uint32_t sms, capability; /* capability: 10 x major + minor */
	uint64_t bytes;
};

/*
 * Returns the driver. The first call loads and initialises it from the file that
 * CONFIG_CUDA_LIBRARY names; later calls return the same result. Returns NULL, with ERR_UNSUPPORTED
 * as the last error, if there is no driver or no device, if the driver is too old or a stub, or if
 * this process was forked after the first call. Any thread.
 */
const struct sys_cuda *sys_cuda_driver(void);

/* Retains the primary context of a visible device. Every get needs a put. Returns ERR_UNSUPPORTED
 * without a driver; ERR_INVALID if there is no such device, with the number of visible ones in the
 * error; ERR_NO_MEMORY; ERR_SYSTEM for any other error of the driver. Any thread. */
tcpx_status sys_cuda_get(uint32_t ordinal, struct sys_cuda_gpu **out_gpu);
void sys_cuda_put(struct sys_cuda_gpu *gpu); /* the last put of a device releases its context */

/* What sys_cuda_pop needs to undo a sys_cuda_push. */
struct sys_cuda_scope {
	const struct sys_cuda_gpu *gpu;
	int mode; /* the thread's capture mode before the push */
};
/* Makes the device's context current on this thread and switches the thread to the relaxed stream
 * capture mode. sys_cuda_pop undoes both. Returns ERR_SYSTEM if the driver refuses. */
tcpx_status sys_cuda_push(const struct sys_cuda_gpu *gpu, struct sys_cuda_scope *out_scope);
void sys_cuda_pop(struct sys_cuda_scope *scope);

/*
 * Loads kernels of this build into the current context, which must be that of `gpu`. `image` is a
 * fatbin, or PTX text with a zero byte at its end. The driver first compiles PTX, which takes up to
 * a second if the result is not in its cache. `what` names the kernels in error texts, such as
 * "copy". May wait for the GPU. Returns ERR_UNSUPPORTED if no kernel runs on this GPU or the driver
 * does not compile PTX, ERR_NO_MEMORY, or ERR_SYSTEM.
 */
tcpx_status sys_cuda_module_load(const struct sys_cuda_gpu *gpu, const void *image,
				 const char *what, cuda_module *out_module);
/* Finds the kernel called `name` in the module. Returns ERR_SYSTEM if it has no such kernel. */
tcpx_status sys_cuda_module_find(const struct sys_cuda_gpu *gpu, cuda_module module,
				 const char *name, cuda_function *out_function);

/* Sets the last error for a failed call of the driver, with the text "WHAT: CUDA_ERROR_X (text)",
 * and returns its status. OUT_OF_MEMORY becomes ERR_NO_MEMORY, INVALID_DEVICE and NO_DEVICE become
 * ERR_UNSUPPORTED, all others ERR_SYSTEM. `result` must not be CUDA_OK. */
tcpx_status sys_cuda_error(cuda_result result, const char *what);
/* Whether a call's result means that the context stays broken until the process is restarted. */
int sys_cuda_fatal(cuda_result result);

#endif
