/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for NVML. FAKENVML_GPUS: "ADDRESS=NAME;ADDRESS=NAME...", in the order of its indices;
 * an address of "-" is a GPU that does not tell its own, a name of "-" one without. Unset: two.
 * FAKENVML_FAIL: init or count answers an error. Calls outside of init and shutdown are refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi/nvml.h"

#define EXPORT __attribute__((visibility("default")))
#define GPUS_MAX 64

enum { ERR_UNINITIALIZED = 1, ERR_INVALID = 2, ERR_NOT_SUPPORTED = 3, ERR_DRIVER = 9 };

struct nvml_device_st {
	char address[32], name[NVML_NAME_MAX];
};

static struct nvml_device_st gpus[GPUS_MAX];
static unsigned started, ngpus;

static int fails(const char *call)
{
	const char *which = getenv("FAKENVML_FAIL");

	return which && !strcmp(which, call);
}

EXPORT nvml_result nvmlInit_v2(void)
{
	const char *list = getenv("FAKENVML_GPUS");

	if (fails("init"))
		return ERR_DRIVER;
	if (!list)
		list = "00000000:04:00.0=Stand-in A;00000000:05:00.0=Stand-in B";
	ngpus = 0;
	while (*list && ngpus < GPUS_MAX) {
		struct nvml_device_st *gpu = &gpus[ngpus];
		int used = 0;

		if (sscanf(list, "%31[^=]=%95[^;]%n", gpu->address, gpu->name, &used) != 2)
			break;
		ngpus++;
		list += used;
		list += *list == ';';
	}
	started++;
	return NVML_OK;
}

EXPORT nvml_result nvmlShutdown(void)
{
	if (!started)
		return ERR_UNINITIALIZED;
	started--;
	return NVML_OK;
}

EXPORT nvml_result nvmlDeviceGetCount_v2(unsigned *out)
{
	if (!started)
		return ERR_UNINITIALIZED;
	if (fails("count"))
		return ERR_DRIVER;
	*out = ngpus;
	return NVML_OK;
}

EXPORT nvml_result nvmlDeviceGetHandleByIndex_v2(unsigned index, nvml_device *out)
{
	if (!started)
		return ERR_UNINITIALIZED;
	if (index >= ngpus)
		return ERR_INVALID;
	*out = &gpus[index];
	return NVML_OK;
}

EXPORT nvml_result nvmlDeviceGetName(nvml_device device, char *out, unsigned len)
{
	if (!started)
		return ERR_UNINITIALIZED;
	if (!strcmp(device->name, "-"))
		return ERR_NOT_SUPPORTED;
	return snprintf(out, len, "%s", device->name) >= (int)len ? ERR_INVALID : NVML_OK;
}

EXPORT nvml_result nvmlDeviceGetPciInfo_v3(nvml_device device, struct nvml_pci *out)
{
	if (!started)
		return ERR_UNINITIALIZED;
	if (!strcmp(device->address, "-"))
		return ERR_NOT_SUPPORTED;
	memset(out, 0, sizeof(*out));
	memcpy(out->address, device->address, sizeof(out->address));
	return NVML_OK;
}
