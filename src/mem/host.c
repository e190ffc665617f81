/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory, which is a direct kind (kind.h), and the table of kinds in this build. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/cuda_kind.h"
#include "mem/kind.h"
#include "sys/user.h"

static tcpx_status host_probe(void *addr, uint64_t length, uint32_t device, uint64_t *out_id)
{
	(void)addr;
	(void)length;
	*out_id = 0;
	if (device)
		return error_set(TCPX_ERR_INVALID, 0, "host memory has device 0 only, not %u",
				 device);
	return TCPX_OK;
}

/* Copies at once and calls `done` before it returns: mem_kind.fill and mem_kind.commit of host
 * memory. Host memory needs no slot, but with these functions a caller may treat it like a staged
 * kind. */
static tcpx_status host_copy(struct mem_copy *copy, int to_slot)
{
	copy->to_slot = to_slot;
	copy->done(copy, mem_copy_run(copy));
	return TCPX_OK;
}

static tcpx_status host_fill(struct mem_copy *copy)
{
	return host_copy(copy, 1);
}

static tcpx_status host_commit(struct mem_copy *copy)
{
	return host_copy(copy, 0);
}

void *mem_slot_alloc(size_t bytes, uint32_t device)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	void *slot = NULL;

	(void)device;
	if (bytes <= SIZE_MAX - page)
		slot = aligned_alloc(page, (bytes + page - 1) & ~(page - 1));
	if (!slot)
		error_set(TCPX_ERR_NO_MEMORY, 0, "slots of %zu bytes", bytes);
	return slot;
}

void mem_slot_free(void *slot, size_t bytes, uint32_t device)
{
	(void)bytes;
	(void)device;
	free(slot);
}

/* Copies one piece to or from its place in the slot. Returns 0 if a part of the piece is no longer
 * mapped. Only the system calls for `vanishing` memory report this; memcpy would crash. */
static int piece_move(const struct mem_copy *copy, const struct mem_piece *piece, uint8_t *slot)
{
	if (copy->vanishing && copy->to_slot)
		return sys_user_read(slot, piece->addr, piece->length) == piece->length;
	if (copy->vanishing)
		return sys_user_write(piece->addr, slot, piece->length) == piece->length;
	if (copy->to_slot)
		memcpy(slot, piece->addr, piece->length);
	else
		memcpy(piece->addr, slot, piece->length);
	return 1;
}

tcpx_status mem_copy_run(const struct mem_copy *copy)
{
	uint8_t *slot = copy->slot;

	for (uint32_t i = 0; i < copy->npieces; i++) {
		if (!piece_move(copy, &copy->pieces[i], slot))
			return TCPX_ERR_INVALID;
		slot += copy->pieces[i].length;
	}
	return TCPX_OK;
}

static const struct mem_kind mem_host = {
	.name = "host",
	.kind = TCPX_MEM_HOST,
	.staged = 0,
	.mapped = 1,
	.probe = host_probe,
	.fill = host_fill,
	.commit = host_commit,
	.slot_alloc = mem_slot_alloc,
	.slot_free = mem_slot_free,
};

const struct mem_kind *mem_test_kind;

const struct mem_kind *mem_kind_get(enum tcpx_mem_kind kind)
{
	switch (kind) {
	case TCPX_MEM_HOST:
		return &mem_host;
	case TCPX_MEM_CUDA:
		return &mem_cuda;
	default:
		return kind == MEM_KIND_TEST ? mem_test_kind : NULL;
	}
}

_Atomic int mem_busy_sessions;
void (*_Atomic mem_gpu_thread)(const char *pci);

void mem_gpu_thread_starts(const char *pci)
{
	void (*place)(const char *) = atomic_load(&mem_gpu_thread);

	if (place)
		place(pci);
}

void mem_kinds_stop(void)
{
	static const enum tcpx_mem_kind kinds[] = {TCPX_MEM_HOST, TCPX_MEM_CUDA, MEM_KIND_TEST};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct mem_kind *kind = mem_kind_get(kinds[i]);

		if (kind && kind->stop)
			kind->stop();
	}
}
