/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory shared by the sessions of one host: makes and opens handles, and passes moves to the
 * owner threads. */
#include "mem/cuda_share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/cuda_owner.h"
#include "mem/cuda_share_map.h"
#include "mem/cuda_share_pool.h"
#include "sys/cpu.h"
#include "sys/cuda.h"
#include "sys/fd.h"
#include "sys/fork.h"

#define HANDLE_MAGIC 0x31706768u /* first word of every handle */
#define NOWHERE UINT32_MAX	 /* instead of an ordinal: the GPU is not visible to this process */

enum handle_form {
	HANDLE_PLAIN = 1, /* names an address; both sessions are in this process */
	HANDLE_LEGACY,	  /* made by cuIpcGetMemHandle; names a whole allocation */
	/* 3 named a region in one mapping, by a descriptor of that mapping */
	HANDLE_MAPPED = 4, /* names mappings of cuMemMap, which a descriptor passes (map_open) */
	HANDLE_POOL,	   /* names an allocation of the CUDA memory pool of a descriptor */
};

/* The handle of a region, which is sent to a process of this host in native byte order. */
struct cuda_handle {
	uint32_t magic, form;
	char pci[16]; /* PCI address of the region's GPU */
	uint64_t addr, length;
	uint64_t offset; /* offset of the region in its allocation or first mapping */
	union {
		struct cuda_ipc_mem ipc;
		uint64_t span; /* HANDLE_MAPPED: bytes of all mappings */
		struct cuda_pool_memory pool;
	};
};

_Static_assert(sizeof(struct cuda_handle) <= MEM_HANDLE_MAX, "handle outgrew its place");

/*
 * A region of another session, opened on devices of this process. base[i] is the region's address
 * on device i. It is 0 until the sharing thread has opened the mapping there; other threads read it
 * with acquire. gpu[i] is a reference to device i, held from the opening of the mapping there until
 * the mapping is closed.
 */
struct mem_mapping {
	struct cuda_handle handle;
	int same; /* whether both sessions are in this process */
	int fd;	  /* HANDLE_MAPPED, HANDLE_POOL: the peer's descriptor, used by the first opening */
	/* HANDLE_MAPPED, HANDLE_POOL: address of the first mapping or of the allocation in this
	 * process, the same on all devices; 0 if not open yet */
	cuda_ptr mapped;
	cuda_pool pool;	 /* HANDLE_POOL: the pool in this process */
	uint32_t source; /* ordinal of the region's GPU in this process, or NOWHERE */
	_Atomic uint64_t base[MEM_CUDA_DEVICES];
	struct sys_cuda_gpu *gpu[MEM_CUDA_DEVICES];
};

/* What the sharing thread has to do. The lock guards all fields except `generation`. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	/* fork generation of the process + 1 (see shares_lock); 0 before the first use */
	_Atomic uint32_t generation;
	int running, stop; /* whether the thread runs; whether it must end after the last request */
	pthread_t thread;
	struct mem_share *first, *last; /* requests, from the oldest to the newest */
	/* moves that wait until their mapping is open on their device, in no particular order */
	struct mem_copy *late;
} shares = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

/* Returns the ordinal of the GPU with this PCI address in this process. Returns NOWHERE if the GPU
 * is not visible. */
static uint32_t source_of(const struct sys_cuda *api, const char *pci)
{
	for (uint32_t i = 0; i < (uint32_t)api->devices && i < MEM_CUDA_DEVICES; i++) {
		struct sys_cuda_gpu *gpu;
		int found;

		if (!mem_cuda_owner_runs(i)) {
			/* Only the driver is asked: creating a context would cost memory of that
			 * GPU. */
			char text[sizeof(gpu->pci)];
			cuda_device device;

			if (api->device_get(&device, (int)i) != CUDA_OK ||
			    api->device_pci(text, sizeof(text), device) != CUDA_OK)
				continue;
			found = !strcasecmp(text, pci);
		} else {
			if (sys_cuda_get(i, &gpu) != TCPX_OK)
				continue;
			found = !strcmp(gpu->pci, pci);
			sys_cuda_put(gpu);
		}
		if (found)
			return i;
	}
	return NOWHERE;
}

/* Completes a handle for another process. For memory mapped with cuMemMap the form becomes
 * HANDLE_MAPPED, for memory of a pool HANDLE_POOL, and *out_fd is the descriptor to pass. For other
 * memory the form becomes HANDLE_LEGACY. The context must be current. */
static tcpx_status handle_make(const struct sys_cuda_gpu *gpu, struct cuda_handle *handle,
			       int *out_fd)
{
	static const int names[] = {CUDA_POINTER_RANGE_START, CUDA_POINTER_RANGE_SIZE,
				    CUDA_POINTER_CONTEXT, CUDA_POINTER_MEMPOOL};
	cuda_ptr start = 0;
	size_t size = 0;
	cuda_ctx ctx = NULL;
	cuda_pool pool = NULL;
	void *outs[] = {&start, &size, &ctx, &pool};
	cuda_result result = gpu->api->pointer_attributes(4, names, outs, handle->addr);

	if (result == CUDA_OK && !ctx && !pool) {
		handle->form = HANDLE_MAPPED;
		return mem_cuda_map_export(gpu, handle->addr, handle->length, &handle->offset,
					   &handle->span, out_fd);
	}
	if (result == CUDA_OK && !pool)
		result = gpu->api->ipc_get(&handle->ipc, handle->addr);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "handle of GPU memory for another process");
	if (handle->addr < start || handle->length > size ||
	    handle->addr - start > size - handle->length) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "the region spans more than one allocation");
		return error_next("register each allocation by itself");
	}
	handle->offset = handle->addr - start;
	handle->form = pool ? HANDLE_POOL : HANDLE_LEGACY;
	return pool ? mem_cuda_pool_export(gpu, pool, start, &handle->pool, out_fd) : TCPX_OK;
}

/* Makes the handle of a region: see MEM_SHARE_EXPORT. */
static tcpx_status share_export(struct mem_share *share)
{
	struct cuda_handle handle = {.magic = HANDLE_MAGIC,
				     .form = HANDLE_PLAIN,
				     .addr = (uintptr_t)share->addr,
				     .length = share->length};
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	tcpx_status status = sys_cuda_get(share->device, &gpu);

	share->fd = -1;
	if (status != TCPX_OK)
		return status;
	memcpy(handle.pci, gpu->pci, sizeof(handle.pci));
	if (!share->same)
		status = sys_cuda_push(gpu, &scope);
	if (!share->same && status == TCPX_OK) {
		status = handle_make(gpu, &handle, &share->fd);
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(gpu);
	memcpy(share->handle, &handle, sizeof(handle));
	share->handle_bytes = sizeof(handle);
	return status;
}

/* Returns TCPX_OK if the GPU can read memory of the source GPU, over the bus or NVLink. Also
 * returns TCPX_OK if the source GPU is not visible to this process, because nothing can be checked
 * then. Otherwise returns ERR_UNSUPPORTED. */
static tcpx_status check_peers(const struct sys_cuda_gpu *gpu, uint32_t source)
{
	cuda_device other;
	int can = 0;

	if (source == NOWHERE || source == gpu->ordinal)
		/* NOWHERE: no check is possible; if the GPU cannot read the source, a later driver
		 * call fails */
		return TCPX_OK;
	if (gpu->api->device_get(&other, (int)source) == CUDA_OK &&
	    gpu->api->device_can_access(&can, gpu->device, other) == CUDA_OK && can)
		return TCPX_OK;
	error_set(TCPX_ERR_UNSUPPORTED, 0, "GPU %u cannot read memory of GPU %u", gpu->ordinal,
		  source);
	return error_next("see 'nvidia-smi topo -p2p r'; this machine's GPUs have no peer access");
}

/* Gives a device access to memory of this process (HANDLE_PLAIN). Returns ERR_UNSUPPORTED for
 * memory without a context (of a CUDA memory pool, or mapped with cuMemMap) to which the
 * application has given this device no access. The context must be current. */
static tcpx_status open_plain(const struct sys_cuda_gpu *gpu, const struct mem_mapping *mapping)
{
	cuda_ptr at = mapping->handle.addr;
	struct sys_cuda_gpu *source;
	cuda_result result;
	cuda_ctx ctx = NULL;
	int flags = 0;
	tcpx_status status;

	if (mapping->source == gpu->ordinal)
		return TCPX_OK;
	status = sys_cuda_get(mapping->source, &source);
	if (status != TCPX_OK)
		return status;
	result = gpu->api->ctx_enable_peer(source->ctx, 0);
	sys_cuda_put(source);
	if (result != CUDA_OK && result != CUDA_ERR_PEER_ACCESS_ALREADY_ENABLED)
		return sys_cuda_error(result, "access of one GPU to another");
	result = gpu->api->pointer_attribute(&ctx, CUDA_POINTER_CONTEXT, at);
	if (result == CUDA_OK && !ctx)
		result = gpu->api->pointer_attribute(&flags, CUDA_POINTER_ACCESS_FLAGS, at);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "attributes of GPU memory");
	if (!ctx && !flags)
		return error_set(TCPX_ERR_UNSUPPORTED, 0, "GPU %u may not read %p", gpu->ordinal,
				 (void *)(uintptr_t)at);
	return TCPX_OK;
}

/* Checks that the region of the handle lies in the peer's allocation, which is open at `at`.
 * Returns ERR_PROTOCOL if the allocation is smaller than the handle says. */
static tcpx_status check_size(const struct sys_cuda_gpu *gpu, const struct cuda_handle *handle,
			      cuda_ptr at)
{
	size_t size = 0;
	cuda_result result = gpu->api->pointer_attribute(&size, CUDA_POINTER_RANGE_SIZE, at);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "size of GPU memory of another process");
	if (handle->length <= size && handle->offset <= size - handle->length)
		return TCPX_OK;
	return error_set(TCPX_ERR_PROTOCOL, 0,
			 "shared GPU memory is smaller than the peer announced");
}

/* Opens an allocation of another process (HANDLE_LEGACY). *out_base is the address of the region,
 * which lies in the allocation. The context must be current. */
static tcpx_status open_legacy(const struct sys_cuda_gpu *gpu, const struct cuda_handle *handle,
			       uint64_t *out_base)
{
	cuda_ptr ptr;
	cuda_result result = gpu->api->ipc_open(&ptr, handle->ipc, CUDA_IPC_LAZY_PEER_ACCESS);
	tcpx_status status;

	if (result != CUDA_OK)
		return sys_cuda_error(result, "GPU memory of another process");
	status = check_size(gpu, handle, ptr);
	*out_base = ptr + handle->offset;
	if (status != TCPX_OK)
		(void)gpu->api->ipc_close(ptr);
	return status;
}

/* Opens an allocation of a pool of another process (HANDLE_POOL), or, if it is open on another
 * device, gives this device access. *out_base is the address of the region. The context must be
 * current. */
static tcpx_status open_pool(const struct sys_cuda_gpu *gpu, struct mem_mapping *mapping,
			     uint64_t *out_base)
{
	cuda_ptr at = mapping->mapped;
	tcpx_status status =
		mem_cuda_pool_open(gpu, mapping->fd, &mapping->handle.pool, &mapping->pool, &at);

	if (status == TCPX_OK && !mapping->mapped) {
		status = check_size(gpu, &mapping->handle, at);
		if (status != TCPX_OK)
			mem_cuda_pool_close(gpu->api, at);
	}
	if (status != TCPX_OK)
		return status;
	mapping->mapped = at;
	*out_base = at + mapping->handle.offset;
	return TCPX_OK;
}

/* Opens the mapping on a device, according to the form of its handle. *out_base is the address of
 * the region; it is not set for HANDLE_PLAIN, where the address is handle.addr. The context must be
 * current. */
static tcpx_status open_one(const struct sys_cuda_gpu *gpu, struct mem_mapping *mapping,
			    uint64_t *out_base)
{
	const struct cuda_handle *handle = &mapping->handle;
	tcpx_status status;

	switch (handle->form) {
	case HANDLE_LEGACY:
		return open_legacy(gpu, handle, out_base);
	case HANDLE_MAPPED:
		status = mem_cuda_map_open(gpu, mapping->fd, handle->span, &mapping->mapped);
		*out_base = mapping->mapped + handle->offset;
		return status;
	case HANDLE_POOL:
		return open_pool(gpu, mapping, out_base);
	default:
		return open_plain(gpu, mapping);
	}
}

/* Opens the mapping on a device, for moves by that device. Does nothing if it is open there. Called
 * by the sharing thread. */
static tcpx_status open_on(struct mem_mapping *mapping, uint32_t device)
{
	uint64_t base = mapping->handle.addr;
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	tcpx_status status;

	if (mapping->gpu[device])
		return TCPX_OK;
	status = sys_cuda_get(device, &gpu);
	if (status != TCPX_OK)
		return status;
	status = check_peers(gpu, mapping->source);
	if (status == TCPX_OK)
		status = sys_cuda_push(gpu, &scope);
	if (status == TCPX_OK) {
		status = open_one(gpu, mapping, &base);
		sys_cuda_pop(&scope);
	}
	if (status != TCPX_OK) {
		sys_cuda_put(gpu);
		return status;
	}
	mapping->gpu[device] = gpu;
	atomic_store_explicit(&mapping->base[device], base, memory_order_release);
	return TCPX_OK;
}

static void close_on(struct mem_mapping *mapping, uint32_t device)
{
	struct sys_cuda_gpu *gpu = mapping->gpu[device];
	struct sys_cuda_scope scope;
	uint64_t base = atomic_load_explicit(&mapping->base[device], memory_order_relaxed);
	int legacy = mapping->handle.form == HANDLE_LEGACY;
	int pool = mapping->handle.form == HANDLE_POOL && mapping->mapped;

	if ((legacy || pool) && sys_cuda_push(gpu, &scope) == TCPX_OK) {
		if (legacy)
			(void)gpu->api->ipc_close(base - mapping->handle.offset);
		else
			mem_cuda_pool_close(gpu->api, mapping->mapped);
		mapping->mapped = 0; /* a pool's memory is closed once, for all devices */
		sys_cuda_pop(&scope);
	}
	sys_cuda_put(gpu);
}

static void share_close(struct mem_mapping *mapping)
{
	if (mapping->handle.form == HANDLE_MAPPED && mapping->mapped)
		mem_cuda_map_close(sys_cuda_driver(), mapping->mapped, mapping->handle.span);
	for (uint32_t i = 0; i < MEM_CUDA_DEVICES; i++)
		if (mapping->gpu[i])
			close_on(mapping, i);
	free(mapping);
}

/* Whether a handle from the peer is well-formed and has the form that the request implies. */
static int handle_ok(const struct mem_share *share, const struct cuda_handle *handle)
{
	uint32_t form = handle->form;
	int form_ok = share->same	      ? form == HANDLE_PLAIN
		      : share->fd < 0	      ? form == HANDLE_LEGACY
		      : form == HANDLE_MAPPED ? handle->offset + handle->length <= handle->span
					      : form == HANDLE_POOL;

	if (share->handle_bytes != sizeof(*handle) || handle->magic != HANDLE_MAGIC || !form_ok ||
	    !memchr(handle->pci, '\0', sizeof(handle->pci)))
		return 0;
	return handle->length && handle->length <= UINT64_MAX - handle->offset;
}

/* Opens the region of a handle on every device that this process uses. If one of these devices
 * cannot read the region, opens it on none and returns an error; the peer should then send the
 * bytes instead. Returns ERR_AGAIN if no device is in use. */
static tcpx_status share_open(struct mem_share *share)
{
	const struct sys_cuda *api = sys_cuda_driver();
	struct mem_mapping *mapping;
	tcpx_status status = TCPX_OK;
	unsigned opened = 0;

	if (!api)
		return TCPX_ERR_UNSUPPORTED;
	mapping = calloc(1, sizeof(*mapping));
	if (!mapping)
		return error_set(TCPX_ERR_NO_MEMORY, 0, "mapping of GPU memory");
	memcpy(&mapping->handle, share->handle, sizeof(mapping->handle));
	mapping->same = share->same;
	mapping->fd = share->fd;
	if (!handle_ok(share, &mapping->handle)) {
		free(mapping);
		return error_set(TCPX_ERR_PROTOCOL, 0, "malformed handle of GPU memory (%u bytes)",
				 share->handle_bytes);
	}
	mapping->source = source_of(api, mapping->handle.pci);
	if (share->same && mapping->source == NOWHERE)
		status = error_set(TCPX_ERR_PROTOCOL, 0,
				   "the peer's handle names GPU %s, which does not exist",
				   mapping->handle.pci);
	for (uint32_t i = 0; i < MEM_CUDA_DEVICES && status == TCPX_OK; i++) {
		if (!mem_cuda_owner_runs(i))
			continue;
		status = open_on(mapping, i);
		opened++;
	}
	if (status == TCPX_OK && !opened)
		status = TCPX_ERR_AGAIN;
	if (status != TCPX_OK) {
		share_close(mapping);
		return status;
	}
	share->mapping = mapping;
	share->length = mapping->handle.length;
	return TCPX_OK;
}

/* Carries out a request and calls its `done`. */
static void share_op_run(struct mem_share *share)
{
	tcpx_status status = TCPX_OK;

	switch (share->op) {
	case MEM_SHARE_EXPORT:
		status = share_export(share);
		break;
	case MEM_SHARE_OPEN:
		status = share_open(share);
		if (share->fd >= 0)
			sys_fd_close(share->fd);
		break;
	case MEM_SHARE_CLOSE:
		share_close(share->mapping);
		break;
	}
	share->done(share, status);
}

/* Passes a move to the queue of the owner thread. Before the call copy->slot is an offset in the
 * region, after it an address. `base` is the region's address on the device. */
static tcpx_status map_move_start(struct mem_copy *copy, uint64_t base)
{
	copy->slot = (void *)(uintptr_t)(base + (uintptr_t)copy->slot);
	return mem_cuda_owner_move(copy);
}

/* Opens the mapping on the device of a move, and passes the move on. On an error calls the move's
 * `done`. */
static void move_late(struct mem_copy *copy)
{
	tcpx_status status = open_on(copy->from, copy->device);

	if (status == TCPX_OK)
		status = map_move_start(copy, atomic_load(&copy->from->base[copy->device]));
	if (status != TCPX_OK)
		copy->done(copy, status);
}

/* The sharing thread. Starts the moves in shares.late before it carries out requests. Ends when
 * `stop` is set and neither moves nor requests are left. */
static void *share_main(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&shares.lock);
	for (;;) {
		struct mem_copy *late = shares.late;
		struct mem_share *share = late ? NULL : shares.first;

		if (late)
			shares.late = late->next;
		if (share)
			shares.first = share->next;
		if (!late && !share && shares.stop)
			break;
		if (!late && !share) {
			pthread_cond_wait(&shares.changed, &shares.lock);
			continue;
		}
		pthread_mutex_unlock(&shares.lock);
		if (late)
			move_late(late);
		else
			share_op_run(share);
		pthread_mutex_lock(&shares.lock);
	}
	pthread_mutex_unlock(&shares.lock);
	return NULL;
}

/* Takes the lock. The first call in a forked child resets the state, because the child has neither
 * the thread nor the requests. */
static void shares_lock(void)
{
	uint32_t generation = sys_fork_generation() + 1, before = atomic_load(&shares.generation);

	if (before && before != generation) {
		pthread_mutex_init(&shares.lock, NULL);
		pthread_cond_init(&shares.changed, NULL);
		shares.running = shares.stop = 0;
		shares.first = NULL;
		shares.late = NULL;
	}
	pthread_mutex_lock(&shares.lock);
	atomic_store(&shares.generation, generation);
}

/* Starts the sharing thread if it does not run. Called under the lock. */
static tcpx_status shares_start(void)
{
	tcpx_status status;

	if (shares.running)
		return TCPX_OK;
	status = sys_thread_start(&shares.thread, "tcpx-gpu-share", share_main, NULL);
	shares.running = status == TCPX_OK;
	return status;
}

tcpx_status mem_cuda_share(struct mem_share *share)
{
	tcpx_status status;

	shares_lock();
	status = shares_start();
	if (status == TCPX_OK) {
		share->next = NULL;
		if (shares.first)
			shares.last->next = share;
		else
			shares.first = share;
		shares.last = share;
		pthread_cond_signal(&shares.changed);
	}
	pthread_mutex_unlock(&shares.lock);
	return status;
}

uint64_t mem_cuda_mapped_at(const struct mem_mapping *mapping, uint32_t device, int *out_within)
{
	*out_within = mapping->source == device;
	return device < MEM_CUDA_DEVICES
		       ? atomic_load_explicit(&mapping->base[device], memory_order_acquire)
		       : 0;
}

tcpx_status mem_cuda_move(struct mem_copy *copy)
{
	uint64_t base;
	tcpx_status status;

	if (copy->device >= MEM_CUDA_DEVICES)
		return error_set(TCPX_ERR_INVALID, 0, "no GPU %u", copy->device);
	if (!copy->from)
		return mem_cuda_owner_move(copy);
	base = atomic_load_explicit(&copy->from->base[copy->device], memory_order_acquire);
	if (base)
		return map_move_start(copy, base);
	shares_lock();
	status = shares_start();
	if (status == TCPX_OK) {
		copy->next = shares.late;
		shares.late = copy;
		pthread_cond_signal(&shares.changed);
	}
	pthread_mutex_unlock(&shares.lock);
	return status;
}

void mem_cuda_share_stop(void)
{
	pthread_t thread;
	int running;

	shares_lock();
	running = shares.running;
	thread = shares.thread;
	shares.stop = 1;
	pthread_cond_signal(&shares.changed);
	pthread_mutex_unlock(&shares.lock);
	if (running)
		pthread_join(thread, NULL);
	shares_lock();
	shares.running = shares.stop = 0;
	pthread_mutex_unlock(&shares.lock);
}
