/* SPDX-License-Identifier: Apache-2.0 */
/* Allocation of device, managed, pool and pinned memory; registration of the caller's. */
#include "fake.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Small allocations share pages: they begin inside of one, and so do not lie as pages do. */
#define SMALL_BYTES (1u << 20)
#define SMALL_BEGIN 512u

static size_t page_up(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (bytes + page - 1) / page * page;
}

cuda_result fake_memory_make(enum fake_kind kind, cuda_ctx owner, int device, size_t bytes,
			     cuda_pool pool, cuda_ptr *out)
{
	uint32_t begin = kind == FAKE_MEMORY && bytes < SMALL_BYTES ? SMALL_BEGIN : 0;
	size_t whole = page_up(bytes + begin);
	struct fake_range *range;
	uint64_t addr;
	int fd;

	if (!bytes)
		return CUDA_ERR_INVALID_VALUE;
	if (whole < bytes || whole > fake.device_bytes - fake.device[device].used)
		return CUDA_ERR_OUT_OF_MEMORY;
	fd = fake_memory_file("memory", device, whole);
	if (fd < 0)
		return CUDA_ERR_OUT_OF_MEMORY;
	addr = fake_arena_take(whole, 1);
	if (!addr || fake_arena_map(addr, whole, fd, kind == FAKE_MANAGED)) {
		if (addr)
			fake_arena_give(addr, whole);
		close(fd);
		return CUDA_ERR_OUT_OF_MEMORY;
	}
	range = fake_range_add(kind, addr + begin, bytes, owner, device);
	if (!range) {
		fake_arena_unmap(addr, whole);
		fake_arena_give(addr, whole);
		close(fd);
		return CUDA_ERR_OUT_OF_MEMORY;
	}
	range->fd = fd;
	range->begin = begin;
	range->pool = pool;
	if (pool)
		fake_pool_used(pool, 1);
	fake.device[device].used += whole;
	fake.live.memory++;
	*out = range->base;
	return CUDA_OK;
}

/* wait: for the work that uses it, as a call does; a stream cannot wait for what is behind. */
static void memory_let_go(struct fake_range *range, int wait)
{
	size_t whole = page_up(range->bytes + range->begin);
	uint64_t addr = range->base - range->begin;
	int fd = range->fd, device = range->device;
	cuda_pool pool = range->pool;

	fake_gone(&fake.live.memory);
	if (wait)
		fake_range_remove(range);
	else if (fake_range_remove_now(range))
		return;
	if (pool)
		fake_pool_used(pool, -1);
	fake_arena_unmap(addr, whole);
	fake_arena_give(addr, whole);
	close(fd);
	fake.device[device].used -= whole;
}

static struct fake_range *memory_at(cuda_ptr ptr)
{
	struct fake_range *range = fake_range_find(ptr);

	if (!range || range->base != ptr || range->kind > FAKE_POOL)
		return NULL;
	return range;
}

/* Like memory_at, but also finds memory of another process's pool. */
static struct fake_range *pool_memory_at(cuda_ptr ptr)
{
	struct fake_range *range = fake_range_find(ptr);

	return range && range->base == ptr && range->kind == FAKE_POOL_IPC ? range : memory_at(ptr);
}

cuda_result fake_mem_info(size_t *out_free, size_t *out_total)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(mem_info);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc) {
		*out_free = fake.device_bytes - fake.device[ctx->device].used;
		*out_total = fake.device_bytes;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_mem_alloc(cuda_ptr *out, size_t bytes)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(mem_alloc);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc)
		rc = fake_memory_make(FAKE_MEMORY, ctx, ctx->device, bytes, NULL, out);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_mem_alloc_managed(cuda_ptr *out, size_t bytes, unsigned flags)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(mem_alloc_managed);
	if (flags != 1 && flags != 2) /* attached to all, to the host */
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc)
		rc = fake_memory_make(FAKE_MANAGED, ctx, ctx->device, bytes, NULL, out);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_mem_free(cuda_ptr ptr)
{
	struct fake_range *range;
	cuda_result late, rc;

	FAKE_ENTER_LATE(mem_free, &late);
	if (!ptr)
		return late;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_leaving(&late);
	range = pool_memory_at(ptr);
	if (!rc && !range)
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc && range->kind == FAKE_POOL_IPC) {
		fake_device_wait(range->device);
		fake_ipc_unmap(range);
	} else if (!rc) {
		range->going = 1; /* nobody finds it any more */
		fake_device_wait(range->device);
		memory_let_go(range, 1);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_mem_alloc_async(cuda_ptr *out, size_t bytes, cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER(mem_alloc_async);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc) {
		int device = fake_stream_ctx(stream)->device;

		rc = fake_memory_make(FAKE_POOL, NULL, device, bytes, fake_pool_default(device),
				      out);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void free_end(struct fake_work *work)
{
	struct fake_range *range = pool_memory_at(work->addr);

	if (range && range->kind == FAKE_POOL_IPC)
		fake_ipc_unmap(range);
	else if (range)
		memory_let_go(range, 0);
}

cuda_result fake_mem_free_async(cuda_ptr ptr, cuda_stream stream)
{
	struct fake_work *work;
	cuda_result late, rc;

	FAKE_ENTER_LATE(mem_free_async, &late);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc && !pool_memory_at(ptr))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc) {
		work = fake_work_new(stream);
		if (work) {
			work->addr = ptr;
			work->end = free_end;
			rc = fake_stream_push(stream, work, 0);
		} else {
			rc = CUDA_ERR_OUT_OF_MEMORY;
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_host_alloc(void **out, size_t bytes, unsigned flags)
{
	struct fake_range *range = NULL;
	void *memory = MAP_FAILED;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(host_alloc);
	if (!bytes || flags > 7)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc) {
		rc = CUDA_ERR_OUT_OF_MEMORY;
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	}
	if (memory != MAP_FAILED) {
		range = fake_range_add(FAKE_HOST, (uintptr_t)memory, bytes, ctx, ctx->device);
		if (!range)
			munmap(memory, bytes);
	}
	if (range) {
		range->host_flags = flags;
		fake.live.host++;
		fake.live.pinned_kib += (unsigned)(bytes >> 10);
		*out = memory;
		rc = CUDA_OK;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* The end of either kind of pinned memory; how much lay there. */
static cuda_result host_end(void *ptr, enum fake_kind kind, cuda_result otherwise,
			    cuda_result *late, size_t *out_bytes)
{
	struct fake_range *range = fake_range_find((uintptr_t)ptr);
	cuda_result rc = fake_ctx_leaving(late);

	*out_bytes = 0;
	if (rc)
		return rc;
	if (!range || range->kind != kind || range->base != (uintptr_t)ptr)
		return otherwise;
	*out_bytes = range->bytes;
	fake.live.pinned_kib -= (unsigned)(range->bytes >> 10);
	fake_range_remove(range);
	return CUDA_OK;
}

cuda_result fake_host_free(void *ptr)
{
	cuda_result late, rc;
	size_t bytes;

	FAKE_ENTER_LATE(host_free, &late);
	pthread_mutex_lock(&fake.lock);
	rc = host_end(ptr, FAKE_HOST, CUDA_ERR_INVALID_VALUE, &late, &bytes);
	if (!rc) {
		munmap(ptr, bytes);
		fake_gone(&fake.live.host);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_host_register(void *ptr, size_t bytes, unsigned flags)
{
	uint64_t addr = (uintptr_t)ptr;
	struct fake_range *range;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(host_register);
	if (!ptr || !bytes || addr + bytes < addr || flags > 15)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	range = fake_range_overlap(addr, bytes);
	if (!rc && range)
		rc = range->kind >= FAKE_HOST ? CUDA_ERR_HOST_MEMORY_ALREADY_REGISTERED
					      : CUDA_ERR_INVALID_VALUE;
	if (!rc && fake_span(addr, bytes, ctx->device) != FAKE_SPAN_PAGEABLE)
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc) {
		range = fake_range_add(FAKE_REGISTERED, addr, bytes, ctx, ctx->device);
		rc = range ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (!rc) {
		range->host_flags = flags;
		fake.live.registrations++;
		fake.live.pinned_kib += (unsigned)(bytes >> 10);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_host_unregister(void *ptr)
{
	cuda_result late, rc;
	size_t bytes;

	FAKE_ENTER_LATE(host_unregister, &late);
	pthread_mutex_lock(&fake.lock);
	rc = host_end(ptr, FAKE_REGISTERED, CUDA_ERR_HOST_MEMORY_NOT_REGISTERED, &late, &bytes);
	if (!rc)
		fake_gone(&fake.live.registrations);
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_host_device_ptr(cuda_ptr *out, void *ptr, unsigned flags)
{
	struct fake_range *range;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(host_device_ptr);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	range = fake_range_find((uintptr_t)ptr);
	if (!rc && (flags || !range || range->kind < FAKE_HOST))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc)
		*out = (uintptr_t)ptr;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}
