/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of memory for each GPU, as a descriptor: a memfd, or memory of the CUDA driver. */
#include "rxdm_state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "abi/cuda.h"

struct driver {
	cuda_result (*init)(unsigned flags);
	cuda_result (*count)(int *out);
	cuda_result (*device)(cuda_device *out, int ordinal);
	cuda_result (*device_pci)(char *out, int len, cuda_device device);
	cuda_result (*granularity)(size_t *out, const struct cuda_alloc_prop *prop, int flags);
	cuda_result (*create)(cuda_alloc *out, size_t bytes, const struct cuda_alloc_prop *prop,
			      unsigned long long flags);
	cuda_result (*export_fd)(void *out, cuda_alloc alloc, int type, unsigned long long flags);
	cuda_result (*release)(cuda_alloc alloc);
};

static int find(void *library, const char *name, void *out)
{
	void *symbol = dlsym(library, name);

	memcpy(out, &symbol, sizeof(symbol));
	if (!symbol)
		fprintf(stderr, "fakerxdm: the CUDA driver has no %s\n", name);
	return symbol ? 0 : -1;
}

static int load(const char *path, struct driver *out)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* stays: drivers do not unload */

	if (!library) {
		fprintf(stderr, "fakerxdm: %s\n", dlerror());
		return -1;
	}
	if (find(library, "cuInit", &out->init) || find(library, "cuDeviceGetCount", &out->count) ||
	    find(library, "cuDeviceGet", &out->device) ||
	    find(library, "cuDeviceGetPCIBusId", &out->device_pci) ||
	    find(library, "cuMemGetAllocationGranularity", &out->granularity) ||
	    find(library, "cuMemCreate", &out->create) ||
	    find(library, "cuMemExportToShareableHandle", &out->export_fd) ||
	    find(library, "cuMemRelease", &out->release))
		return -1;
	if (out->init(0)) {
		fprintf(stderr, "fakerxdm: the CUDA driver does not start\n");
		return -1;
	}
	return 0;
}

static int find_device(const struct driver *driver, pci_addr pci, cuda_device *out)
{
	int count = 0;

	if (driver->count(&count))
		return -1;
	for (int i = 0; i < count; i++) {
		char text[PCI_TEXT_MAX] = "";
		pci_addr own;

		if (!driver->device(out, i) && !driver->device_pci(text, sizeof(text), *out) &&
		    !pci_parse(text, &own) && own == pci)
			return 0;
	}
	return -1;
}

/* A GPU that this machine does not have has no pool. The descriptor keeps the memory alive. */
static int open_cuda(const struct driver *driver, struct rxdm_gpu *gpu, size_t bytes)
{
	struct cuda_alloc_prop prop = {.type = CUDA_ALLOC_PINNED, .handle_types = CUDA_HANDLE_FD};
	size_t grain = 0;
	cuda_alloc alloc;
	int failed;

	prop.location.type = CUDA_LOCATION_DEVICE;
	if (find_device(driver, gpu->pci, &prop.location.id))
		return 0;
	if (driver->granularity(&grain, &prop, CUDA_GRANULARITY_MINIMUM) || !grain)
		return -1;
	gpu->align_bytes = grain;
	gpu->size_bytes = (bytes + grain - 1) / grain * grain;
	if (driver->create(&alloc, gpu->size_bytes, &prop, 0))
		return -1;
	failed = driver->export_fd(&gpu->pool_fd, alloc, CUDA_HANDLE_FD, 0);
	driver->release(alloc);
	if (failed)
		gpu->pool_fd = -1;
	return failed ? -1 : 0;
}

static int open_memfd(struct rxdm_gpu *gpu, size_t bytes)
{
	gpu->align_bytes = 2u << 20;
	gpu->size_bytes = (bytes + gpu->align_bytes - 1) / gpu->align_bytes * gpu->align_bytes;
	gpu->pool_fd = memfd_create("rxdm-pool", MFD_CLOEXEC);
	return gpu->pool_fd < 0 || ftruncate(gpu->pool_fd, (off_t)gpu->size_bytes) ? -1 : 0;
}

int rxdm_pools_open(struct rxdm_state *state, const char *cuda, size_t bytes)
{
	struct driver driver = {0};

	if (cuda && load(cuda, &driver))
		return -1;
	for (unsigned i = 0; i < state->ngpus; i++) {
		struct rxdm_gpu *gpu = &state->gpus[i];
		char text[PCI_TEXT_MAX];

		if (cuda ? open_cuda(&driver, gpu, bytes) : open_memfd(gpu, bytes)) {
			fprintf(stderr, "fakerxdm: no pool of %zu bytes for GPU %s\n", bytes,
				pci_format(gpu->pci, text));
			return -1;
		}
	}
	return 0;
}

void rxdm_pools_close(struct rxdm_state *state)
{
	for (unsigned i = 0; i < state->ngpus; i++)
		if (state->gpus[i].pool_fd >= 0)
			close(state->gpus[i].pool_fd);
}
