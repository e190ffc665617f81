/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the stand-in, its devices and what is known of them, names of errors. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static const struct {
	cuda_result result;
	const char *name, *text;
} errors[] = {
	{CUDA_OK, "CUDA_SUCCESS", "no error"},
	{CUDA_ERR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
	{CUDA_ERR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
	{CUDA_ERR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
	{CUDA_ERR_DEINITIALIZED, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
	{CUDA_ERR_STUB_LIBRARY, "CUDA_ERROR_STUB_LIBRARY", "driver is a stub library"},
	{CUDA_ERR_DEVICE_UNAVAILABLE, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy"},
	{CUDA_ERR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
	{CUDA_ERR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
	{CUDA_ERR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "invalid kernel image"},
	{CUDA_ERR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
	{CUDA_ERR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
	{CUDA_ERR_ECC_UNCORRECTABLE, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
	{CUDA_ERR_PEER_ACCESS_UNSUPPORTED, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
	 "peer access is not supported between these two devices"},
	{CUDA_ERR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
	{CUDA_ERR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
	{CUDA_ERR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
	{CUDA_ERR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
	{CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED, "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED",
	 "peer access is already enabled"},
	{CUDA_ERR_CONTEXT_IS_DESTROYED, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
	{CUDA_ERR_HOST_MEMORY_ALREADY_REGISTERED, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
	 "part or all of the memory is already registered"},
	{CUDA_ERR_HOST_MEMORY_NOT_REGISTERED, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
	 "pointer does not correspond to a registered memory region"},
	{CUDA_ERR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
	{CUDA_ERR_NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
	{CUDA_ERR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
	{CUDA_ERR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
	 "operation not permitted when a stream is capturing"},
	{CUDA_ERR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

static uint64_t number_of(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* The list ends at the first entry that names no device, as the driver's does. */
static void devices_start(void)
{
	uint64_t physical = number_of("FAKECUDA_DEVICES", 2);
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	uint32_t seen = 0;

	if (physical > FAKE_DEVICES_MAX)
		physical = FAKE_DEVICES_MAX;
	for (uint64_t i = 0; !visible && i < physical; i++)
		fake.device[fake.devices++].physical = (int)i;
	while (visible && *visible) {
		char *end;
		unsigned long index = strtoul(visible, &end, 10);

		if (end == visible || index >= physical || seen & 1u << index)
			break;
		seen |= 1u << index;
		fake.device[fake.devices++].physical = (int)index;
		visible = *end == ',' ? end + 1 : "";
	}
	for (int i = 0; i < fake.devices; i++)
		fake.device[i].primary = (struct cuda_ctx_st){.device = i, .primary = 1};
}

static void fake_in_child(void)
{
	atomic_store_explicit(&fake.forked,
			      atomic_load_explicit(&fake.initialised, memory_order_relaxed),
			      memory_order_relaxed);
	pthread_mutex_init(&fake.lock, NULL);
}

void fake_start(void)
{
	devices_start();
	fake.version = (int)number_of("FAKECUDA_DRIVER_VERSION", 13000);
	fake.device_bytes = number_of("FAKECUDA_BYTES", (uint64_t)4 << 30);
	fake.no_peer = number_of("FAKECUDA_NO_PEER", 0) != 0;
	fake.cover_strict = number_of("FAKECUDA_COVER_STRICT", 0) != 0;
	fake.seed = number_of("FAKECUDA_SEED", 1);
	fake.delay_us = (unsigned)number_of("FAKECUDA_DELAY_US", 30);
	(void)pthread_atfork(NULL, NULL, fake_in_child);
	fake_fail_environment();
	fake_kernels_load();
}

/* Libraries end after main's exit handlers: what comes later is told that the driver is gone. */
__attribute__((destructor)) static void fake_end(void)
{
	atomic_store_explicit(&fake.gone, 1, memory_order_relaxed);
}

cuda_result fake_init(unsigned flags)
{
	cuda_result rc = CUDA_OK;

	FAKE_ENTER(init);
	if (flags)
		return CUDA_ERR_INVALID_VALUE;
	if (!fake.devices)
		return CUDA_ERR_NO_DEVICE;
	pthread_mutex_lock(&fake.lock);
	if (!fake.arena) {
		int mode = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
		void *arena = mmap(NULL, FAKE_ARENA, PROT_NONE, mode, -1, 0);
		void *shadow = mmap(NULL, FAKE_ARENA, PROT_NONE, mode, -1, 0);

		if (arena == MAP_FAILED || shadow == MAP_FAILED) {
			rc = CUDA_ERR_OUT_OF_MEMORY;
		} else {
			uintptr_t skip = -(uintptr_t)arena & (FAKE_GRAIN - 1);

			fake.arena = (uint8_t *)arena + skip;
			fake.shadow = (uint8_t *)shadow + skip;
		}
	}
	pthread_mutex_unlock(&fake.lock);
	if (!rc)
		atomic_store_explicit(&fake.initialised, 1, memory_order_release);
	return rc;
}

cuda_result fake_driver_version(int *out)
{
	FAKE_ENTER(driver_version);
	*out = fake.version;
	return CUDA_OK;
}

static int error_row(cuda_result result)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].result == result)
			return (int)i;
	}
	return -1;
}

cuda_result fake_error_name(cuda_result result, const char **out)
{
	int row = error_row(result);

	FAKE_ENTER(error_name);
	*out = row < 0 ? NULL : errors[row].name;
	return row < 0 ? CUDA_ERR_INVALID_VALUE : CUDA_OK;
}

cuda_result fake_error_string(cuda_result result, const char **out)
{
	int row = error_row(result);

	FAKE_ENTER(error_string);
	*out = row < 0 ? NULL : errors[row].text;
	return row < 0 ? CUDA_ERR_INVALID_VALUE : CUDA_OK;
}

cuda_result fake_device_count(int *out)
{
	FAKE_ENTER(device_count);
	*out = fake.devices;
	return CUDA_OK;
}

static int device_bad(cuda_device device)
{
	return device < 0 || device >= fake.devices;
}

cuda_result fake_device_get(cuda_device *out, int ordinal)
{
	FAKE_ENTER(device_get);
	if (device_bad(ordinal))
		return CUDA_ERR_INVALID_DEVICE;
	*out = ordinal;
	return CUDA_OK;
}

cuda_result fake_device_name(char *out, int len, cuda_device device)
{
	FAKE_ENTER(device_name);
	if (device_bad(device))
		return CUDA_ERR_INVALID_DEVICE;
	snprintf(out, (size_t)len, "Fake GPU %d", fake.device[device].physical);
	return CUDA_OK;
}

cuda_result fake_device_attribute(int *out, int attribute, cuda_device device)
{
	FAKE_ENTER(device_attribute);
	if (device_bad(device))
		return CUDA_ERR_INVALID_DEVICE;
	switch (attribute) {
	case CUDA_DEVICE_SM_COUNT:
		*out = FAKE_SMS;
		break;
	case CUDA_DEVICE_PCI_BUS:
		*out = 0x3a + fake.device[device].physical;
		break;
	case CUDA_DEVICE_COPY_ENGINES:
		*out = 3;
		break;
	case CUDA_DEVICE_INTEGRATED:
	case CUDA_DEVICE_PCI_DOMAIN:
	case CUDA_DEVICE_PCI_DEVICE:
	case CUDA_DEVICE_CAPABILITY_MINOR:
		*out = 0;
		break;
	case CUDA_DEVICE_DMABUF_SUPPORTED:
	case CUDA_DEVICE_UNIFIED_ADDRESSING:
	case CUDA_DEVICE_CONCURRENT_MANAGED:
	case CUDA_DEVICE_VMM_SUPPORTED:
		*out = 1;
		break;
	case CUDA_DEVICE_CAPABILITY_MAJOR:
		*out = 9;
		break;
	case CUDA_DEVICE_HOST_NUMA_ID: /* the first of a pair is next to node 0 */
		*out = fake.device[device].physical % 2 ? -1 : 0;
		break;
	default:
		return CUDA_ERR_INVALID_VALUE;
	}
	return CUDA_OK;
}

/* FAKECUDA_PCI: "04,05,0a": the buses that the devices are on. */
static unsigned bus_of(int physical)
{
	const char *list = getenv("FAKECUDA_PCI");

	if (list && !*list)
		list = NULL;
	for (int i = 0; list && i < physical; i++) {
		list = strchr(list, ',');
		list = list ? list + 1 : NULL;
	}
	return list ? (unsigned)strtoul(list, NULL, 16) & 0xff : (unsigned)(0x3a + physical) & 0xff;
}

cuda_result fake_device_pci(char *out, int len, cuda_device device)
{
	FAKE_ENTER(device_pci);
	if (device_bad(device))
		return CUDA_ERR_INVALID_DEVICE;
	if (len < 13)
		return CUDA_ERR_INVALID_VALUE;
	snprintf(out, (size_t)len, "0000:%02X:00.0", bus_of(fake.device[device].physical));
	return CUDA_OK;
}

cuda_result fake_device_uuid(struct cuda_uuid *out, cuda_device device)
{
	FAKE_ENTER(device_uuid);
	if (device_bad(device))
		return CUDA_ERR_INVALID_DEVICE;
	memset(out, 0xfa, sizeof(*out));
	out->bytes[15] = (unsigned char)fake.device[device].physical;
	return CUDA_OK;
}

cuda_result fake_device_bytes(size_t *out, cuda_device device)
{
	FAKE_ENTER(device_bytes);
	if (device_bad(device))
		return CUDA_ERR_INVALID_DEVICE;
	*out = fake.device_bytes;
	return CUDA_OK;
}

cuda_result fake_device_can_access(int *out, cuda_device device, cuda_device peer)
{
	FAKE_ENTER(device_can_access);
	if (device_bad(device) || device_bad(peer))
		return CUDA_ERR_INVALID_DEVICE;
	*out = device != peer && !fake.no_peer;
	return CUDA_OK;
}
