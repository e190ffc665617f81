/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of this machine's GPUs according to the CUDA driver. */
#include "cli_gpu.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "sys/cuda.h"

tcpx_status cli_gpu_count(uint32_t *out_count, int *out_version)
{
	const struct sys_cuda *api = sys_cuda_driver();

	if (!api)
		return error_last()->status;
	*out_count = (uint32_t)api->devices;
	*out_version = api->version;
	return TCPX_OK;
}

/* sysfs has the node with every driver, the attribute only exists in new ones. */
static int numa_node(const struct sys_cuda *api, cuda_device device, const char *pci)
{
	char path[64];
	int node = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
	f = fopen(path, "re");
	if (f) {
		if (fscanf(f, "%d", &node) != 1)
			node = -1;
		fclose(f);
	}
	if (node < 0 && api->device_attribute(&node, CUDA_DEVICE_HOST_NUMA_ID, device) != CUDA_OK)
		node = -1;
	return node < 0 ? -1 : node;
}

static unsigned gpu_attribute(const struct sys_cuda *api, int number, cuda_device device)
{
	int value;

	return api->device_attribute(&value, number, device) == CUDA_OK && value > 0
		       ? (unsigned)value
		       : 0;
}

tcpx_status cli_gpu_get(uint32_t ordinal, struct cli_gpu *out_gpu)
{
	const struct sys_cuda *api = sys_cuda_driver();
	struct cli_gpu gpu = {.ordinal = ordinal};
	struct cuda_uuid uuid;
	cuda_device device;
	cuda_result rc;
	size_t bytes;

	if (!api)
		return error_last()->status;
	if (ordinal >= (uint32_t)api->devices) {
		error_set(TCPX_ERR_INVALID, 0, "no CUDA device %u: this process sees %d", ordinal,
			  api->devices);
		return error_next("see 'tcpx info' and CUDA_VISIBLE_DEVICES");
	}
	rc = api->device_get(&device, (int)ordinal);
	if (rc == CUDA_OK)
		rc = api->device_name(gpu.name, sizeof(gpu.name), device);
	if (rc == CUDA_OK)
		rc = api->device_pci(gpu.pci, sizeof(gpu.pci), device);
	if (rc == CUDA_OK)
		rc = api->device_uuid(&uuid, device);
	if (rc == CUDA_OK)
		rc = api->device_bytes(&bytes, device);
	if (rc != CUDA_OK)
		return sys_cuda_error(rc, "what a GPU is");
	for (char *p = gpu.pci; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	memcpy(gpu.uuid, uuid.bytes, sizeof(gpu.uuid));
	gpu.bytes = bytes;
	gpu.numa = numa_node(api, device, gpu.pci);
	gpu.sms = gpu_attribute(api, CUDA_DEVICE_SM_COUNT, device);
	gpu.capability = 10 * gpu_attribute(api, CUDA_DEVICE_CAPABILITY_MAJOR, device) +
			 gpu_attribute(api, CUDA_DEVICE_CAPABILITY_MINOR, device);
	gpu.copy_engines = gpu_attribute(api, CUDA_DEVICE_COPY_ENGINES, device);
	*out_gpu = gpu;
	return TCPX_OK;
}

int cli_gpu_reaches(uint32_t ordinal, uint32_t other)
{
	const struct sys_cuda *api = sys_cuda_driver();
	cuda_device from, to;
	int can = 0;

	if (!api || api->device_get(&from, (int)ordinal) != CUDA_OK ||
	    api->device_get(&to, (int)other) != CUDA_OK ||
	    api->device_can_access(&can, from, to) != CUDA_OK)
		return 0;
	return can;
}

int cli_gpu_find(const uint8_t uuid[CLI_GPU_UUID_BYTES], uint32_t *out_ordinal)
{
	struct cli_gpu gpu;
	uint32_t count;
	int version;

	if (cli_gpu_count(&count, &version) != TCPX_OK)
		return -1;
	for (uint32_t i = 0; i < count; i++) {
		if (cli_gpu_get(i, &gpu) != TCPX_OK || memcmp(gpu.uuid, uuid, sizeof(gpu.uuid)))
			continue;
		*out_ordinal = i;
		return 0;
	}
	return -1;
}
