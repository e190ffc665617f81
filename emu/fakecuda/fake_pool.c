/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA memory pools: the default one of each device, created ones, and ones of other processes. */
#include "fake.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct cuda_pool_st {
	struct cuda_pool_st *next;
	int device, opened, destroyed;
	int fd;		 /* descriptor by which other processes open the pool, or -1 */
	uint64_t inode;	 /* of fd */
	uint32_t access; /* bit mask of other devices that may use its memory */
	unsigned uses;	 /* number of its allocations, or of those that are open here */
};

static struct cuda_pool_st defaults[FAKE_DEVICES_MAX];
static struct cuda_pool_st *pools;

cuda_pool fake_pool_default(int device)
{
	defaults[device].device = device;
	defaults[device].fd = -1;
	return &defaults[device];
}

static struct cuda_pool_st *pool_find(cuda_pool pool)
{
	struct cuda_pool_st *at = pools;

	for (int i = 0; i < fake.devices; i++)
		if (pool == &defaults[i])
			return pool;
	while (at && at != pool)
		at = at->next;
	return at && !at->destroyed ? at : NULL;
}

int fake_pool_reachable(cuda_pool pool, int device)
{
	if (pool->opened) /* even the pool's own device needs cuMemPoolSetAccess */
		return (pool->access & 1u << device) != 0;
	return pool->device == device || (pool->access & 1u << device) != 0;
}

int fake_pool_opened(cuda_pool pool, uint64_t *out_inode)
{
	const struct cuda_pool_st *found = pool_find(pool);

	if (!found || !found->opened)
		return 0;
	*out_inode = found->inode;
	return 1;
}

uint64_t fake_pool_inode(cuda_pool pool)
{
	return pool->fd < 0 || pool->opened ? 0 : pool->inode;
}

static void pool_drop(struct cuda_pool_st *pool)
{
	struct cuda_pool_st **at = &pools;

	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	if (pool->fd >= 0)
		close(pool->fd);
	free(pool);
}

void fake_pool_used(cuda_pool pool, int by)
{
	pool->uses += (unsigned)by;
	if (pool->destroyed && !pool->uses)
		pool_drop(pool);
}

/* Called under the lock. The pool owns the descriptor. */
static struct cuda_pool_st *pool_make(int device, int fd)
{
	struct cuda_pool_st *pool = calloc(1, sizeof(*pool));
	struct stat st = {0};

	if (!pool || (fd >= 0 && fstat(fd, &st))) {
		free(pool);
		return NULL;
	}
	*pool = (struct cuda_pool_st){
		.next = pools, .device = device, .fd = fd, .inode = st.st_ino};
	pools = pool;
	fake.live.pools++;
	return pool;
}

cuda_result fake_pool_create(cuda_pool *out, const struct cuda_pool_prop *prop)
{
	int device = prop ? fake_prop_device(prop->type, prop->location) : -1, fd = -1;
	struct cuda_pool_st *pool;

	FAKE_ENTER(pool_create);
	if (device < 0)
		return CUDA_ERR_INVALID_VALUE;
	if (prop->handle_types & ~CUDA_HANDLE_FD)
		return CUDA_ERR_NOT_SUPPORTED;
	pthread_mutex_lock(&fake.lock);
	if (prop->handle_types)
		fd = fake_memory_file("pool", device, 0);
	pool = prop->handle_types && fd < 0 ? NULL : pool_make(device, fd);
	pthread_mutex_unlock(&fake.lock);
	if (!pool) {
		if (fd >= 0)
			close(fd);
		return CUDA_ERR_OUT_OF_MEMORY;
	}
	*out = pool;
	return CUDA_OK;
}

/* Destroying a pool of another process fails while one of its allocations is open. A pool of this
 * process is freed with its last allocation. */
cuda_result fake_pool_destroy(cuda_pool pool)
{
	struct cuda_pool_st *found;
	cuda_result late;

	FAKE_ENTER_LATE(pool_destroy, &late);
	pthread_mutex_lock(&fake.lock);
	found = pool_find(pool);
	if (!found || (found >= defaults && found < defaults + FAKE_DEVICES_MAX) ||
	    (found->opened && found->uses)) {
		late = CUDA_ERR_INVALID_VALUE;
	} else {
		found->destroyed = 1;
		fake_gone(&fake.live.pools);
		if (!found->uses)
			pool_drop(found);
	}
	pthread_mutex_unlock(&fake.lock);
	return late;
}

cuda_result fake_pool_alloc(cuda_ptr *out, size_t bytes, cuda_pool pool, cuda_stream stream)
{
	struct cuda_pool_st *found;
	cuda_result rc;

	FAKE_ENTER(pool_alloc);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	found = pool_find(pool);
	if (!rc && (!found || found->opened))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc)
		rc = fake_memory_make(FAKE_POOL, NULL, found->device, bytes, found, out);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_pool_access(cuda_pool pool, const struct cuda_access *access, size_t count)
{
	cuda_result rc = CUDA_OK;
	struct cuda_pool_st *found;

	FAKE_ENTER(pool_access);
	pthread_mutex_lock(&fake.lock);
	found = pool_find(pool);
	for (size_t i = 0; i < count && found && !rc; i++) {
		int device = access[i].location.id;

		if (access[i].location.type != CUDA_LOCATION_DEVICE || device < 0 ||
		    device >= fake.devices)
			rc = CUDA_ERR_INVALID_VALUE;
		else if (fake.no_peer && device != found->device)
			rc = CUDA_ERR_PEER_ACCESS_UNSUPPORTED;
		else if (access[i].flags == CUDA_ACCESS_READ_WRITE)
			found->access |= 1u << device;
		else
			found->access &= ~(1u << device);
	}
	if (!found || !count)
		rc = CUDA_ERR_INVALID_VALUE;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_pool_export(void *out, cuda_pool pool, int type, unsigned long long flags)
{
	struct cuda_pool_st *found;
	int fd = -1;

	FAKE_ENTER(pool_export);
	if (flags || !out)
		return CUDA_ERR_INVALID_VALUE;
	if (type != CUDA_HANDLE_FD)
		return CUDA_ERR_NOT_SUPPORTED;
	pthread_mutex_lock(&fake.lock);
	found = pool_find(pool);
	if (found && !found->opened && found->fd >= 0)
		fd = fcntl(found->fd, F_DUPFD_CLOEXEC, 0);
	pthread_mutex_unlock(&fake.lock);
	if (fd < 0)
		return CUDA_ERR_INVALID_VALUE;
	*(int *)out = fd;
	return CUDA_OK;
}

/* The caller keeps the descriptor. Opening an open pool again returns the same handle, and the
 * first cuMemPoolDestroy closes it. */
cuda_result fake_pool_import(cuda_pool *out, void *os_handle, int type, unsigned long long flags)
{
	int fd = (int)(intptr_t)os_handle, device, own;
	struct cuda_pool_st *pool;
	struct stat st;

	FAKE_ENTER(pool_import);
	if (flags || type != CUDA_HANDLE_FD)
		return CUDA_ERR_NOT_SUPPORTED;
	device = fake_file_device("pool", fd);
	if (device < 0 || fstat(fd, &st))
		return CUDA_ERR_UNKNOWN;
	pthread_mutex_lock(&fake.lock);
	for (pool = pools; pool; pool = pool->next)
		if (pool->opened && !pool->destroyed && pool->inode == st.st_ino)
			break;
	own = pool ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (!pool && own >= 0) {
		pool = pool_make(device, own);
		if (pool)
			pool->opened = 1;
		else
			close(own);
	}
	pthread_mutex_unlock(&fake.lock);
	if (!pool)
		return CUDA_ERR_OUT_OF_MEMORY;
	*out = pool;
	return CUDA_OK;
}
