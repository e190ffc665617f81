/* SPDX-License-Identifier: Apache-2.0 */
/* The process's table of devices, with reference counts of their primary contexts. Also makes a
 * context current on a thread, and loads kernels. */
#include "sys/cuda.h"

#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "sys/cuda_priv.h"
#include "sys/fd.h"

struct gpu_row {
	struct sys_cuda_gpu gpu;
	unsigned refs;
};

/* The rows are never moved or freed, so a pointer to a row stays valid after the last
 * sys_cuda_put. */
static struct {
	pthread_mutex_t lock;
	struct gpu_row *rows; /* one per visible device */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

void sys_cuda_gpus_forked(void)
{
	pthread_mutex_init(&table.lock, NULL);
}

/* Returns the NUMA node that the kernel reports for the device at this PCI address, or -1 if it
 * reports none. */
static int gpu_slot_numa(const char *pci)
{
	char path[96], text[16];
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/numa_node", pci);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	got = read(fd, text, sizeof(text) - 1);
	sys_fd_close(fd);
	if (got <= 0)
		return -1;
	text[got] = '\0';
	return atoi(text);
}

/* Converts a PCI address to lower case. The driver may write "0000:3B:00.0", while sysfs uses lower
 * case. */
static void gpu_lower(char *text)
{
	for (; *text; text++)
		*text = (char)tolower((unsigned char)*text);
}

/* Reads the properties of the device gpu->ordinal into *gpu. On failure *out_call is the name of
 * the driver's function that failed, for the error text. */
static cuda_result gpu_describe(const struct sys_cuda *api, struct sys_cuda_gpu *gpu,
				const char **out_call)
{
	int sms = 0, major = 0, minor = 0, numa = -1;
	size_t bytes = 0;
	cuda_result rc;

	*out_call = "cuDeviceGet";
	rc = api->device_get(&gpu->device, (int)gpu->ordinal);
	if (rc)
		return rc;
	*out_call = "cuDeviceGetPCIBusId";
	rc = api->device_pci(gpu->pci, sizeof(gpu->pci), gpu->device);
	if (rc)
		return rc;
	gpu_lower(gpu->pci);
	*out_call = "cuDeviceGetName";
	rc = api->device_name(gpu->name, sizeof(gpu->name), gpu->device);
	if (rc)
		return rc;
	*out_call = "cuDeviceTotalMem";
	rc = api->device_bytes(&bytes, gpu->device);
	if (rc)
		return rc;
	*out_call = "cuDeviceGetAttribute";
	rc = api->device_attribute(&sms, CUDA_DEVICE_SM_COUNT, gpu->device);
	if (!rc)
		rc = api->device_attribute(&major, CUDA_DEVICE_CAPABILITY_MAJOR, gpu->device);
	if (!rc)
		rc = api->device_attribute(&minor, CUDA_DEVICE_CAPABILITY_MINOR, gpu->device);
	if (rc)
		return rc;
	/* Old drivers do not have the attribute HOST_NUMA_ID, and on many machines it is -1
	 * although the kernel knows the node. */
	if (api->device_attribute(&numa, CUDA_DEVICE_HOST_NUMA_ID, gpu->device) || numa < 0)
		numa = gpu_slot_numa(gpu->pci);
	gpu->numa = numa;
	gpu->bytes = bytes;
	gpu->sms = (uint32_t)sms;
	gpu->capability = (uint32_t)(10 * major + minor);
	return CUDA_OK;
}

static tcpx_status gpu_start(const struct sys_cuda *api, struct sys_cuda_gpu *out, uint32_t ordinal)
{
	struct sys_cuda_gpu gpu = {.api = api, .ordinal = ordinal};
	const char *call;
	char what[64];
	cuda_result rc;

	rc = gpu_describe(api, &gpu, &call);
	if (!rc) {
		call = "cuDevicePrimaryCtxRetain";
		rc = api->ctx_retain(&gpu.ctx, gpu.device);
	}
	if (rc) {
		text_format(what, sizeof(what), "%s of cuda:%u", call, ordinal);
		return sys_cuda_error(rc, what);
	}
	*out = gpu;
	return TCPX_OK;
}

tcpx_status sys_cuda_get(uint32_t ordinal, struct sys_cuda_gpu **out_gpu)
{
	const struct sys_cuda *api = sys_cuda_driver();
	tcpx_status status = TCPX_OK;
	struct gpu_row *row;

	if (!api)
		return TCPX_ERR_UNSUPPORTED;
	if (ordinal >= (uint32_t)api->devices) {
		error_set(TCPX_ERR_INVALID, 0, "no device cuda:%u: %d visible to this process",
			  ordinal, api->devices);
		return error_next("use cuda:0 to cuda:%d, or see CUDA_VISIBLE_DEVICES",
				  api->devices - 1);
	}
	pthread_mutex_lock(&table.lock);
	if (!table.rows)
		table.rows = calloc((size_t)api->devices, sizeof(*table.rows));
	if (!table.rows) {
		pthread_mutex_unlock(&table.lock);
		return error_set(TCPX_ERR_NO_MEMORY, 0, "no memory for %d devices", api->devices);
	}
	row = &table.rows[ordinal];
	if (!row->refs)
		status = gpu_start(api, &row->gpu, ordinal);
	if (!status) {
		row->refs++;
		*out_gpu = &row->gpu;
	}
	pthread_mutex_unlock(&table.lock);
	return status;
}

void sys_cuda_put(struct sys_cuda_gpu *gpu)
{
	struct gpu_row *row = (struct gpu_row *)gpu; /* gpu is the first member of its row */
	cuda_result rc = CUDA_OK;

	if (!gpu)
		return;
	pthread_mutex_lock(&table.lock);
	if (!--row->refs) {
		rc = gpu->api->ctx_release(gpu->device);
		gpu->ctx = NULL;
	}
	pthread_mutex_unlock(&table.lock);
	if (rc && rc != CUDA_ERR_DEINITIALIZED)
		LOG_DEBUG("cuDevicePrimaryCtxRelease of cuda:%u: CUDA error %d", gpu->ordinal, rc);
}

tcpx_status sys_cuda_push(const struct sys_cuda_gpu *gpu, struct sys_cuda_scope *out_scope)
{
	struct sys_cuda_scope scope = {.gpu = gpu, .mode = CUDA_CAPTURE_RELAXED};
	cuda_result rc;

	/* In relaxed mode a stream capture of the application neither restricts this library's
	 * calls nor is broken by them. */
	rc = gpu->api->capture_mode(&scope.mode);
	if (rc)
		return sys_cuda_error(rc, "cuThreadExchangeStreamCaptureMode");
	rc = gpu->api->ctx_push(gpu->ctx);
	if (rc) {
		(void)gpu->api->capture_mode(&scope.mode);
		return sys_cuda_error(rc, "cuCtxPushCurrent");
	}
	*out_scope = scope;
	return TCPX_OK;
}

void sys_cuda_pop(struct sys_cuda_scope *scope)
{
	const struct sys_cuda *api = scope->gpu->api;
	cuda_ctx popped;
	cuda_result rc = api->ctx_pop(&popped);

	if (!rc)
		rc = api->capture_mode(&scope->mode);
	else
		(void)api->capture_mode(&scope->mode);
	if (rc && rc != CUDA_ERR_DEINITIALIZED)
		LOG_DEBUG("leaving the context of cuda:%u: CUDA error %d", scope->gpu->ordinal, rc);
}

tcpx_status sys_cuda_module_load(const struct sys_cuda_gpu *gpu, const void *image,
				 const char *what, cuda_module *out_module)
{
	cuda_result result = gpu->api->module_load(out_module, image);

	switch (result) {
	case CUDA_ERR_NO_BINARY_FOR_GPU:
	case CUDA_ERR_INVALID_PTX:
	case CUDA_ERR_UNSUPPORTED_PTX_VERSION:
		return error_set(TCPX_ERR_UNSUPPORTED, 0,
				 "no %s kernel in this build runs on %s (capability %u.%u)", what,
				 gpu->name, gpu->capability / 10, gpu->capability % 10);
	case CUDA_ERR_JIT_NOT_FOUND:
	case CUDA_ERR_JIT_DISABLED:
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "this build has no machine code of the %s kernels for %s, and the driver "
			  "does not compile their PTX (CUDA error %d)",
			  what, gpu->name, result);
		return error_next("make the driver's libnvidia-ptxjitcompiler.so.1 visible, unset "
				  "CUDA_DISABLE_PTX_JIT, or build with nvcc");
	default:
		break;
	}
	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuModuleLoadData");
}

tcpx_status sys_cuda_module_find(const struct sys_cuda_gpu *gpu, cuda_module module,
				 const char *name, cuda_function *out_function)
{
	cuda_result result = gpu->api->module_function(out_function, module, name);

	return result == CUDA_OK ? TCPX_OK : sys_cuda_error(result, "cuModuleGetFunction");
}
