/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Addresses: an arena that is given out, and the same pages mapped where we may touch them, so that
 * memory of a device faults for everybody else. What lies where is one list of ranges.
 */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define GRAINS (FAKE_ARENA / FAKE_GRAIN - 1)

static uint8_t taken[GRAINS];

static int range_covers(const struct fake_range *range, uint64_t addr)
{
	return addr - range->base < range->bytes;
}

/* going: one that is being freed, too; work that was queued before may touch it until then. */
static struct fake_range *range_at(uint64_t addr, int going)
{
	struct fake_range *at = fake.ranges;

	while (at && ((at->going && !going) || !range_covers(at, addr)))
		at = at->next;
	return at;
}

struct fake_range *fake_range_find(uint64_t addr)
{
	return range_at(addr, 0);
}

struct fake_range *fake_range_overlap(uint64_t addr, size_t bytes)
{
	struct fake_range *at = fake.ranges;

	while (at && (addr >= at->base + at->bytes || at->base >= addr + bytes))
		at = at->next;
	return at;
}

int fake_in_arena(uint64_t addr)
{
	return fake.arena && addr - (uintptr_t)fake.arena < GRAINS * FAKE_GRAIN;
}

void *fake_shadow(uint64_t addr)
{
	if (fake_in_arena(addr))
		return fake.shadow + (addr - (uintptr_t)fake.arena);
	return (void *)(uintptr_t)addr;
}

/* First fit, so that a freed address comes back as another allocation's. */
uint64_t fake_arena_take(size_t bytes, size_t alignment)
{
	size_t need = (bytes + FAKE_GRAIN - 1) / FAKE_GRAIN, run = 0;

	if (!bytes || bytes > FAKE_ARENA || alignment > FAKE_GRAIN)
		return 0;
	for (size_t i = 0; i < GRAINS; i++) {
		run = taken[i] ? 0 : run + 1;
		if (run == need) {
			size_t first = i + 1 - need;

			memset(taken + first, 1, need);
			return (uintptr_t)fake.arena + first * FAKE_GRAIN;
		}
	}
	return 0;
}

void fake_arena_give(uint64_t addr, size_t bytes)
{
	size_t first = (addr - (uintptr_t)fake.arena) / FAKE_GRAIN;

	memset(taken + first, 0, (bytes + FAKE_GRAIN - 1) / FAKE_GRAIN);
}

int fake_arena_map(uint64_t addr, size_t bytes, int fd, int cpu)
{
	int mode = MAP_SHARED | MAP_FIXED;

	if (mmap(fake_shadow(addr), bytes, PROT_READ | PROT_WRITE, mode, fd, 0) == MAP_FAILED)
		return -1;
	if (!cpu)
		return 0;
	if (mmap((void *)(uintptr_t)addr, bytes, PROT_READ | PROT_WRITE, mode, fd, 0) != MAP_FAILED)
		return 0;
	fake_arena_unmap(addr, bytes);
	return -1;
}

void fake_arena_unmap(uint64_t addr, size_t bytes)
{
	int mode = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;

	(void)mmap(fake_shadow(addr), bytes, PROT_NONE, mode, -1, 0);
	(void)mmap((void *)(uintptr_t)addr, bytes, PROT_NONE, mode, -1, 0);
}

int fake_memory_file(const char *what, int device, size_t bytes)
{
	char name[64];
	int fd;

	snprintf(name, sizeof(name), "fakecuda-%s-%d", what, fake.device[device].physical);
	fd = memfd_create(name, MFD_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!ftruncate(fd, (off_t)bytes))
		return fd;
	close(fd);
	return -1;
}

struct fake_range *fake_range_add(enum fake_kind kind, uint64_t base, size_t bytes, cuda_ctx ctx,
				  int device)
{
	struct fake_range *range = calloc(1, sizeof(*range));

	if (!range)
		return NULL;
	*range = (struct fake_range){.next = fake.ranges,
				     .kind = kind,
				     .base = base,
				     .bytes = bytes,
				     .ctx = ctx,
				     .device = device,
				     .id = ++fake.next_id,
				     .fd = -1};
	fake.ranges = range;
	return range;
}

/* Kernels may touch anything, so they count as users of all memory of devices and pinned memory. */
static int range_in_use(const struct fake_range *range)
{
	if (range->uses)
		return 1;
	for (int i = 0; i < fake.devices; i++) {
		if (fake.device[i].launches)
			return 1;
	}
	return 0;
}

static void range_unlink(struct fake_range *range)
{
	struct fake_range **at = &fake.ranges;

	while (*at != range)
		at = &(*at)->next;
	*at = range->next;
	free(range);
}

void fake_range_remove(struct fake_range *range)
{
	range->going = 1;
	while (range_in_use(range))
		pthread_cond_wait(&fake.changed, &fake.lock);
	range_unlink(range);
}

int fake_range_remove_now(struct fake_range *range)
{
	range->going = 1;
	if (range->uses)
		return -1;
	range_unlink(range);
	return 0;
}

/* Whether every page is there; a page without rights faults later, as it would anywhere. */
static int host_mapped(uint64_t addr, size_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = addr & ~(page - 1);
	unsigned char vec[256];

	if (!addr || addr + bytes < addr)
		return 0;
	while (at < addr + bytes) {
		uint64_t left = addr + bytes - at, step = sizeof(vec) * page;

		if (mincore((void *)(uintptr_t)at, left < step ? left : step, vec))
			return 0;
		at += step;
	}
	return 1;
}

enum fake_span fake_span(uint64_t addr, size_t bytes, int device)
{
	uint64_t at = addr, end = addr + bytes;

	while (at < end) {
		const struct fake_range *range = fake_range_find(at);

		if (!range)
			break;
		if (range->kind == FAKE_VMM && !(range->access & 1u << device))
			return FAKE_SPAN_BAD;
		at = range->base + range->bytes;
	}
	if (at >= end)
		return FAKE_SPAN_KNOWN;
	if (fake_in_arena(at) || !host_mapped(at, end - at))
		return FAKE_SPAN_BAD;
	return FAKE_SPAN_PAGEABLE;
}

int fake_span_crosses(uint64_t addr, size_t bytes)
{
	const struct fake_range *range = fake_range_find(addr);
	const struct fake_range *last = fake_range_find(addr + bytes - 1);

	return range && last && range != last &&
	       (range->kind == FAKE_MEMORY || range->kind == FAKE_IPC);
}

void fake_span_use(uint64_t addr, size_t bytes, int by)
{
	for (struct fake_range *at = fake.ranges; at; at = at->next) {
		if (addr < at->base + at->bytes && at->base < addr + bytes)
			at->uses += (unsigned)by;
	}
}

static int span_of_device(uint64_t ptr, size_t bytes)
{
	if (!bytes)
		return 0;
	return fake_in_arena(ptr) && fake_in_arena(ptr + bytes - 1);
}

void *fakecuda_translate(uint64_t ptr, size_t bytes)
{
	int device = fake_stream_device(); /* of the kernel that asks */
	void *out = NULL;
	uint64_t at = ptr;

	if (!bytes || !fake_in_arena(ptr))
		return (void *)(uintptr_t)ptr;
	pthread_mutex_lock(&fake.lock);
	while (at < ptr + bytes) {
		const struct fake_range *range = range_at(at, 1);

		if (!range || !fake_reachable(range, device))
			break;
		at = range->base + range->bytes;
	}
	if (at >= ptr + bytes)
		out = fake_shadow(ptr);
	pthread_mutex_unlock(&fake.lock);
	return out;
}

int fakecuda_read(uint64_t ptr, void *buf, size_t bytes)
{
	const void *from = span_of_device(ptr, bytes) ? fakecuda_translate(ptr, bytes) : NULL;

	if (!from)
		return -1;
	memcpy(buf, from, bytes);
	return 0;
}

int fakecuda_write(uint64_t ptr, const void *buf, size_t bytes)
{
	void *to = span_of_device(ptr, bytes) ? fakecuda_translate(ptr, bytes) : NULL;

	if (!to)
		return -1;
	memcpy(to, buf, bytes);
	return 0;
}
