/* SPDX-License-Identifier: Apache-2.0 */
/* Pinned slots: host memory that the copy engine can access, and kernels if the slot is mapped. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"
#include "mem/cuda_kind.h"
#include "mem/cuda_owner.h"
#include "sys/cuda.h"

#define NUMA_NODES 1024 /* most NUMA nodes that the kernel supports */
#define HUGE_PAGE (2ul << 20)

/* A slot that kernels on a device can access. Each device has a linear list of them; there are few
 * slots, and each copy needs one look-up. */
struct mapped {
	struct mapped *next;
	uintptr_t slot;
	size_t size;
	cuda_ptr at; /* device address of the slot */
};

static pthread_mutex_t mapped_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped *mapped[MEM_CUDA_DEVICES];

int mem_cuda_slot_mapped(const void *slot, uint64_t bytes, uint32_t device, cuda_ptr *out_at)
{
	struct mapped *it;

	pthread_mutex_lock(&mapped_lock);
	for (it = device < MEM_CUDA_DEVICES ? mapped[device] : NULL; it; it = it->next)
		if ((uintptr_t)slot >= it->slot && (uintptr_t)slot - it->slot <= it->size &&
		    bytes <= it->size - ((uintptr_t)slot - it->slot))
			break;
	if (it)
		*out_at = it->at + ((uintptr_t)slot - it->slot);
	pthread_mutex_unlock(&mapped_lock);
	return it != NULL;
}

/* Adds a slot to the end of the list of the device, because the slots that were allocated first are
 * used most. If there is no memory for the entry, the slot is not added, and only the copy engine
 * can use it. */
static void mapped_add(void *slot, size_t size, uint32_t device, cuda_ptr at)
{
	struct mapped *it = device < MEM_CUDA_DEVICES ? malloc(sizeof(*it)) : NULL, **end;

	if (!it)
		return;
	*it = (struct mapped){NULL, (uintptr_t)slot, size, at};
	pthread_mutex_lock(&mapped_lock);
	for (end = &mapped[device]; *end; end = &(*end)->next)
		;
	*end = it;
	pthread_mutex_unlock(&mapped_lock);
}

static void mapped_remove(const void *slot, uint32_t device)
{
	struct mapped **at, *it;

	if (device >= MEM_CUDA_DEVICES)
		return;
	at = &mapped[device];
	pthread_mutex_lock(&mapped_lock);
	while (*at && (*at)->slot != (uintptr_t)slot)
		at = &(*at)->next;
	it = *at;
	if (it)
		*at = it->next;
	pthread_mutex_unlock(&mapped_lock);
	free(it);
}

/* An unused slot that is freed or reused later. This record lies in the slot itself, so that
 * mem_cuda_slot_leave needs no other memory. */
struct left {
	struct left *next;
	size_t bytes;
	uint32_t device;
};

static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct left *all_left;

/* Takes an unused slot of the device from the list: a slot of `bytes` bytes, or one of any size if
 * `bytes` is 0. Returns NULL if the list has no such slot. */
static struct left *left_take(size_t bytes, uint32_t device)
{
	struct left **at = &all_left, *it;

	pthread_mutex_lock(&left_lock);
	while (*at && ((*at)->device != device || (bytes && (*at)->bytes != bytes)))
		at = &(*at)->next;
	it = *at;
	if (it)
		*at = it->next;
	pthread_mutex_unlock(&left_lock);
	return it;
}

void mem_cuda_slot_leave(void *slot, size_t bytes, uint32_t device)
{
	struct left *it = slot;

	pthread_mutex_lock(&left_lock);
	*it = (struct left){all_left, bytes, device};
	all_left = it;
	pthread_mutex_unlock(&left_lock);
}

void *mem_cuda_slot_left(size_t bytes, uint32_t device)
{
	return left_take(bytes, device);
}

void mem_cuda_slots_free_left(uint32_t device)
{
	struct left *it;

	while ((it = left_take(0, device)))
		mem_cuda_slot_free(it, it->bytes, device);
}

/* Rounds up to whole pages, at least one. Returns 0 if the result would overflow. */
static size_t slot_size(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	if (bytes > SIZE_MAX - HUGE_PAGE - 2 * page)
		return 0;
	return bytes ? (bytes + page - 1) & ~(page - 1) : page;
}

/* Unmaps a slot and the inaccessible page after it. */
static void slot_unmap(void *slot, size_t size)
{
	munmap(slot, size + (size_t)sysconf(_SC_PAGESIZE));
}

/*
 * Maps memory for a slot. On an error returns MAP_FAILED, and errno says why. A slot of HUGE_PAGE
 * bytes or more begins on the boundary of a huge page, because huge pages take less time to fault
 * in and to pin. A page without access follows each slot, so that no two slots are adjacent: a
 * driver call must not span two pinned ranges.
 */
static void *slot_map(size_t size)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), align = size < HUGE_PAGE ? page : HUGE_PAGE;
	size_t whole = size + align + page, before, after;
	uint8_t *raw = mmap(NULL, whole, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (raw == MAP_FAILED)
		return MAP_FAILED;
	before = -(uintptr_t)raw & (align - 1);
	after = whole - before - size - page;
	if (before)
		munmap(raw, before);
	if (after)
		munmap(raw + whole - after, after);
	if (mprotect(raw + before, size, PROT_READ | PROT_WRITE)) {
		slot_unmap(raw + before, size);
		return MAP_FAILED;
	}
	if (align == HUGE_PAGE)
		/* has no effect if the kernel has no huge pages */
		(void)madvise(raw + before, size, MADV_HUGEPAGE);
	return raw + before;
}

/* Makes the kernel prefer pages on the device's NUMA node. Ignores errors, because pages on another
 * node only cost bandwidth. */
static void slot_near(void *slot, size_t size, int node)
{
	unsigned long mask[NUMA_NODES / (8 * sizeof(unsigned long))] = {0};
	const int bits = 8 * sizeof(mask[0]);

	if (node < 0 || node >= NUMA_NODES)
		return;
	mask[node / bits] = 1ul << node % bits;
	(void)syscall(SYS_mbind, slot, size, MPOL_PREFERRED, mask, NUMA_NODES + 1ul, 0u);
}

/* Pins the slot for the GPU. If kernels can access it, adds it to the device's list. */
static tcpx_status slot_register(const struct sys_cuda_gpu *gpu, void *slot, size_t size)
{
	struct sys_cuda_scope scope;
	cuda_result result;
	cuda_ptr at = 0;
	char what[96];

	if (sys_cuda_push(gpu, &scope) != TCPX_OK)
		return error_last()->status;
	result = gpu->api->host_register(slot, size, CUDA_HOST_PORTABLE | CUDA_HOST_MAPPED);
	if (result == CUDA_OK && gpu->api->host_device_ptr(&at, slot, 0) == CUDA_OK)
		mapped_add(slot, size, gpu->ordinal, at);
	sys_cuda_pop(&scope);
	if (result == CUDA_OK)
		return TCPX_OK;
	text_format(what, sizeof(what), "cannot pin %zu bytes for GPU %u", size, gpu->ordinal);
	return sys_cuda_error(result, what);
}

void *mem_cuda_slot_alloc(size_t bytes, uint32_t device)
{
	size_t size = slot_size(bytes);
	struct sys_cuda_gpu *gpu;
	void *slot = MAP_FAILED;

	if (sys_cuda_get(device, &gpu) != TCPX_OK)
		return NULL;
	if (size)
		slot = slot_map(size);
	if (slot == MAP_FAILED) {
		error_set(TCPX_ERR_NO_MEMORY, size ? errno : 0, "slots of %zu bytes", bytes);
		goto put;
	}
	slot_near(slot, size, gpu->numa);
	/* A child of fork() does not get the slot. Otherwise copy-on-write could give the parent
	 * new pages while the device still uses the old ones. */
	if (madvise(slot, size, MADV_DONTFORK)) {
		error_set(TCPX_ERR_SYSTEM, errno, "madvise(DONTFORK)");
		goto unmap;
	}
	if (slot_register(gpu, slot, size) == TCPX_OK)
		return slot; /* the slot keeps the reference to the device */
unmap:
	slot_unmap(slot, size);
put:
	sys_cuda_put(gpu);
	return NULL;
}

void mem_cuda_slot_free(void *slot, size_t bytes, uint32_t device)
{
	struct sys_cuda_gpu *gpu = NULL;
	struct sys_cuda_scope scope;
	int unpinned = 0;

	if (!slot || sys_cuda_get(device, &gpu) != TCPX_OK)
		return;
	mapped_remove(slot, device);
	/* sys_cuda_push is tried twice, so that a temporary failure does not leave memory
	 * pinned. */
	if (sys_cuda_push(gpu, &scope) == TCPX_OK || sys_cuda_push(gpu, &scope) == TCPX_OK) {
		unpinned = gpu->api->host_unregister(slot) == CUDA_OK;
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(gpu);
	sys_cuda_put(gpu); /* the reference that the slot held */
	/* As long as the driver maps these addresses to these pages, nothing else may be mapped at
	 * the addresses; otherwise a copy would move wrong bytes. So memory that cannot be unpinned
	 * (a broken context, the end of the process) stays mapped. */
	if (unpinned)
		slot_unmap(slot, slot_size(bytes));
}
