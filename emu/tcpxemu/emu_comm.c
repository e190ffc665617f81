/* SPDX-License-Identifier: Apache-2.0 */
/* Comms: their life, who is in one, their registrations and device queue. */
#include "emu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MR_MAX ((size_t)1 << 31)

static pthread_mutex_t refs_lock = PTHREAD_MUTEX_INITIALIZER;
static struct emu_ref *refs;

struct emu_ref *emu_ref_new(enum emu_kind kind)
{
	struct emu_ref *ref = calloc(1, sizeof(*ref));

	if (!ref)
		return NULL;
	ref->kind = kind;
	ref->data_fd = ref->ctrl_fd = -1;
	pthread_mutex_lock(&refs_lock);
	ref->next = refs;
	refs = ref;
	pthread_mutex_unlock(&refs_lock);
	return ref;
}

/* All of them, newest first; the caller gives the lock back. */
struct emu_ref *emu_refs(pthread_mutex_t **out_lock)
{
	pthread_mutex_lock(&refs_lock);
	*out_lock = &refs_lock;
	return refs;
}

struct emu_comm *emu_comm_new(enum emu_kind kind, int dev, int gpu)
{
	static _Atomic long made[EMU_RECV + 1];
	struct emu_comm *comm = calloc(1, sizeof(*comm));
	uint64_t number;

	if (!comm)
		return NULL;
	number = atomic_fetch_add(&emu_count.comms_made, 1);
	comm->kind = kind;
	comm->dev = dev;
	comm->gpu = comm->gpu_accept = gpu;
	comm->serial = atomic_fetch_add(&made[kind], 1);
	comm->ctrl_fd = -1;
	for (int i = 0; i < EMU_SOCKS; i++) {
		comm->lane[i].fd = -1;
		comm->lane[i].rng = emu_config.seed * 1000003 + number * 16 + (uint64_t)i;
	}
	for (int i = 0; i < EMU_THREADS; i++) {
		comm->helper[i].comm = comm;
		comm->helper[i].id = i;
		comm->helper[i].wake_fd = -1;
	}
	emu_stats_comms(1);
	return comm;
}

static void tasks_free(struct emu_comm *comm)
{
	for (int i = 0; i < EMU_SOCKS; i++) {
		struct emu_lane *lane = &comm->lane[i];

		for (unsigned t = 0; t < EMU_TASKS; t++) {
			struct emu_task *task = &lane->task[t];

			/* Of chunks that were never retired. */
			if (task->frags)
				emu_pool_give(comm->pool, task->pages, task->frags);
			free(task->list);
			free(task->pages);
		}
		emu_area_put(&lane->stage);
		if (lane->fd >= 0)
			close(lane->fd);
	}
}

void emu_comm_free(struct emu_comm *comm)
{
	emu_helpers_stop(comm);
	if (comm->ctrl_fd >= 0)
		close(comm->ctrl_fd);
	for (int i = 0; comm->kind == EMU_RECV && i < comm->socks; i++) {
		if (comm->lane[i].fd >= 0)
			emu_unsteer_socket(comm->lane[i].fd, comm->gpu);
	}
	tasks_free(comm);
	emu_queue_free(comm);
	free(comm);
	emu_stats_comms(-1);
}

struct emu_comm *emu_comm_enter(void *opaque, enum emu_kind kind, int *out_rc)
{
	struct emu_ref *ref = opaque;
	struct emu_comm *comm;

	if (!ref || ref->kind != kind || (!ref->comm && !atomic_load(&ref->dead))) {
		*out_rc = emu_violation(TCPXEMU_NULL_COMM, "no comm of this kind");
		return NULL;
	}
	if (atomic_load(&ref->dead)) {
		*out_rc = emu_violation(TCPXEMU_DEAD_COMM, "closed before");
		return NULL;
	}
	comm = ref->comm;
	if (atomic_exchange(&comm->busy, 1)) {
		*out_rc = emu_violation(TCPXEMU_THREADS, "another thread is in this comm");
		return NULL;
	}
	*out_rc = atomic_load(&comm->broken);
	if (*out_rc) {
		atomic_store(&comm->busy, 0);
		return NULL;
	}
	return comm;
}

int emu_comm_leave(struct emu_comm *comm, int rc)
{
	atomic_store(&comm->busy, 0);
	return rc;
}

static void delay_reg(const struct emu_ref *ref)
{
	const struct emu_comm *comm = ref->comm;
	const struct emu_fault *delay =
		emu_fault(EMU_FAULT_REG_DELAY,
			  ref->kind == EMU_SEND ? EMU_SIDE_SEND : EMU_SIDE_RECV, comm->serial);

	if (delay)
		emu_sleep_us((unsigned)delay->ms * 1000);
}

int emu_comm_regmr(void *opaque, void *data, size_t bytes, int type, void **out)
{
	struct emu_ref *ref = opaque;
	struct emu_mr *mr;
	int gpu = emu_gpu_current(), owner = -1, device_only;

	if (!ref || ref->kind == EMU_LISTEN)
		return emu_violation(TCPXEMU_NULL_COMM, "regMr without a comm");
	if (atomic_load(&ref->dead))
		return emu_violation(TCPXEMU_DEAD_COMM, "regMr after close");
	if (type != EMU_HOST && (type != EMU_CUDA || !emu_flavour.device))
		return emu_violation(TCPXEMU_MR_TYPE, "regMr of type %d", type);
	device_only = type == EMU_CUDA && emu_cuda_range(data, bytes, &owner);
	if (type == EMU_CUDA && (uintptr_t)data % EMU_PAGE)
		return emu_violation(TCPXEMU_MR_ALIGN, "regMr of %p", data);
	if (type == EMU_CUDA && (!bytes || bytes % EMU_PAGE || bytes >= MR_MAX))
		return emu_violation(TCPXEMU_MR_SIZE,
				     "regMr of %zu bytes; the original also closes descriptor 0",
				     bytes);
	if (type == EMU_CUDA && owner >= 0 && owner != gpu)
		return emu_violation(TCPXEMU_MR_OWNER, "memory of GPU %d, current is %d", owner,
				     gpu);
	atomic_fetch_add(&emu_count.regs, 1);
	delay_reg(ref);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return EMU_SYSTEM;
	*mr = (struct emu_mr){data, bytes, type, gpu, device_only};
	*out = mr;
	return EMU_OK;
}

int emu_comm_deregmr(void *opaque, void *mr)
{
	(void)opaque;
	free(mr);
	return EMU_OK;
}

int emu_queue_new(struct emu_comm *comm, struct emu_device_handle *out)
{
	struct emu_device_queue words = {.head = ~0ull};
	struct emu_queue *queue = calloc(1, sizeof(*queue));
	struct emu_flow flow = {.gpu = comm->gpu_accept};
	struct emu_pool *bounce;
	int rc = emu_pool_import(comm->gpu_accept, &bounce);

	if (rc) {
		free(queue);
		return rc;
	}
	if (comm->gpu_accept != comm->gpu)
		emu_violation(TCPXEMU_GPU_MISMATCH, "listen with GPU %d, accept with GPU %d",
			      comm->gpu, comm->gpu_accept);
	comm->pool = emu_pool_get(comm->gpu);
	comm->queue = queue;
	if (!queue || !comm->pool ||
	    emu_area_get(&queue->meta, emu_kind_of_meta(), sizeof(struct emu_meta),
			 comm->gpu_accept) ||
	    emu_area_get(&queue->device, emu_kind_of_queue(), sizeof(words), comm->gpu_accept))
		return EMU_SYSTEM;
	queue->at = (struct emu_meta *)(void *)queue->meta.host;
	words.meta = queue->meta.device;
	words.bounce = bounce->area.device;
	if (queue->device.host) {
		memcpy(queue->device.host, &words, sizeof(words));
	} else {
		rc = emu_cuda_flow_open(&flow, flow.gpu);
		if (!rc)
			rc = emu_cuda_copy(&flow, queue->device.device, (uintptr_t)&words,
					   sizeof(words));
		if (!rc)
			rc = emu_cuda_wait(&flow);
		emu_cuda_flow_close(&flow);
	}
	*out = (struct emu_device_handle){EMU_UNPACK, EMU_UNPACK_VERSION,
					  (void *)(uintptr_t)queue->device.device, sizeof(words),
					  1};
	return rc ? EMU_CUDA_ERROR : EMU_OK;
}

void emu_queue_free(struct emu_comm *comm)
{
	struct emu_queue *queue = comm->queue;

	if (!queue)
		return;
	for (unsigned i = 0; i < EMU_SLOTS * EMU_SOCKS; i++) {
		struct emu_tokens *tokens = &queue->slot[i / EMU_SOCKS][i % EMU_SOCKS];

		emu_pool_give(comm->pool, tokens->page, tokens->count);
		free(tokens->page);
	}
	emu_pool_lose(comm->pool, -(long)queue->lost.count);
	emu_pool_give(comm->pool, queue->lost.page, queue->lost.count);
	free(queue->lost.page);
	emu_area_put(&queue->meta);
	emu_area_put(&queue->device);
	free(queue);
	comm->queue = NULL;
}

int emu_comm_close(void *opaque)
{
	struct emu_ref *ref = opaque;
	struct emu_comm *comm;

	if (!ref)
		return EMU_OK;
	if (ref->kind == EMU_LISTEN)
		return emu_violation(TCPXEMU_NULL_COMM, "close of a listen comm as a comm");
	pthread_mutex_lock(&refs_lock);
	comm = atomic_load(&ref->dead) ? NULL : ref->comm;
	if (comm) {
		ref->bytes = comm->bytes;
		ref->messages = comm->messages;
		ref->frags = comm->frags;
		atomic_store(&ref->dead, true);
	}
	pthread_mutex_unlock(&refs_lock);
	if (!comm)
		return emu_violation(TCPXEMU_DEAD_COMM, "closed twice");
	/* One that was never told to be done cannot be consumed, nor one of a broken comm. */
	if (comm->queue && !comm->failed && comm->stage[EMU_RETIRED] != comm->stage[EMU_INACTIVE])
		emu_violation(TCPXEMU_UNCONSUMED, "done %llu, consumed %llu",
			      (unsigned long long)comm->stage[EMU_INACTIVE],
			      (unsigned long long)comm->stage[EMU_RETIRED]);
	emu_comm_free(comm);
	tcpxemu_write_stats();
	return EMU_OK;
}
