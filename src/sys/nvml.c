/* SPDX-License-Identifier: Apache-2.0 */
/* Lists the GPUs that NVML reports. Each call loads the library and unloads it again. */
#include "sys/nvml.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"

struct nvml {
#define NVML_MEMBER(name, symbol, params) nvml_result(*name) params;
	NVML_LIST(NVML_MEMBER)
#undef NVML_MEMBER
};

static const struct {
	const char *symbol;
	size_t offset; /* of the function pointer in struct nvml */
} entries[] = {
#define NVML_ENTRY(name, symbol, params) {symbol, offsetof(struct nvml, name)},
	NVML_LIST(NVML_ENTRY)
#undef NVML_ENTRY
};

static tcpx_status load_nvml(void *handle, const char *path, struct nvml *nvml)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *symbol = dlsym(handle, entries[i].symbol);

		if (!symbol)
			return error_set(TCPX_ERR_UNSUPPORTED, 0, "%.200s has no %s", path,
					 entries[i].symbol);
		memcpy((char *)nvml + entries[i].offset, &symbol, sizeof(symbol));
	}
	return TCPX_OK;
}

/* Reads the PCI address and the name of one GPU. Returns 0, or -1 if the address is unknown. */
static int describe_gpu(const struct nvml *nvml, unsigned index, struct sys_nvml_gpu *out)
{
	struct nvml_pci pci = {.domain = 0};
	struct sys_nvml_gpu gpu = {.pci = PCI_NONE};
	nvml_device device;

	if (nvml->handle(index, &device) || nvml->pci(device, &pci))
		return -1;
	pci.address[sizeof(pci.address) - 1] = '\0';
	if (pci_parse(pci.address, &gpu.pci))
		return -1;
	if (nvml->name(device, gpu.name, sizeof(gpu.name)))
		gpu.name[0] = '\0';
	gpu.name[sizeof(gpu.name) - 1] = '\0';
	*out = gpu;
	return 0;
}

static tcpx_status list_gpus(const struct nvml *nvml, const char *path,
			     struct sys_nvml_gpu *out_gpus, unsigned max, unsigned *out_count)
{
	unsigned there = 0, count = 0;
	nvml_result rc = nvml->init();

	if (rc)
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "nvmlInit_v2 of %.200s: NVML error %d",
				 path, rc);
	rc = nvml->count(&there);
	for (unsigned i = 0; !rc && i < there && count < max; i++)
		count += !describe_gpu(nvml, i, &out_gpus[count]);
	nvml->shutdown();
	if (rc)
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "nvmlDeviceGetCount_v2 of %.200s: NVML error %d", path, rc);
	*out_count = count;
	return TCPX_OK;
}

tcpx_status sys_nvml_gpus(struct sys_nvml_gpu *out_gpus, unsigned max, unsigned *out_count)
{
	const char *path = config_text(CONFIG_NVML_LIBRARY), *why;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct nvml nvml;
	tcpx_status status;

	if (!handle) {
		why = dlerror();
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "cannot load NVML: %s", why ? why : path);
	}
	status = load_nvml(handle, path, &nvml);
	if (status == TCPX_OK)
		status = list_gpus(&nvml, path, out_gpus, max, out_count);
	dlclose(handle);
	return status;
}
