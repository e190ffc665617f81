/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory mapped with cuMemMap, shared between processes: finds the bounds of mappings, exports
 * their descriptors, and maps the descriptors of another process. */
#include "mem/cuda_share_map.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/error.h"
#include "sys/fd.h"
#include "sys/fd_pass.h"

/* An allocation of the application; a reference to it is held while its mapping is examined. */
struct found {
	const struct sys_cuda *api;
	cuda_alloc alloc;
	uint64_t step; /* granularity of mappings in bytes */
};

/* Mappings of one message: their descriptors, and their lengths, which are the message's bytes. */
struct batch {
	uint32_t count;
	int fds[SYS_FD_PASS_MAX];
	uint64_t bytes[SYS_FD_PASS_MAX];
};

/* *out_mapped is 1 if cuMemRetainAllocationHandle should succeed at this address: memory is mapped
 * there that belongs neither to a context nor to a CUDA memory pool. Returns the driver's error;
 * that there is no memory at the address is no error. */
static cuda_result is_mapped_at(const struct sys_cuda *api, cuda_ptr at, int *out_mapped)
{
	static const int names[] = {CUDA_POINTER_CONTEXT, CUDA_POINTER_MAPPED,
				    CUDA_POINTER_MEMPOOL};
	cuda_ctx ctx = NULL;
	void *pool = NULL;
	int mapped = 0;
	void *outs[] = {&ctx, &mapped, &pool};
	cuda_result result = api->pointer_attributes(3, names, outs, at);

	*out_mapped = result == CUDA_OK && mapped && !ctx && !pool;
	return result == CUDA_ERR_INVALID_VALUE ? CUDA_OK : result;
}

/*
 * *out_same is 1 if the allocation of `found` is mapped at this address too. If the driver cannot
 * tell although memory is mapped there, returns the driver's error. The caller must not take this
 * for the end of the mapping: the region's offset would be wrong, and the peer would read wrong
 * bytes.
 */
static cuda_result is_same_at(const struct found *found, cuda_ptr at, int *out_same)
{
	cuda_alloc other = 0;
	cuda_result result = found->api->vmm_retain(&other, (void *)(uintptr_t)at), asked;
	int mapped;

	*out_same = result == CUDA_OK && other == found->alloc;
	if (result == CUDA_OK) {
		(void)found->api->vmm_release(other);
		return CUDA_OK;
	}
	asked = is_mapped_at(found->api, at, &mapped);
	return asked == CUDA_OK && mapped ? result : asked;
}

/* Finds the start of the mapping around `addr`. A mapping ends where another allocation or no
 * memory is mapped. The range that the driver reports is not used: it is the whole reservation in
 * some driver versions and the mapping in others. */
static cuda_result find_start(const struct found *found, cuda_ptr addr, cuda_ptr *out_start)
{
	cuda_ptr start = addr - addr % found->step;
	cuda_result result = CUDA_OK;
	int same = 1;

	while (result == CUDA_OK && same && start >= found->step) {
		result = is_same_at(found, start - found->step, &same);
		if (result == CUDA_OK && same)
			start -= found->step;
	}
	*out_start = start;
	return result;
}

/* Finds the end of the mapping that starts at `start`, as find_start does. */
static cuda_result find_end(const struct found *found, cuda_ptr start, cuda_ptr *out_end)
{
	cuda_ptr end = start + found->step;
	cuda_result result = CUDA_OK;
	int same = 1;

	while (result == CUDA_OK && same) {
		result = is_same_at(found, end, &same);
		if (result == CUDA_OK && same)
			end += found->step;
	}
	*out_end = end;
	return result;
}

/* Takes a reference to the allocation that is mapped at `at` and sets found->step. Returns
 * ERR_UNSUPPORTED if the application created the allocation without a handle for other
 * processes. */
static tcpx_status found_open(struct found *found, cuda_ptr at)
{
	struct cuda_alloc_prop prop;
	cuda_result result = found->api->vmm_retain(&found->alloc, (void *)(uintptr_t)at);
	size_t step = 0;

	if (result != CUDA_OK)
		return sys_cuda_error(result, "handle of mapped GPU memory");
	result = found->api->vmm_properties(&prop, found->alloc);
	if (result == CUDA_OK)
		result = found->api->vmm_granularity(&step, &prop, CUDA_GRANULARITY_MINIMUM);
	found->step = step;
	if (result == CUDA_OK && step && prop.handle_types & CUDA_HANDLE_FD)
		return TCPX_OK;
	(void)found->api->vmm_release(found->alloc);
	if (result != CUDA_OK || !step)
		return sys_cuda_error(result ? result : CUDA_ERR_UNKNOWN,
				      "properties of mapped GPU memory");
	error_set(TCPX_ERR_UNSUPPORTED, 0,
		  "mapped GPU memory was made without a handle for other processes");
	return error_next("ask cuMemCreate for CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; in "
			  "PyTorch, PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False");
}

static void batch_close(struct batch *batch)
{
	while (batch->count)
		sys_fd_close(batch->fds[--batch->count]);
}

/* Puts the mappings into the socket as one message, and closes their descriptors. */
static tcpx_status batch_send(struct batch *batch, int sock)
{
	int err = sys_fd_pass(sock, batch->bytes, batch->count * sizeof(batch->bytes[0]),
			      batch->fds, batch->count)
			  ? errno
			  : 0;

	batch_close(batch);
	if (!err)
		return TCPX_OK;
	if (err == ETOOMANYREFS)
		return error_set(TCPX_ERR_NO_DESCRIPTORS, err, "descriptors of mapped GPU memory");
	error_set(TCPX_ERR_LIMIT, err, "the region lies in too many mappings");
	return error_next("register smaller regions");
}

/* Adds the mapping that starts at `at` to the batch; a full batch is sent first. *out_end is the
 * end of the mapping. */
static tcpx_status export_one(struct found *found, cuda_ptr at, struct batch *batch, int sock,
			      cuda_ptr *out_end)
{
	tcpx_status status = TCPX_OK;
	cuda_result result;
	int fd = -1;

	if (batch->count == SYS_FD_PASS_MAX)
		status = batch_send(batch, sock);
	if (status == TCPX_OK)
		status = found_open(found, at);
	if (status != TCPX_OK)
		return status;
	result = find_end(found, at, out_end);
	if (result != CUDA_OK)
		status = sys_cuda_error(result, "bounds of mapped GPU memory");
	else
		result = found->api->vmm_export(&fd, found->alloc, CUDA_HANDLE_FD, 0);
	(void)found->api->vmm_release(found->alloc);
	if (status != TCPX_OK)
		return status;
	if (result != CUDA_OK)
		return sys_cuda_error(result, "descriptor of mapped GPU memory");
	batch->bytes[batch->count] = *out_end - at;
	batch->fds[batch->count++] = fd;
	return TCPX_OK;
}

/* Puts the mappings from `start` to the one that contains the byte before `end` into the socket.
 * *out_end is the end of the last. */
static tcpx_status export_all(struct found *found, cuda_ptr start, cuda_ptr end, int sock,
			      cuda_ptr *out_end)
{
	struct batch batch = {0};
	tcpx_status status = TCPX_OK;
	cuda_ptr at = start;

	while (status == TCPX_OK && at < end)
		status = export_one(found, at, &batch, sock, &at);
	if (status == TCPX_OK)
		status = batch_send(&batch, sock);
	batch_close(&batch);
	*out_end = at;
	return status;
}

/* Opens the two ends of the socket. */
static tcpx_status ends_open(int socks[2])
{
	int rc, err;

	sys_fd_begin();
	rc = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, socks);
	err = errno;
	if (!rc)
		sys_fd_own(socks[1]);
	sys_fd_end(rc ? -1 : socks[0]);
	if (!rc)
		return TCPX_OK;
	return error_set(err == EMFILE || err == ENFILE ? TCPX_ERR_NO_DESCRIPTORS : TCPX_ERR_SYSTEM,
			 err, "socketpair");
}

tcpx_status mem_cuda_map_export(const struct sys_cuda_gpu *gpu, cuda_ptr addr, uint64_t length,
				uint64_t *out_offset, uint64_t *out_span, int *out_fd)
{
	struct found found = {.api = gpu->api};
	cuda_ptr start = 0, end = 0;
	cuda_result result;
	tcpx_status status = found_open(&found, addr);
	int socks[2];

	if (status != TCPX_OK)
		return status;
	result = find_start(&found, addr, &start);
	(void)gpu->api->vmm_release(found.alloc);
	if (result != CUDA_OK)
		return sys_cuda_error(result, "bounds of mapped GPU memory");
	status = ends_open(socks);
	if (status != TCPX_OK)
		return status;
	status = export_all(&found, start, addr + length, socks[0], &end);
	sys_fd_close(socks[0]);
	if (status != TCPX_OK) {
		sys_fd_close(socks[1]);
		return status;
	}
	*out_offset = addr - start;
	*out_span = end - start;
	*out_fd = socks[1];
	return TCPX_OK;
}

/* Maps `bytes` bytes of the memory of a descriptor at a reserved address. No device has access to
 * the memory yet. */
static tcpx_status map_one(const struct sys_cuda *api, int fd, cuda_ptr at, uint64_t bytes)
{
	cuda_alloc alloc = 0;
	cuda_result result =
		/* the driver takes fd by value */
		api->vmm_import(&alloc, (void *)(intptr_t)fd, CUDA_HANDLE_FD);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "mapped GPU memory of another process");
	result = api->vmm_map(at, bytes, 0, alloc, 0);
	(void)api->vmm_release(alloc); /* the mapping holds a reference */
	return result == CUDA_OK ? TCPX_OK
				 : sys_cuda_error(result, "mapping GPU memory of another process");
}

/* Receives the next message of mappings. */
static tcpx_status batch_receive(struct batch *batch, int sock)
{
	ssize_t got = sys_fd_pass_recv(sock, batch->bytes, sizeof(batch->bytes), batch->fds,
				       SYS_FD_PASS_MAX, &batch->count);

	if (got < 0 && errno == EMFILE)
		return error_set(TCPX_ERR_AGAIN, errno, "descriptors of mapped GPU memory");
	if (got > 0 && (size_t)got == batch->count * sizeof(batch->bytes[0]))
		return TCPX_OK;
	return error_set(TCPX_ERR_PROTOCOL, got < 0 ? errno : 0,
			 "the peer did not pass its mappings of GPU memory");
}

/* Receives the mappings and maps them from `base` on, until they fill `span` bytes. *out_mapped is
 * the number of bytes that are mapped, also after an error. */
static tcpx_status map_all(const struct sys_cuda *api, int sock, cuda_ptr base, uint64_t span,
			   uint64_t *out_mapped)
{
	tcpx_status status = TCPX_OK;
	struct batch batch;
	uint64_t at = 0;

	while (status == TCPX_OK && at < span) {
		status = batch_receive(&batch, sock);
		for (uint32_t i = 0; i < batch.count; i++) {
			uint64_t bytes = batch.bytes[i];

			if (status == TCPX_OK && (!bytes || bytes > span - at))
				status = error_set(TCPX_ERR_PROTOCOL, 0,
						   "the peer's mappings of GPU memory are not as "
						   "long as it announced");
			if (status == TCPX_OK)
				status = map_one(api, batch.fds[i], base + at, bytes);
			if (status == TCPX_OK)
				at += bytes;
			sys_fd_close(batch.fds[i]);
		}
	}
	*out_mapped = at;
	return status;
}

/* Reserves addresses for `span` bytes and maps the peer's mappings there. */
static tcpx_status map_import(const struct sys_cuda *api, int sock, uint64_t span,
			      cuda_ptr *out_base)
{
	uint64_t mapped = 0;
	tcpx_status status;
	cuda_ptr base = 0;
	cuda_result result = api->vmm_reserve(&base, span, 0, 0, 0);

	if (result != CUDA_OK)
		return sys_cuda_error(result, "addresses for GPU memory of another process");
	status = map_all(api, sock, base, span, &mapped);
	if (status == TCPX_OK) {
		*out_base = base;
		return TCPX_OK;
	}
	if (mapped)
		(void)api->vmm_unmap(base, mapped);
	(void)api->vmm_unreserve(base, span);
	return status;
}

tcpx_status mem_cuda_map_open(const struct sys_cuda_gpu *gpu, int fd, uint64_t span,
			      cuda_ptr *inout_base)
{
	const struct cuda_access access = {.location = {CUDA_LOCATION_DEVICE, gpu->device},
					   .flags = CUDA_ACCESS_READ_WRITE};
	cuda_ptr base = *inout_base;
	tcpx_status status = TCPX_OK;
	cuda_result result;

	if (!base)
		status = map_import(gpu->api, fd, span, &base);
	if (status != TCPX_OK)
		return status;
	result = gpu->api->vmm_access(base, span, &access, 1);
	if (result != CUDA_OK) {
		if (!*inout_base)
			mem_cuda_map_close(gpu->api, base, span);
		return sys_cuda_error(result, "access to mapped GPU memory of another process");
	}
	*inout_base = base;
	return TCPX_OK;
}

void mem_cuda_map_close(const struct sys_cuda *api, cuda_ptr base, uint64_t span)
{
	(void)api->vmm_unmap(base, span);
	(void)api->vmm_unreserve(base, span);
}
