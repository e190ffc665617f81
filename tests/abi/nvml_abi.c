/* SPDX-License-Identifier: Apache-2.0 */
/* Our declarations of NVML against the real ones; compiled, and never linked, where nvml.h is. */
#include <nvml.h>
#include <stddef.h>

#include "abi/nvml.h"

#define PLACE(member, real_member)                                                                 \
	_Static_assert(offsetof(struct nvml_pci, member) ==                                        \
				       offsetof(nvmlPciInfo_t, real_member) &&                     \
			       sizeof(((struct nvml_pci *)0)->member) ==                           \
				       sizeof(((nvmlPciInfo_t *)0)->real_member),                  \
		       #member)

_Static_assert(sizeof(nvml_result) == sizeof(nvmlReturn_t), "result");
_Static_assert(sizeof(nvml_device) == sizeof(nvmlDevice_t), "device");
_Static_assert(NVML_OK == NVML_SUCCESS, "success");
_Static_assert(NVML_NAME_MAX == NVML_DEVICE_NAME_V2_BUFFER_SIZE, "name");
_Static_assert(sizeof(struct nvml_pci) == sizeof(nvmlPciInfo_t), "pci");
PLACE(legacy, busIdLegacy);
PLACE(domain, domain);
PLACE(bus, bus);
PLACE(device, device);
PLACE(device_id, pciDeviceId);
PLACE(subsystem_id, pciSubSystemId);
PLACE(address, busId);

/* The symbols that are loaded have the parameters that we give. */
nvmlReturn_t (*const init)(void) = nvmlInit_v2;
nvmlReturn_t (*const shutdown_nvml)(void) = nvmlShutdown;
nvmlReturn_t (*const count)(unsigned *out) = nvmlDeviceGetCount_v2;
nvmlReturn_t (*const handle)(unsigned index, nvmlDevice_t *out) = nvmlDeviceGetHandleByIndex_v2;
nvmlReturn_t (*const name)(nvmlDevice_t device, char *out, unsigned len) = nvmlDeviceGetName;
nvmlReturn_t (*const pci)(nvmlDevice_t device, nvmlPciInfo_t *out) = nvmlDeviceGetPciInfo_v3;
