/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, where the process has one: never linked, found among what is loaded. Contexts
 * are primary ones, retained once a device and kept; no call leaves one current.
 */
#include "emu.h"

#include "abi/cuda.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GPU_GRAIN ((size_t)2 << 20)
#define GPU_ALIGN 256u /* of small allocations, at least */
#define LOADED_MAX 512

/* X(member, symbol, parameters) */
#define CUDA_CALLS(X)                                                                              \
	X(init, "cuInit", (unsigned flags))                                                        \
	X(device_count, "cuDeviceGetCount", (int *out))                                            \
	X(device_get, "cuDeviceGet", (cuda_device * out, int ordinal))                             \
	X(device_pci, "cuDeviceGetPCIBusId", (char *out, int len, cuda_device device))             \
	X(retain, "cuDevicePrimaryCtxRetain", (cuda_ctx * out, cuda_device device))                \
	X(push, "cuCtxPushCurrent_v2", (cuda_ctx ctx))                                             \
	X(pop, "cuCtxPopCurrent_v2", (cuda_ctx * out))                                             \
	X(current, "cuCtxGetCurrent", (cuda_ctx * out))                                            \
	X(capture_mode, "cuThreadExchangeStreamCaptureMode", (int *inout_mode))                    \
	X(ctx_device, "cuCtxGetDevice", (cuda_device * out))                                       \
	X(attribute, "cuPointerGetAttribute", (void *out, int attribute, cuda_ptr ptr))            \
	X(host_alloc, "cuMemHostAlloc", (void **out, size_t bytes, unsigned flags))                \
	X(host_free, "cuMemFreeHost", (void *ptr))                                                 \
	X(host_pointer, "cuMemHostGetDevicePointer_v2", (cuda_ptr * out, void *ptr, unsigned f))   \
	X(alloc, "cuMemAlloc_v2", (cuda_ptr * out, size_t bytes))                                  \
	X(release, "cuMemFree_v2", (cuda_ptr ptr))                                                 \
	X(copy, "cuMemcpyAsync", (cuda_ptr dst, cuda_ptr src, size_t bytes, cuda_stream stream))   \
	X(set, "cuMemsetD8Async",                                                                  \
	  (cuda_ptr dst, unsigned char value, size_t bytes, cuda_stream stream))                   \
	X(stream_create, "cuStreamCreateWithPriority",                                             \
	  (cuda_stream * out, unsigned flags, int priority))                                       \
	X(stream_destroy, "cuStreamDestroy_v2", (cuda_stream stream))                              \
	X(stream_wait, "cuStreamSynchronize", (cuda_stream stream))                                \
	X(create, "cuMemCreate",                                                                   \
	  (cuda_alloc * out, size_t bytes, const struct cuda_alloc_prop *prop,                     \
	   unsigned long long flags))                                                              \
	X(reserve, "cuMemAddressReserve",                                                          \
	  (cuda_ptr * out, size_t bytes, size_t alignment, cuda_ptr addr,                          \
	   unsigned long long flags))                                                              \
	X(map, "cuMemMap",                                                                         \
	  (cuda_ptr ptr, size_t bytes, size_t offset, cuda_alloc handle,                           \
	   unsigned long long flags))                                                              \
	X(access, "cuMemSetAccess",                                                                \
	  (cuda_ptr ptr, size_t bytes, const struct cuda_access *access, size_t count))

static struct {
#define CUDA_MEMBER(member, symbol, params) cuda_result(*member) params;
	CUDA_CALLS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda;
/* Of the stand-in for the driver alone: memory is read and written as a NIC does, whatever its
 * streams do. */
static int (*device_read)(uint64_t ptr, void *buf, size_t bytes);
static int (*device_write)(uint64_t ptr, const void *buf, size_t bytes);
static _Atomic bool cuda_found;
static pthread_mutex_t cuda_lock = PTHREAD_MUTEX_INITIALIZER;
static cuda_ctx contexts[EMU_GPUS]; /* by ordinal */
static __thread int capture_before;

static bool table_from(void *handle)
{
	void *symbol;

#define CUDA_FIND(member, name, params)                                                            \
	symbol = dlsym(handle, name);                                                              \
	if (!symbol)                                                                               \
		return false;                                                                      \
	memcpy(&cuda.member, &symbol, sizeof(symbol));
	CUDA_CALLS(CUDA_FIND)
#undef CUDA_FIND
	symbol = dlsym(handle, "fakecuda_read");
	memcpy(&device_read, &symbol, sizeof(symbol));
	symbol = dlsym(handle, "fakecuda_write");
	memcpy(&device_write, &symbol, sizeof(symbol));
	return true;
}

/* Names of what is loaded; looked at afterwards: dlopen in here could meet another one's lock. */
struct loaded {
	char *name[LOADED_MAX];
	int count;
};

static int note_name(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct loaded *loaded = arg;

	(void)size;
	if (info->dlpi_name && info->dlpi_name[0] && loaded->count < LOADED_MAX)
		loaded->name[loaded->count++] = strdup(info->dlpi_name);
	return 0;
}

/* The first loaded object that is a driver; it was loaded with RTLD_LOCAL, so by its name. */
static bool table_of(const char *name)
{
	void *handle = name ? dlopen(name, RTLD_NOW | RTLD_NOLOAD) : NULL;

	if (!handle)
		return false;
	if (dlsym(handle, "cuMemHostAlloc") && table_from(handle))
		return true; /* and kept: handle is never closed */
	dlclose(handle);
	return false;
}

static void find_locked(void)
{
	struct loaded loaded = {.count = 0};
	bool found = atomic_load(&cuda_found);

	if (!found)
		dl_iterate_phdr(note_name, &loaded);
	for (int i = 0; i < loaded.count; i++) {
		found = found || table_of(loaded.name[i]);
		free(loaded.name[i]);
	}
	atomic_store(&cuda_found, found);
}

bool emu_cuda_here(void)
{
	if (!atomic_load(&cuda_found)) {
		pthread_mutex_lock(&cuda_lock);
		find_locked();
		pthread_mutex_unlock(&cuda_lock);
	}
	return atomic_load(&cuda_found);
}

int emu_cuda_load(void)
{
	const char *path = getenv("TCPX_CUDA_LIBRARY");
	void *handle;

	if (!emu_cuda_here()) {
		handle = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
		if (!handle || !emu_cuda_here())
			return -1;
	}
	return cuda.init(0) ? -1 : 0;
}

/* A machine that has no more to give breaks no rule: the call fails, and that is all. */
static int failed(const char *what, cuda_result result)
{
	if (result == CUDA_ERR_OUT_OF_MEMORY)
		return -1;
	return result ? (emu_violation(TCPXEMU_CUDA, "%s: %d", what, result), -1) : 0;
}

/* A GPU of the topology by its PCI address; a machine that is not the topology counts them. */
static int gpu_of_device(cuda_device device)
{
	char pci[24] = "";

	if (cuda.device_pci(pci, sizeof(pci), device))
		return -1;
	for (int i = 0; i < emu_config.gpus; i++) {
		if (!strcasecmp(pci, emu_config.gpu[i].pci))
			return i;
	}
	return device < emu_config.gpus ? device : -1;
}

static cuda_device device_of_gpu(int gpu)
{
	int count = 0;

	if (!cuda.device_count(&count)) {
		for (cuda_device i = 0; i < count; i++) {
			if (gpu_of_device(i) == gpu)
				return i;
		}
	}
	return -1;
}

int emu_cuda_current(void)
{
	cuda_ctx ctx = NULL;
	cuda_device device;

	if (!emu_cuda_here() || cuda.current(&ctx) || !ctx || cuda.ctx_device(&device))
		return -1;
	return gpu_of_device(device);
}

/* 1: memory that only the device touches; 0: the CPU may; -1: none of CUDA's. */
static int pointer(uintptr_t at, int *out_gpu)
{
	unsigned type = 0;
	int ordinal = -1, managed = 0;

	if (cuda.attribute(&type, CUDA_POINTER_MEMORY_TYPE, at))
		return -1;
	if (type != CUDA_MEMORY_DEVICE)
		return 0;
	if (!cuda.attribute(&ordinal, CUDA_POINTER_DEVICE_ORDINAL, at))
		*out_gpu = gpu_of_device(ordinal);
	cuda.attribute(&managed, CUDA_POINTER_IS_MANAGED, at);
	return !managed;
}

/* Memory begins somewhere in the range's first page: whole pages around it are registered, and
 * small allocations lie at any multiple of GPU_ALIGN. */
int emu_cuda_range(const void *data, size_t bytes, int *out_gpu)
{
	int found = -1;

	*out_gpu = -1;
	if (!emu_cuda_here())
		return 0;
	for (size_t at = 0; at < bytes && at < EMU_PAGE && found < 0; at += GPU_ALIGN)
		found = pointer((uintptr_t)data + at, out_gpu);
	return found > 0;
}

/*
 * Between enter and leave the GPU's primary context is current, and a capture that another thread
 * has begun forbids nothing here.
 */
static int enter(int gpu)
{
	cuda_device device = gpu < 0 ? 0 : device_of_gpu(gpu);
	cuda_result rc = CUDA_OK;
	cuda_ctx ctx;

	if (device < 0 || device >= EMU_GPUS)
		return failed("no such device", CUDA_ERR_INVALID_DEVICE);
	pthread_mutex_lock(&cuda_lock);
	if (!contexts[device])
		rc = cuda.retain(&contexts[device], device);
	ctx = contexts[device];
	pthread_mutex_unlock(&cuda_lock);
	if (failed("cuCtxPushCurrent", rc ? rc : cuda.push(ctx)))
		return -1;
	capture_before = CUDA_CAPTURE_RELAXED;
	cuda.capture_mode(&capture_before);
	return 0;
}

static void leave(void)
{
	cuda_ctx ctx;

	cuda.capture_mode(&capture_before);
	cuda.pop(&ctx);
}

/* Memory of the GPU alone, as the real pool: a kernel of another one faults. */
static cuda_result pool_map(struct emu_area *area)
{
	cuda_device device = area->gpu < 0 ? 0 : device_of_gpu(area->gpu);
	struct cuda_alloc_prop prop = {.type = CUDA_ALLOC_PINNED,
				       .location = {CUDA_LOCATION_DEVICE, device}};
	struct cuda_access access = {{CUDA_LOCATION_DEVICE, device}, CUDA_ACCESS_READ_WRITE};
	size_t bytes = (area->bytes + GPU_GRAIN - 1) & ~(GPU_GRAIN - 1);
	cuda_alloc handle;
	cuda_result rc = cuda.create(&handle, bytes, &prop, 0);

	if (!rc)
		rc = cuda.reserve(&area->device, bytes, 0, 0, 0);
	if (!rc)
		rc = cuda.map(area->device, bytes, 0, handle, 0);
	if (!rc)
		rc = cuda.access(area->device, bytes, &access, 1);
	area->handle = handle;
	return rc;
}

int emu_cuda_area_get(struct emu_area *area)
{
	cuda_result rc;
	void *host = NULL;

	if (enter(area->gpu))
		return -1;
	if (area->kind == EMU_AREA_DEVICE) {
		rc = cuda.alloc(&area->device, area->bytes);
	} else if (area->kind == EMU_AREA_POOL) {
		rc = pool_map(area);
	} else {
		rc = cuda.host_alloc(&host, area->bytes, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
		if (!rc)
			rc = cuda.host_pointer(&area->device, host, 0);
		area->host = host;
	}
	leave();
	return failed("memory", rc);
}

/* Pools are never given back: nor are the real ones. */
void emu_cuda_area_put(struct emu_area *area)
{
	cuda_result rc = CUDA_OK;

	if ((!area->host && !area->device) || enter(area->gpu))
		return;
	if (area->kind == EMU_AREA_DEVICE)
		rc = cuda.release(area->device);
	else if (area->kind == EMU_AREA_PINNED)
		rc = cuda.host_free(area->host);
	leave();
	failed("freeing memory", rc == CUDA_ERR_DEINITIALIZED ? CUDA_OK : rc);
}

int emu_cuda_flow_open(struct emu_flow *flow, int gpu)
{
	cuda_stream stream = NULL;
	cuda_result rc;

	if (enter(gpu))
		return -1;
	rc = cuda.stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0);
	leave();
	flow->gpu = gpu;
	flow->stream = stream;
	return failed("cuStreamCreate", rc);
}

void emu_cuda_flow_close(struct emu_flow *flow)
{
	if (!flow->stream || enter(flow->gpu))
		return;
	cuda.stream_destroy(flow->stream);
	leave();
	flow->stream = NULL;
}

int emu_cuda_copy(struct emu_flow *flow, uint64_t dst, uint64_t src, size_t bytes)
{
	cuda_result rc;

	if (enter(flow->gpu))
		return -1;
	rc = cuda.copy(dst, src, bytes, flow->stream);
	leave();
	return failed("cuMemcpyAsync", rc);
}

bool emu_cuda_read(void *to, uint64_t from, size_t bytes)
{
	return device_read && !device_read(from, to, bytes);
}

bool emu_cuda_write(uint64_t to, const void *from, size_t bytes)
{
	return device_write && !device_write(to, from, bytes);
}

int emu_cuda_set(struct emu_flow *flow, uint64_t dst, uint8_t value, size_t bytes)
{
	cuda_result rc;

	if (enter(flow->gpu))
		return -1;
	rc = cuda.set(dst, value, bytes, flow->stream);
	leave();
	return failed("cuMemsetD8Async", rc);
}

int emu_cuda_wait(struct emu_flow *flow)
{
	cuda_result rc;

	if (enter(flow->gpu))
		return -1;
	rc = cuda.stream_wait(flow->stream);
	leave();
	return failed("cuStreamSynchronize", rc);
}
