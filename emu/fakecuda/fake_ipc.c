/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of another process, by legacy IPC or of a pool: a handle names the exporter's descriptor
 * of the memory, which /proc opens again. */
#include "fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define IPC_MAGIC 0x43504946414b4531ull

struct ipc_text { /* in struct cuda_ipc_mem */
	uint64_t magic, bytes, id, inode;
	int32_t pid, fd, physical;
	uint32_t begin;
	uint64_t pool; /* inode of the pool, or 0 for legacy IPC */
};
_Static_assert(sizeof(struct ipc_text) <= sizeof(struct cuda_ipc_mem), "a handle is 64 bytes");
_Static_assert(sizeof(struct ipc_text) <= sizeof(struct cuda_pool_memory), "so is a pool's");

/* Fills in the handle of the allocation that contains `ptr`, which must be of this kind. `bytes` is
 * the handle, which is 64 bytes long. */
static cuda_result handle_make(cuda_ptr ptr, enum fake_kind kind, void *bytes)
{
	cuda_result rc = CUDA_ERR_INVALID_VALUE;
	struct ipc_text text = {.magic = IPC_MAGIC, .pid = getpid()};
	struct fake_range *range;
	struct stat st;

	pthread_mutex_lock(&fake.lock);
	range = fake_range_find(ptr);
	if (range && range->kind == kind && !fstat(range->fd, &st)) {
		text.bytes = range->bytes;
		text.id = range->id;
		text.inode = st.st_ino;
		text.fd = range->fd;
		text.begin = range->begin;
		text.physical = fake.device[range->device].physical;
		text.pool = range->pool ? fake_pool_inode(range->pool) : 0;
		/* `ptr` may lie anywhere in memory of cuMemAlloc, but begins memory of a pool */
		if (kind == FAKE_MEMORY || (text.pool && range->base == ptr))
			rc = CUDA_OK;
	}
	pthread_mutex_unlock(&fake.lock);
	if (rc)
		return rc;
	memset(bytes, 0, sizeof(struct cuda_ipc_mem));
	memcpy(bytes, &text, sizeof(text));
	return CUDA_OK;
}

cuda_result fake_ipc_get(struct cuda_ipc_mem *out, cuda_ptr ptr)
{
	FAKE_ENTER(ipc_get);
	return handle_make(ptr, FAKE_MEMORY, out);
}

/* The exporter's memory, if it lives and has not been freed; -1. */
static int ipc_file(const struct ipc_text *text)
{
	char path[64];
	struct stat st;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", text->pid, text->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && st.st_ino == text->inode &&
	    (uint64_t)st.st_size >= text->begin + text->bytes)
		return fd;
	close(fd);
	return -1;
}

/* Under the lock. ctx is NULL for memory of a pool. */
static cuda_result ipc_map(const struct ipc_text *text, int device, cuda_ctx ctx, cuda_pool pool,
			   cuda_ptr *out)
{
	enum fake_kind kind = pool ? FAKE_POOL_IPC : FAKE_IPC;
	struct fake_range *range = NULL;
	size_t whole = text->begin + text->bytes;
	uint64_t addr;
	int fd;

	for (range = fake.ranges; range; range = range->next) { /* an open one is found again */
		if (range->kind == kind && range->inode == text->inode && !range->going) {
			if (!pool) /* only legacy IPC counts */
				range->opens++;
			*out = range->base;
			return CUDA_OK;
		}
	}
	fd = ipc_file(text);
	if (fd < 0)
		return CUDA_ERR_MAP_FAILED;
	addr = fake_arena_take(whole, 1);
	if (addr && fake_arena_map(addr, whole, fd, 0)) {
		fake_arena_give(addr, whole);
		addr = 0;
	}
	if (addr)
		range = fake_range_add(kind, addr + text->begin, text->bytes, ctx, device);
	if (!range) {
		if (addr) {
			fake_arena_unmap(addr, whole);
			fake_arena_give(addr, whole);
		}
		close(fd);
		return CUDA_ERR_OUT_OF_MEMORY;
	}
	range->fd = fd;
	range->inode = text->inode;
	range->opens = 1;
	range->begin = text->begin;
	range->pool = pool;
	if (pool) {
		fake_pool_used(pool, 1);
		fake.live.ipc++;
	}
	*out = range->base;
	return CUDA_OK;
}

/* Not in the process that exported it, as the driver has it. */
cuda_result fake_ipc_open(cuda_ptr *out, struct cuda_ipc_mem handle, unsigned flags)
{
	struct ipc_text text;
	cuda_result rc;
	cuda_ctx ctx;
	int device;

	FAKE_ENTER(ipc_open);
	memcpy(&text, &handle, sizeof(text));
	if (flags != CUDA_IPC_LAZY_PEER_ACCESS || text.magic != IPC_MAGIC || text.pool)
		return CUDA_ERR_INVALID_VALUE;
	if (text.pid == getpid())
		return CUDA_ERR_INVALID_CONTEXT;
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	device = fake_device_of(text.physical);
	if (!rc && device < 0)
		rc = CUDA_ERR_INVALID_DEVICE;
	if (!rc && device != ctx->device && fake.no_peer)
		rc = CUDA_ERR_PEER_ACCESS_UNSUPPORTED;
	if (!rc)
		rc = ipc_map(&text, device, ctx, NULL, out);
	if (!rc && device != ctx->device)
		ctx->peers |= 1u << device; /* what the flag asks for */
	if (!rc)
		fake.live.ipc++;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_ipc_close(cuda_ptr ptr)
{
	struct fake_range *range;
	cuda_result late;

	FAKE_ENTER_LATE(ipc_close, &late);
	pthread_mutex_lock(&fake.lock);
	range = fake_range_find(ptr);
	if (!range || range->kind != FAKE_IPC || range->base != ptr) {
		late = CUDA_ERR_INVALID_VALUE;
	} else {
		fake_gone(&fake.live.ipc);
		if (!--range->opens) {
			size_t whole = range->begin + range->bytes;
			uint64_t addr = ptr - range->begin;
			int fd = range->fd;

			fake_range_remove(range);
			fake_arena_unmap(addr, whole);
			fake_arena_give(addr, whole);
			close(fd);
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return late;
}

cuda_result fake_pool_export_memory(struct cuda_pool_memory *out, cuda_ptr ptr)
{
	FAKE_ENTER(pool_export_memory);
	return handle_make(ptr, FAKE_POOL, out);
}

/* Opening an allocation again returns the same address, and the first free closes it. */
cuda_result fake_pool_import_memory(cuda_ptr *out, cuda_pool pool, struct cuda_pool_memory *memory)
{
	cuda_result rc = CUDA_ERR_INVALID_VALUE;
	struct ipc_text text;
	uint64_t inode;
	int device;

	FAKE_ENTER(pool_import_memory);
	memcpy(&text, memory, sizeof(text));
	pthread_mutex_lock(&fake.lock);
	device = fake_device_of(text.physical);
	if (text.magic == IPC_MAGIC && device >= 0 && fake_pool_opened(pool, &inode) &&
	    inode == text.pool)
		rc = ipc_map(&text, device, NULL, pool, out);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

void fake_ipc_unmap(struct fake_range *range)
{
	size_t whole = range->begin + range->bytes;
	uint64_t addr = range->base - range->begin;
	cuda_pool pool = range->pool;
	int fd = range->fd;

	fake_gone(&fake.live.ipc);
	if (fake_range_remove_now(range))
		return;
	fake_pool_used(pool, -1);
	fake_arena_unmap(addr, whole);
	fake_arena_give(addr, whole);
	close(fd);
}
