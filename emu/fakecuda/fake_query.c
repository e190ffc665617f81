/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of an address: pointer attributes, as a driver answers them. */
#include "fake.h"

#include <fcntl.h>
#include <unistd.h>

/* May kernels of the device touch it? device < 0: nobody in particular asks. */
int fake_reachable(const struct fake_range *range, int device)
{
	if (range->kind == FAKE_VMM)
		return device < 0 ? range->access != 0 : (range->access & 1u << device) != 0;
	if (device < 0 || range->kind == FAKE_MANAGED || range->kind >= FAKE_HOST)
		return 1;
	if (range->pool)
		return fake_pool_reachable(range->pool, device);
	return range->device == device ||
	       (fake.device[device].primary.peers & 1u << range->device) != 0;
}

static int query_access(const struct fake_range *range)
{
	cuda_ctx ctx = fake_thread_ctx();

	return fake_reachable(range, ctx ? ctx->device : range->device) ? CUDA_ACCESS_READ_WRITE
									: 0;
}

/* range NULL: what a driver writes for an address that it does not know. */
static cuda_result query(void *out, int attribute, const struct fake_range *range)
{
	int host = range && range->kind >= FAKE_HOST;

	switch (attribute) {
	case CUDA_POINTER_CONTEXT:
		*(cuda_ctx *)out = range ? range->ctx : NULL;
		break;
	case CUDA_POINTER_MEMORY_TYPE:
		*(unsigned *)out = !range ? 0 : host ? CUDA_MEMORY_HOST : CUDA_MEMORY_DEVICE;
		break;
	case CUDA_POINTER_BUFFER_ID:
		*(unsigned long long *)out = range ? range->id : 0;
		break;
	case CUDA_POINTER_IS_MANAGED:
		*(int *)out = range && range->kind == FAKE_MANAGED;
		break;
	case CUDA_POINTER_DEVICE_ORDINAL:
		*(int *)out = range ? range->device : -2;
		break;
	case CUDA_POINTER_IS_LEGACY_IPC:
		*(int *)out = range && range->kind == FAKE_MEMORY;
		break;
	case CUDA_POINTER_RANGE_START:
		*(cuda_ptr *)out = range ? range->base : 0;
		break;
	case CUDA_POINTER_RANGE_SIZE:
		*(size_t *)out = range ? range->bytes : 0;
		break;
	case CUDA_POINTER_MAPPED:
		*(int *)out = range != NULL;
		break;
	case CUDA_POINTER_HANDLE_TYPES:
		*(uint64_t *)out = range && range->kind == FAKE_VMM ? CUDA_HANDLE_FD : 0;
		break;
	case CUDA_POINTER_ACCESS_FLAGS:
		*(int *)out = range ? query_access(range) : 0;
		break;
	case CUDA_POINTER_MEMPOOL:
		*(cuda_pool *)out = range ? range->pool : NULL;
		break;
	default:
		return CUDA_ERR_INVALID_VALUE;
	}
	return CUDA_OK;
}

cuda_result fake_pointer_attribute(void *out, int attribute, cuda_ptr ptr)
{
	struct fake_range *range;
	cuda_result rc;

	FAKE_ENTER(pointer_attribute);
	pthread_mutex_lock(&fake.lock);
	range = fake_range_find(ptr);
	rc = range ? query(out, attribute, range) : CUDA_ERR_INVALID_VALUE;
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* Unlike the single question, an address that is not known is no error here. */
cuda_result fake_pointer_attributes(unsigned count, const int *attributes, void **outs,
				    cuda_ptr ptr)
{
	cuda_result rc = CUDA_OK;
	struct fake_range *range;

	FAKE_ENTER(pointer_attributes);
	if (!count || !attributes || !outs)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	range = fake_range_find(ptr);
	for (unsigned i = 0; i < count && !rc; i++)
		rc = query(outs[i], attributes[i], range);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static int exports(const struct fake_range *range)
{
	return range && range->kind < FAKE_HOST && range->kind != FAKE_MANAGED;
}

/* Under the lock. All of it, or some where pages may reach outside of allocations. */
static int may_export(uint64_t at, size_t bytes)
{
	uint64_t end = at + bytes;

	if (end < at)
		return 0;
	if (!fake.cover_strict)
		return exports(fake_range_overlap(at, bytes));
	while (at < end) {
		const struct fake_range *range = fake_range_find(at);

		if (!exports(range))
			return 0;
		at = range->base + range->bytes;
	}
	return 1;
}

/* The descriptor is good for nothing but its close. */
cuda_result fake_mem_export(void *out, cuda_ptr ptr, size_t bytes, int type,
			    unsigned long long flags)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	cuda_result rc = CUDA_OK;
	int fd;

	FAKE_ENTER(mem_export);
	if (!out || !bytes || ptr % page || bytes % page || type != CUDA_RANGE_DMABUF_FD || flags)
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	if (!fake_thread_ctx())
		rc = CUDA_ERR_INVALID_CONTEXT;
	else if (!may_export(ptr, bytes))
		rc = CUDA_ERR_INVALID_VALUE;
	pthread_mutex_unlock(&fake.lock);
	if (rc)
		return rc;
	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return CUDA_ERR_OUT_OF_MEMORY;
	*(int *)out = fd;
	return CUDA_OK;
}
