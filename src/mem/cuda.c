/* SPDX-License-Identifier: Apache-2.0 */
/* The memory kind "cuda": the checks of memory at registration, and the table of the kind. */
#include "mem/cuda_kind.h"

#include "base/error.h"
#include "mem/cuda_owner.h"
#include "mem/cuda_share.h"
#include "sys/cuda.h"

/* The attributes of an address as the driver reports them. All are 0 if the driver does not know
 * the address. */
struct pointer {
	cuda_ctx ctx; /* NULL if the memory is of a CUDA memory pool or mapped with cuMemMap */
	unsigned type;
	unsigned long long id; /* id of the allocation */
	int managed, ordinal, mapped;
	cuda_ptr start; /* start and size of the allocation */
	size_t size;
	void *pool;
};

/* Reads the attributes of an address. An address that the driver does not know is not an error: its
 * attributes are all 0. The GPU's context must be current. */
static cuda_result pointer_read(const struct sys_cuda *api, cuda_ptr at, struct pointer *out)
{
	static const int names[] = {
		CUDA_POINTER_CONTEXT,	     CUDA_POINTER_MEMORY_TYPE, CUDA_POINTER_BUFFER_ID,
		CUDA_POINTER_IS_MANAGED,     CUDA_POINTER_MAPPED,      CUDA_POINTER_RANGE_START,
		CUDA_POINTER_DEVICE_ORDINAL, CUDA_POINTER_RANGE_SIZE,  CUDA_POINTER_MEMPOOL,
	};
	struct pointer got = {0};
	void *outs[] = {
		&got.ctx,   &got.type,	  &got.id,   &got.managed, &got.mapped,
		&got.start, &got.ordinal, &got.size, &got.pool,
	};
	cuda_result result;

	result = api->pointer_attributes(sizeof(names) / sizeof(names[0]), names, outs, at);
	if (result == CUDA_ERR_INVALID_VALUE) {
		*out = (struct pointer){0};
		return CUDA_OK;
	}
	*out = got;
	return result;
}

/* Checks that the address is in linear device memory of this GPU and that the memory belongs to the
 * GPU's primary context or to no context. Does not check whether the device may access memory
 * without a context. If it returns ERR_INVALID or ERR_UNSUPPORTED, the last error says why and what
 * to do. */
static tcpx_status pointer_kind(const struct sys_cuda_gpu *gpu, const void *addr,
				const struct pointer *is)
{
	if (is->managed) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "%p is managed memory", addr);
		return error_next("register it as TCPX_MEM_HOST: the CPU can access it");
	}
	if (is->type == CUDA_MEMORY_ARRAY) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "%p is a CUDA array", addr);
		return error_next("copy it into linear device memory");
	}
	if (is->type != CUDA_MEMORY_DEVICE) {
		error_set(TCPX_ERR_INVALID, 0, "%p is %s, not GPU memory", addr,
			  is->type ? "host memory of the CUDA driver" : "no CUDA allocation");
		return error_next("register host memory as TCPX_MEM_HOST");
	}
	if ((uint32_t)is->ordinal != gpu->ordinal) {
		error_set(TCPX_ERR_INVALID, 0, "%p is memory of GPU %d, not of GPU %u (%s)", addr,
			  is->ordinal, gpu->ordinal, gpu->pci);
		return error_next("set device to %d", is->ordinal);
	}
	if (is->ctx && is->ctx != gpu->ctx) {
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "%p belongs to a context of its own, not to the "
			  "primary one of GPU %u",
			  addr, gpu->ordinal);
		return error_next("allocate it in the primary context, as the CUDA runtime does");
	}
	return TCPX_OK;
}

/* Checks that the device may read and write the memory. Memory mapped with cuMemMap is inaccessible
 * until the application calls cuMemSetAccess. */
static tcpx_status check_access(const struct sys_cuda_gpu *gpu, cuda_ptr at)
{
	int flags = 0;
	cuda_result result = gpu->api->pointer_attribute(&flags, CUDA_POINTER_ACCESS_FLAGS, at);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "access flags of GPU memory");
	if (flags == CUDA_ACCESS_READ_WRITE)
		return TCPX_OK;
	error_set(TCPX_ERR_UNSUPPORTED, 0, "GPU %u may not read and write %p", gpu->ordinal,
		  (void *)(uintptr_t)at);
	return error_next("give it access by cuMemSetAccess or cuMemPoolSetAccess");
}

/*
 * Checks memory that the application mapped with cuMemMap: all of the range must be mapped and
 * accessible to the device. The check advances by the granularity of mappings, because no mapping
 * is smaller. It does not use the range that the driver reports: this is the whole reservation in
 * some driver versions and the mapping in others.
 */
static tcpx_status mappings_check(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t length)
{
	const struct cuda_alloc_prop prop = {
		.type = CUDA_ALLOC_PINNED,
		.location = {CUDA_LOCATION_DEVICE, gpu->device},
	};
	cuda_ptr last = at + (length - 1);
	size_t step = 0;
	cuda_result result;

	result = gpu->api->vmm_granularity(&step, &prop, CUDA_GRANULARITY_MINIMUM);
	if (result != CUDA_OK || !step)
		return sys_cuda_error(result ? result : CUDA_ERR_UNKNOWN,
				      "granularity of mappings");
	for (;;) {
		struct pointer is;
		tcpx_status status;

		result = pointer_read(gpu->api, at, &is);
		if (result != CUDA_OK)
			return sys_cuda_error(result, "attributes of GPU memory");
		if (!is.mapped) {
			error_set(TCPX_ERR_INVALID, 0, "no memory is mapped at %p of the region",
				  (void *)(uintptr_t)at);
			return error_next("map all of the range before it is registered");
		}
		status = pointer_kind(gpu, (void *)(uintptr_t)at, &is);
		if (status == TCPX_OK)
			status = check_access(gpu, at);
		if (status != TCPX_OK || at == last)
			return status;
		at = last - at < step - at % step ? last : at - at % step + step;
	}
}

/* Checks that the region lies in one allocation or, if the memory is mapped with cuMemMap, that all
 * of the region is mapped. If the memory has no context, also checks that the device may access
 * it. */
static tcpx_status range_check(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t length,
			       const struct pointer *is)
{
	if (!is->ctx && !is->pool)
		return mappings_check(gpu, at, length);
	if (at < is->start || at - is->start > is->size || length > is->size - (at - is->start)) {
		error_set(TCPX_ERR_INVALID, 0,
			  "region of %llu bytes at %p is longer than its allocation of %zu bytes "
			  "at %p",
			  (unsigned long long)length, (void *)(uintptr_t)at, is->size,
			  (void *)(uintptr_t)is->start);
		return error_next("register each allocation as a region of its own");
	}
	return is->ctx ? TCPX_OK : check_access(gpu, at);
}

static tcpx_status memory_check(const struct sys_cuda_gpu *gpu, void *addr, uint64_t length,
				uint64_t *out_id)
{
	cuda_ptr at = (uintptr_t)addr;
	struct sys_cuda_scope scope;
	struct pointer is;
	cuda_result result;
	tcpx_status status;

	status = sys_cuda_push(gpu, &scope);
	if (status != TCPX_OK)
		return status;
	result = pointer_read(gpu->api, at, &is);
	if (result != CUDA_OK)
		status = sys_cuda_error(result, "attributes of GPU memory");
	else
		status = pointer_kind(gpu, addr, &is);
	if (status == TCPX_OK)
		status = range_check(gpu, at, length, &is);
	sys_cuda_pop(&scope);
	if (status == TCPX_OK)
		*out_id = is.id;
	return status;
}

static tcpx_status cuda_probe(void *addr, uint64_t length, uint32_t device, uint64_t *out_id)
{
	struct sys_cuda_gpu *gpu;
	tcpx_status status;

	status = sys_cuda_get(device, &gpu);
	if (status != TCPX_OK)
		return status;
	status = memory_check(gpu, addr, length, out_id);
	if (status == TCPX_OK)
		/* the owner thread takes its own reference to the device; ours is dropped below */
		status = mem_cuda_owner_start(device);
	sys_cuda_put(gpu);
	return status;
}

/* Returns 0 if the memory was freed (mem_kind.same). Of the driver's errors, only
 * CUDA_ERR_INVALID_VALUE means that it was freed. The other errors (a broken context, the end of
 * the process) say nothing about the memory. The memory then counts as unchanged, and the copy that
 * follows fails and reports the error. */
static int cuda_same(void *addr, uint64_t length, uint32_t device, uint64_t id)
{
	unsigned long long now = 0;
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	cuda_result result;

	(void)length;
	if (!id || sys_cuda_get(device, &gpu) != TCPX_OK)
		return 1;
	if (sys_cuda_push(gpu, &scope) != TCPX_OK) {
		sys_cuda_put(gpu);
		return 1;
	}
	result = gpu->api->pointer_attribute(&now, CUDA_POINTER_BUFFER_ID, (uintptr_t)addr);
	sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
	return result == CUDA_OK ? now == id : result != CUDA_ERR_INVALID_VALUE;
}

static tcpx_status cuda_fill(struct mem_copy *copy)
{
	return mem_cuda_owner_push(copy, 1);
}

static tcpx_status cuda_commit(struct mem_copy *copy)
{
	return mem_cuda_owner_push(copy, 0);
}

/* Ends the threads of the kind (mem_kind.stop). The sharing thread ends first, because it passes
 * copies to the owner threads. */
static void cuda_stop(void)
{
	mem_cuda_share_stop();
	mem_cuda_owners_stop();
}

/* Allocates pinned memory for a slot (mem_kind.slot_alloc), or reuses a slot of this size that
 * cuda_slot_leave kept. */
static void *cuda_slot_alloc(size_t bytes, uint32_t device)
{
	void *slot = mem_cuda_slot_left(bytes, device);

	return slot ? slot : mem_cuda_slot_alloc(bytes, device);
}

/* Keeps an unused slot for reuse (mem_kind.slot_leave). The owner thread of the device frees kept
 * slots when it ends. If this thread does not run or has just ended, or if the device is broken,
 * frees the slot at once. */
static void cuda_slot_leave(void *slot, size_t bytes, uint32_t device)
{
	if (!mem_cuda_owner_runs(device)) {
		mem_cuda_slot_free(slot, bytes, device);
		return;
	}
	mem_cuda_slot_leave(slot, bytes, device);
	if (!mem_cuda_owner_runs(device))
		mem_cuda_slots_free_left(device);
}

const struct mem_kind mem_cuda = {
	.name = "cuda",
	.kind = TCPX_MEM_CUDA,
	.staged = 1,
	.probe = cuda_probe,
	.same = cuda_same,
	.fill = cuda_fill,
	.commit = cuda_commit,
	.rouse = mem_cuda_owner_rouse,
	.slot_alloc = cuda_slot_alloc,
	.slot_free = mem_cuda_slot_free,
	.slot_leave = cuda_slot_leave,
	.share = mem_cuda_share,
	.move = mem_cuda_move,
	.mapped_at = mem_cuda_mapped_at,
	.moves_lists = mem_cuda_owners_move_lists,
	.stop = cuda_stop,
};
