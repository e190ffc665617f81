/* SPDX-License-Identifier: Apache-2.0 */
/* A helper's work on one chunk: sending it, receiving it into host memory, or into bounce pages. */
#include "emu.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The comm's calls answer 3 from now on: TCPXEMU_FATAL=rc, or the process has ended. */
static int die(struct emu_helper *helper, int rc)
{
	atomic_store(&helper->comm->broken, rc);
	return -1;
}

static int side_of(const struct emu_helper *helper)
{
	return helper->comm->kind == EMU_RECV ? EMU_SIDE_RECV : EMU_SIDE_SEND;
}

static uint64_t left_of(const struct emu_fault *fault, uint64_t used)
{
	if (!fault)
		return UINT32_MAX;
	return fault->bytes > used ? fault->bytes - used : 0;
}

uint32_t emu_task_allowed(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	long serial = helper->comm->serial;
	int side = side_of(helper);
	uint64_t life =
		left_of(emu_fault(EMU_FAULT_HELPER, side, serial), helper->bytes + task->done);
	uint64_t flow =
		left_of(emu_fault(EMU_FAULT_DATA_EOF, side, serial), lane->bytes + task->done);
	uint64_t most = task->size - task->done;

	if (!flow)
		shutdown(lane->fd, SHUT_RDWR);
	most = most < life ? most : life;
	return (uint32_t)(most < flow ? most : flow);
}

static int stage_get(struct emu_lane *lane, uint32_t bytes, int gpu)
{
	if (lane->stage.bytes >= bytes)
		return 0;
	emu_area_put(&lane->stage);
	return emu_area_get(&lane->stage, emu_kind_of_stage(),
			    bytes > emu_config.chunk ? bytes : emu_config.chunk, gpu);
}

/* What the kernel says of pages outside a registration: EFAULT, and the helper ends. */
static int send_begin(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	const struct emu_mr *mr = task->request->mr;
	const struct emu_fault *flip;

	if (task->type == EMU_CUDA &&
	    (task->data < mr->base || task->size > mr->bytes ||
	     task->data - mr->base > (ptrdiff_t)(mr->bytes - task->size))) {
		emu_violation(TCPXEMU_MR_RANGE, "%u bytes at %p of %zu at %p", task->size,
			      (void *)task->data, mr->bytes, (void *)mr->base);
		return -1;
	}
	flip = emu_fault(EMU_FAULT_FLIP, EMU_SIDE_SEND, helper->comm->serial);
	if (flip && flip->nth != task->number)
		flip = NULL;
	task->zero_copy = emu_config.zero_copy[task->type] &&
			  task->size >= emu_config.zero_copy[task->type] && lane->zero_ready;
	if (!mr->device_only && !flip)
		return 0;
	task->zero_copy = false; /* the block is used again */
	if (stage_get(lane, task->size, mr->gpu))
		return -1;
	if (!mr->device_only) {
		memcpy(lane->stage.host, task->data, task->size);
	} else if (!emu_cuda_read(lane->stage.host, (uintptr_t)task->data, task->size)) {
		if (!helper->flow.stream && emu_cuda_flow_open(&helper->flow, mr->gpu))
			return die(helper, EMU_CUDA_ERROR);
		if (emu_cuda_copy(&helper->flow, (uintptr_t)lane->stage.host, (uintptr_t)task->data,
				  task->size) ||
		    emu_cuda_wait(&helper->flow))
			return die(helper, EMU_CUDA_ERROR);
	}
	if (flip)
		lane->stage.host[task->size / 2] ^= 0x10;
	task->data = lane->stage.host;
	return 0;
}

int emu_task_send(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	const struct emu_fault *nobufs =
		emu_fault(EMU_FAULT_ENOBUFS, EMU_SIDE_SEND, helper->comm->serial);

	if (!task->begun && send_begin(helper, lane, task))
		return -1;
	task->begun = true;
	while (task->done < task->size) {
		bool full = nobufs && nobufs->nth && ++lane->sends % nobufs->nth == 0;
		int flags = emu_send_flags() | (task->zero_copy ? MSG_ZEROCOPY : 0);
		uint32_t most = emu_task_allowed(helper, lane, task);
		ssize_t done = full ? -1 : send(lane->fd, task->data + task->done, most, flags);

		if (!most)
			return -1;
		if (full) /* tried again at once, as there */
			continue;
		if (done < 0 && errno == EAGAIN) {
			lane->want_out = true;
			return 0;
		}
		if (done < 0 && errno == ENOBUFS && task->zero_copy) {
			/* No memory for reports: some must come, or this one goes by a copy. */
			task->zero_copy = lane->zero_done != lane->zero_sent;
			if (!task->zero_copy)
				continue;
			lane->want_report = true;
			return 0;
		}
		if (done < 0 && errno != EINTR)
			return -1;
		if (done > 0) {
			task->done += (uint32_t)done;
			lane->zero_sent += task->zero_copy;
		}
	}
	task->zero_end = lane->zero_sent;
	return 1;
}

static int host_receive(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	bool one_byte = emu_fault(EMU_FAULT_ONE_BYTE, EMU_SIDE_RECV, helper->comm->serial);

	if (lane->steered && emu_config.steer != EMU_STEER_OFF) {
		emu_violation(TCPXEMU_HOST_STEERED, "NIC %s, GPU %d: recv: Bad address",
			      emu_nic(helper->comm->dev)->name, helper->comm->gpu);
		return -1;
	}
	while (task->done < task->size) {
		uint32_t most = emu_task_allowed(helper, lane, task);
		ssize_t done =
			most ? recv(lane->fd, task->data + task->done, one_byte ? 1 : most, 0) : 0;

		if (done < 0 && errno == EAGAIN) {
			lane->want_in = true;
			return 0;
		}
		if (done == 0 || (done < 0 && errno != EINTR))
			return -1;
		if (done > 0)
			task->done += (uint32_t)done;
		atomic_fetch_add_explicit(&emu_count.reads, 1, memory_order_relaxed);
	}
	return 1;
}

/* Data of a flow without a rule has no fragments: the original ends the process there. */
static int no_fragments(struct emu_helper *helper, struct emu_lane *lane)
{
	struct emu_comm *comm = helper->comm;
	uint8_t byte;
	ssize_t some = recv(lane->fd, &byte, 1, MSG_PEEK);

	if (some < 0 && (errno == EAGAIN || errno == EINTR)) {
		lane->want_in = true;
		return 0;
	}
	if (some <= 0)
		return -1;
	return die(helper,
		   emu_violation(TCPXEMU_NO_CMSG, "NIC %s (%s), GPU %d (%s): rx no cmsg",
				 emu_nic(comm->dev)->name, emu_nic(comm->dev)->pci, comm->gpu,
				 comm->gpu < 0 ? "?" : emu_config.gpu[comm->gpu].pci));
}

/* Whether the fault of a late chunk is over, or none of this one. */
static bool on_time(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	long serial = helper->comm->serial;
	const struct emu_fault *late = emu_fault(EMU_FAULT_LATE, side_of(helper), serial);

	if (late && late->nth == task->number && !task->not_before &&
	    (late->sock == ~0ull || &helper->comm->lane[late->sock % EMU_SOCKS] == lane))
		task->not_before = emu_now() + late->ms * 1000000;
	if (task->not_before > emu_now())
		return false;
	task->not_before = 0;
	return true;
}

int emu_task_run(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	bool receives = helper->comm->kind == EMU_RECV;
	int rc;

	if (!task->begun && !on_time(helper, lane, task))
		return 0;
	if (!receives)
		rc = emu_task_send(helper, lane, task);
	else if (task->type == EMU_HOST)
		rc = host_receive(helper, lane, task);
	else if (!lane->steered)
		rc = no_fragments(helper, lane);
	else
		rc = emu_task_fill(helper, lane, task);
	if (rc > 0) {
		helper->bytes += task->size;
		lane->bytes += task->size;
	}
	return rc;
}
