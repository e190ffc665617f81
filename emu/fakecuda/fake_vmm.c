/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: handles, reservations of addresses, mappings with rights. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Physical memory; lives while a handle or a mapping refers to it. */
struct fake_handle {
	struct fake_handle *next;
	unsigned refs, maps;
	int device, fd, imported;
	size_t bytes;
	struct cuda_alloc_prop prop;
};

struct reservation {
	struct reservation *next;
	uint64_t base;
	size_t bytes;
};

static struct fake_handle *handles;
static struct reservation *reservations;

static struct fake_handle *handle_find(cuda_alloc handle)
{
	struct fake_handle *at = handles;

	while (at && (uintptr_t)at != handle)
		at = at->next;
	return at;
}

static void handle_drop(struct fake_handle *handle)
{
	struct fake_handle **at = &handles;

	if (handle->refs || handle->maps)
		return;
	while (*at != handle)
		at = &(*at)->next;
	*at = handle->next;
	close(handle->fd);
	if (!handle->imported)
		fake.device[handle->device].used -= handle->bytes;
	free(handle);
}

int fake_prop_device(int type, struct cuda_location location)
{
	if (type != CUDA_ALLOC_PINNED || location.type != CUDA_LOCATION_DEVICE || location.id < 0 ||
	    location.id >= fake.devices)
		return -1;
	return location.id;
}

static int prop_device(const struct cuda_alloc_prop *prop)
{
	return prop ? fake_prop_device(prop->type, prop->location) : -1;
}

cuda_result fake_vmm_granularity(size_t *out, const struct cuda_alloc_prop *prop, int flags)
{
	FAKE_ENTER(vmm_granularity);
	if (prop_device(prop) < 0 || flags < 0 || flags > 1)
		return CUDA_ERR_INVALID_VALUE;
	*out = FAKE_GRAIN;
	return CUDA_OK;
}

/* Under the lock; takes the descriptor over. */
static struct fake_handle *handle_make(int fd, int device, size_t bytes)
{
	struct fake_handle *handle = calloc(1, sizeof(*handle));

	if (!handle)
		return NULL;
	handle->next = handles;
	handle->refs = 1;
	handle->fd = fd;
	handle->device = device;
	handle->bytes = bytes;
	handle->prop.type = CUDA_ALLOC_PINNED;
	handle->prop.handle_types = CUDA_HANDLE_FD;
	handle->prop.location = (struct cuda_location){CUDA_LOCATION_DEVICE, device};
	handles = handle;
	fake.live.vmm++;
	return handle;
}

cuda_result fake_vmm_create(cuda_alloc *out, size_t bytes, const struct cuda_alloc_prop *prop,
			    unsigned long long flags)
{
	int device = prop_device(prop), fd = -1;
	struct fake_handle *handle = NULL;

	FAKE_ENTER_UNSAFE(vmm_create);
	if (flags || device < 0 || !bytes || bytes % FAKE_GRAIN)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	if (bytes <= fake.device_bytes - fake.device[device].used)
		fd = fake_memory_file("vmm", device, bytes);
	if (fd >= 0)
		handle = handle_make(fd, device, bytes);
	if (handle) {
		handle->prop = *prop;
		fake.device[device].used += bytes;
		*out = (uintptr_t)handle;
	} else if (fd >= 0) {
		close(fd);
	}
	pthread_mutex_unlock(&fake.lock);
	return handle ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
}

cuda_result fake_vmm_release(cuda_alloc alloc)
{
	struct fake_handle *handle;
	cuda_result late;

	FAKE_ENTER_LATE(vmm_release, &late);
	pthread_mutex_lock(&fake.lock);
	handle = handle_find(alloc);
	if (handle && handle->refs) {
		handle->refs--;
		fake_gone(&fake.live.vmm);
		handle_drop(handle);
	} else {
		late = CUDA_ERR_INVALID_VALUE;
	}
	pthread_mutex_unlock(&fake.lock);
	return late;
}

cuda_result fake_vmm_retain(cuda_alloc *out, void *addr)
{
	cuda_result rc = CUDA_ERR_INVALID_VALUE;
	struct fake_range *range;

	FAKE_ENTER(vmm_retain);
	pthread_mutex_lock(&fake.lock);
	range = fake_range_find((uintptr_t)addr);
	if (range && range->kind == FAKE_VMM) {
		range->handle->refs++;
		fake.live.vmm++;
		*out = (uintptr_t)range->handle;
		rc = CUDA_OK;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_vmm_properties(struct cuda_alloc_prop *out, cuda_alloc alloc)
{
	struct fake_handle *handle;

	FAKE_ENTER(vmm_properties);
	pthread_mutex_lock(&fake.lock);
	handle = handle_find(alloc);
	if (handle)
		*out = handle->prop;
	pthread_mutex_unlock(&fake.lock);
	return handle ? CUDA_OK : CUDA_ERR_INVALID_VALUE;
}

cuda_result fake_vmm_export(void *out, cuda_alloc alloc, int type, unsigned long long flags)
{
	struct fake_handle *handle;
	int fd = -1;

	FAKE_ENTER(vmm_export);
	if (flags || !out)
		return CUDA_ERR_INVALID_VALUE;
	if (type != CUDA_HANDLE_FD)
		return CUDA_ERR_NOT_SUPPORTED;
	pthread_mutex_lock(&fake.lock);
	handle = handle_find(alloc);
	if (handle && handle->prop.handle_types & CUDA_HANDLE_FD)
		fd = fcntl(handle->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&fake.lock);
	if (fd < 0)
		return CUDA_ERR_INVALID_VALUE;
	*(int *)out = fd;
	return CUDA_OK;
}

int fake_device_of(int physical)
{
	for (int i = 0; i < fake.devices; i++) {
		if (fake.device[i].physical == physical)
			return i;
	}
	return -1;
}

int fake_file_device(const char *what, int fd)
{
	char path[64], name[128], form[64];
	int physical;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	len = readlink(path, name, sizeof(name) - 1);
	if (len < 0)
		return -1;
	name[len] = '\0';
	snprintf(form, sizeof(form), "/memfd:fakecuda-%s-%%d", what);
	if (sscanf(name, form, &physical) != 1)
		return -1;
	return fake_device_of(physical);
}

/* The descriptor stays the caller's. */
cuda_result fake_vmm_import(cuda_alloc *out, void *os_handle, int type)
{
	int fd = (int)(intptr_t)os_handle, device, own;
	struct fake_handle *handle;
	struct stat st;

	FAKE_ENTER(vmm_import);
	if (type != CUDA_HANDLE_FD)
		return CUDA_ERR_NOT_SUPPORTED;
	device = fake_file_device("vmm", fd);
	own = device < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (own < 0 || fstat(own, &st)) {
		if (own >= 0)
			close(own);
		return CUDA_ERR_INVALID_VALUE;
	}
	pthread_mutex_lock(&fake.lock);
	handle = handle_make(own, device, (size_t)st.st_size);
	if (handle) {
		handle->imported = 1;
		*out = (uintptr_t)handle;
	} else {
		close(own);
	}
	pthread_mutex_unlock(&fake.lock);
	return handle ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
}

cuda_result fake_vmm_reserve(cuda_ptr *out, size_t bytes, size_t alignment, cuda_ptr addr,
			     unsigned long long flags)
{
	struct reservation *row;
	uint64_t base = 0;

	(void)addr; /* a wish */
	FAKE_ENTER(vmm_reserve);
	if (flags || !bytes || bytes % FAKE_GRAIN || alignment & (alignment - 1))
		return CUDA_ERR_INVALID_VALUE;
	row = calloc(1, sizeof(*row));
	pthread_mutex_lock(&fake.lock);
	if (row)
		base = fake_arena_take(bytes, alignment);
	if (base) {
		*row = (struct reservation){reservations, base, bytes};
		reservations = row;
		fake.live.vmm++;
		*out = base;
	}
	pthread_mutex_unlock(&fake.lock);
	if (!base)
		free(row);
	return base ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
}

cuda_result fake_vmm_unreserve(cuda_ptr ptr, size_t bytes)
{
	struct reservation **at, *row;
	cuda_result late;

	FAKE_ENTER_LATE(vmm_unreserve, &late);
	pthread_mutex_lock(&fake.lock);
	for (at = &reservations; *at && (*at)->base != ptr; at = &(*at)->next)
		;
	row = *at;
	if (!row || row->bytes != bytes || fake_range_overlap(ptr, bytes)) {
		late = CUDA_ERR_INVALID_VALUE;
	} else {
		*at = row->next;
		fake_arena_give(ptr, bytes);
		fake_gone(&fake.live.vmm);
		free(row);
	}
	pthread_mutex_unlock(&fake.lock);
	return late;
}

static int reserved(uint64_t ptr, size_t bytes)
{
	const struct reservation *at = reservations;

	while (at && (ptr < at->base || ptr + bytes > at->base + at->bytes))
		at = at->next;
	return at != NULL;
}

cuda_result fake_vmm_map(cuda_ptr ptr, size_t bytes, size_t offset, cuda_alloc alloc,
			 unsigned long long flags)
{
	struct fake_range *range = NULL;
	struct fake_handle *handle;
	cuda_result rc = CUDA_OK;

	FAKE_ENTER(vmm_map);
	pthread_mutex_lock(&fake.lock);
	handle = handle_find(alloc);
	if (flags || offset || !handle || !bytes || bytes % FAKE_GRAIN || bytes > handle->bytes ||
	    ptr % FAKE_GRAIN || !reserved(ptr, bytes) || fake_range_overlap(ptr, bytes))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc) {
		range = fake_range_add(FAKE_VMM, ptr, bytes, NULL, handle->device);
		rc = range ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (range && fake_arena_map(ptr, bytes, handle->fd, 0)) {
		fake_range_remove(range);
		rc = CUDA_ERR_OUT_OF_MEMORY;
	} else if (range) {
		range->handle = handle;
		handle->maps++;
		fake.live.vmm++;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* The mapping that begins at ptr and ends before end; NULL. */
static struct fake_range *mapping_at(uint64_t ptr, uint64_t end)
{
	struct fake_range *range = fake_range_find(ptr);

	if (!range || range->kind != FAKE_VMM || range->base != ptr || ptr + range->bytes > end)
		return NULL;
	return range;
}

/* Whether whole mappings fill it, without a hole. */
static int mappings_fill(uint64_t ptr, size_t bytes)
{
	uint64_t at = ptr;

	while (at < ptr + bytes) {
		const struct fake_range *range = mapping_at(at, ptr + bytes);

		if (!range)
			return 0;
		at += range->bytes;
	}
	return bytes > 0;
}

cuda_result fake_vmm_unmap(cuda_ptr ptr, size_t bytes)
{
	struct fake_range *range;
	cuda_result late;

	FAKE_ENTER_LATE(vmm_unmap, &late);
	pthread_mutex_lock(&fake.lock);
	if (!mappings_fill(ptr, bytes)) {
		pthread_mutex_unlock(&fake.lock);
		return CUDA_ERR_INVALID_VALUE;
	}
	for (uint64_t at = ptr; at < ptr + bytes; at += FAKE_GRAIN) {
		struct fake_handle *handle;
		size_t one;

		range = mapping_at(at, ptr + bytes);
		if (!range)
			continue;
		handle = range->handle;
		one = range->bytes;
		fake_range_remove(range);
		fake_arena_unmap(at, one);
		handle->maps--;
		fake_gone(&fake.live.vmm);
		handle_drop(handle);
	}
	pthread_mutex_unlock(&fake.lock);
	return late;
}

cuda_result fake_vmm_access(cuda_ptr ptr, size_t bytes, const struct cuda_access *access,
			    size_t count)
{
	cuda_result rc = CUDA_OK;
	uint32_t give = 0, take = 0;

	FAKE_ENTER(vmm_access);
	for (size_t i = 0; i < count; i++) {
		int device = access[i].location.id;

		if (access[i].location.type != CUDA_LOCATION_DEVICE || device < 0 ||
		    device >= fake.devices)
			return CUDA_ERR_INVALID_VALUE;
		if (access[i].flags == CUDA_ACCESS_READ_WRITE)
			give |= 1u << device;
		else
			take |= 1u << device;
	}
	pthread_mutex_lock(&fake.lock);
	if (!count || !mappings_fill(ptr, bytes))
		rc = CUDA_ERR_INVALID_VALUE;
	for (struct fake_range *at = fake.ranges; at && !rc; at = at->next) {
		if (at->base < ptr || at->base >= ptr + bytes)
			continue;
		if (fake.no_peer && give & ~(1u << at->device))
			rc = CUDA_ERR_PEER_ACCESS_UNSUPPORTED;
		else
			at->access = (at->access | give) & ~take;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}
