/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of NVIDIA's management library (NVML) that the library uses, declared in this file so
 * that building needs none of its headers. Source: nvml.h of CUDA 12.
 */
#ifndef ABI_NVML_H
#define ABI_NVML_H

typedef int nvml_result; /* NVML_OK on success */
typedef struct nvml_device_st *nvml_device;

#define NVML_OK 0
#define NVML_NAME_MAX 96 /* NVML_DEVICE_NAME_V2_BUFFER_SIZE */

/* nvmlPciInfo_t, as nvmlDeviceGetPciInfo_v3 fills it in. */
struct nvml_pci {
	char legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char address[32]; /* such as "00000000:04:00.0" */
};

/* The functions that the library calls: X(name, symbol, parameters). */
#define NVML_LIST(X)                                                                               \
	X(init, "nvmlInit_v2", (void))                                                             \
	X(shutdown, "nvmlShutdown", (void))                                                        \
	X(count, "nvmlDeviceGetCount_v2", (unsigned *out))                                         \
	X(handle, "nvmlDeviceGetHandleByIndex_v2", (unsigned index, nvml_device *out))             \
	X(name, "nvmlDeviceGetName", (nvml_device device, char *out, unsigned len))                \
	X(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device device, struct nvml_pci * out))

#endif
