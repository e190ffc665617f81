/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the CUDA driver that are used. */
#ifndef SYS_CUDA_LIST_H
#define SYS_CUDA_LIST_H

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
	X(pool_create, "cuMemPoolCreate", 11020,                                                   \
	  (cuda_pool * out, const struct cuda_pool_prop *prop))                                    \
	X(pool_destroy, "cuMemPoolDestroy", 11020, (cuda_pool pool))                               \
	X(pool_alloc, "cuMemAllocFromPoolAsync", 11020,                                            \
	  (cuda_ptr * out, size_t bytes, cuda_pool pool, cuda_stream stream))                      \
	X(pool_access, "cuMemPoolSetAccess", 11020,                                                \
	  (cuda_pool pool, const struct cuda_access *access, size_t count))                        \
	X(pool_export, "cuMemPoolExportToShareableHandle", 11020,                                  \
	  (void *out, cuda_pool pool, int type, unsigned long long flags))                         \
	X(pool_import, "cuMemPoolImportFromShareableHandle", 11020,                                \
	  (cuda_pool * out, void *os_handle, int type, unsigned long long flags))                  \
	X(pool_export_memory, "cuMemPoolExportPointer", 11020,                                     \
	  (struct cuda_pool_memory * out, cuda_ptr ptr))                                           \
	X(pool_import_memory, "cuMemPoolImportPointer", 11020,                                     \
	  (cuda_ptr * out, cuda_pool pool, struct cuda_pool_memory * memory))                      \
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

#endif
