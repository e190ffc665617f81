/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receiving a chunk as a NIC would leave it: in pages of the pool, one fragment a page, by one
 * scatter read over as many pages as the socket has bytes for. Pages that the CPU cannot touch are
 * filled by copies from a staging block.
 */
#include "emu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define PIECES_MAX 512
#define MTU_PAYLOAD 1448

static int lists_get(struct emu_task *task)
{
	if (!task->list)
		task->list = calloc(EMU_FRAGS, sizeof(*task->list));
	if (!task->pages)
		task->pages = calloc(EMU_FRAGS, sizeof(*task->pages));
	return task->list && task->pages ? 0 : -1;
}

/* How long the next fragment gets, and where in its page it begins. */
static uint32_t fragment_length(struct emu_helper *helper, struct emu_lane *lane, uint32_t left,
				uint32_t *out_offset)
{
	const struct emu_fault *most =
		emu_fault(EMU_FAULT_FRAGS, EMU_SIDE_RECV, helper->comm->serial);
	uint32_t len = EMU_PAGE;

	*out_offset = 0;
	if (emu_config.frag == EMU_FRAG_MTU)
		len = MTU_PAYLOAD;
	if (emu_config.frag == EMU_FRAG_RANDOM) {
		len = 1 + (uint32_t)(emu_random(&lane->rng) % EMU_PAGE);
		*out_offset = (uint32_t)(emu_random(&lane->rng) % (EMU_PAGE - len + 1));
	}
	if (most && most->bytes && len > most->bytes)
		len = (uint32_t)most->bytes;
	return len < left ? len : left;
}

static uint32_t planned(const struct emu_task *task)
{
	const struct emu_load *last;

	if (!task->frags)
		return 0;
	last = &task->list[task->frags - 1];
	return (uint32_t)(last->dst - task->offset) + last->len;
}

/* Adds fragments until bytes more are covered. 1; 0: no page; -1: too many. */
static int plan(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task,
		uint32_t bytes)
{
	uint32_t at = planned(task), end = task->done + bytes, offset, want, taken;

	while (at < end) {
		want = (end - at + EMU_PAGE - 1) / EMU_PAGE; /* or more, if they get shorter */
		if (want > EMU_FRAGS - 1 - task->frags)
			want = EMU_FRAGS - 1 - task->frags;
		if (!want)
			return -1;
		taken = emu_pool_take(helper->comm->pool, &task->pages[task->frags], want,
				      &helper->waiter);
		if (!taken)
			return at > task->done;
		for (; taken; taken--, task->frags++) {
			struct emu_load *load = &task->list[task->frags];

			load->len = fragment_length(helper, lane, task->size - at, &offset);
			load->src = task->pages[task->frags] * EMU_PAGE + offset;
			load->dst = task->offset + at;
			at += load->len;
		}
	}
	return 1;
}

/* The planned places of the bytes not yet read. */
static int pieces_of(const struct emu_task *task, uint8_t *pool, struct iovec *out, int most)
{
	uint32_t first = task->frags, at = planned(task);
	int count = 0;

	while (first && at > task->done) /* the fragment that the next byte belongs to */
		at -= task->list[--first].len;
	for (; first < task->frags && count < most; first++, count++) {
		uint32_t in = at < task->done ? task->done - at : 0;

		out[count].iov_base = pool + task->list[first].src + in;
		out[count].iov_len = task->list[first].len - in;
		at += task->list[first].len;
	}
	return count;
}

/* Bytes that wait at the socket, at most what the chunk wants; 0: none yet; -1: its end. */
static int waiting(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	uint32_t most = emu_task_allowed(helper, lane, task);
	int bytes = 0;
	uint8_t byte;
	ssize_t some;

	if (!most || ioctl(lane->fd, FIONREAD, &bytes))
		return -1;
	if (!bytes) {
		some = recv(lane->fd, &byte, 1, MSG_PEEK);
		if (some < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (some <= 0)
			return -1;
		bytes = 1;
	}
	return (uint32_t)bytes < most ? bytes : (int)most;
}

static int read_pieces(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	struct emu_area *pool = &helper->comm->pool->area;
	struct iovec pieces[PIECES_MAX];
	uint8_t *base = pool->host;
	int count;
	ssize_t done;

	if (base) {
		count = pieces_of(task, base, pieces, PIECES_MAX);
	} else {
		if (lane->stage.bytes < task->size) {
			emu_area_put(&lane->stage);
			if (emu_area_get(&lane->stage, emu_kind_of_stage(), emu_config.chunk,
					 helper->comm->gpu))
				return -1;
		}
		pieces[0].iov_base = lane->stage.host + task->done;
		pieces[0].iov_len = planned(task) - task->done;
		count = 1;
	}
	if (emu_fault(EMU_FAULT_ONE_BYTE, EMU_SIDE_RECV, helper->comm->serial)) {
		pieces[0].iov_len = 1;
		count = 1;
	}
	done = readv(lane->fd, pieces, count);
	if (done <= 0)
		return done < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
	task->done += (uint32_t)done;
	atomic_fetch_add_explicit(&emu_count.reads, 1, memory_order_relaxed);
	return 1;
}

/* Staged bytes to their pages, neighbours in the pool by one copy; back when all are there. */
static int copy_out(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	struct emu_area *pool = &helper->comm->pool->area;
	uint32_t len;

	for (uint32_t i = 0; i < task->frags; i++) {
		const struct emu_load *load = &task->list[i];

		for (len = load->len;
		     i + 1 < task->frags && task->list[i + 1].src == load->src + len; i++)
			len += task->list[i + 1].len;
		if (emu_cuda_write(pool->device + load->src,
				   lane->stage.host + (load->dst - task->offset), len))
			continue;
		if (!helper->flow.stream && emu_cuda_flow_open(&helper->flow, helper->comm->gpu))
			return -1;
		if (emu_cuda_copy(&helper->flow, pool->device + load->src,
				  (uintptr_t)lane->stage.host + (load->dst - task->offset), len))
			return -1;
	}
	return helper->flow.stream ? emu_cuda_wait(&helper->flow) : 0;
}

static int too_many(struct emu_helper *helper, const struct emu_task *task)
{
	atomic_store(&helper->comm->broken,
		     emu_violation(TCPXEMU_CHUNK_FRAGMENTS, "a chunk of %u bytes", task->size));
	return -1;
}

int emu_task_fill(struct emu_helper *helper, struct emu_lane *lane, struct emu_task *task)
{
	int bytes, rc;

	if (lists_get(task))
		return -1;
	task->begun = true;
	while (task->done < task->size) {
		bytes = waiting(helper, lane, task);
		if (bytes < 0)
			return -1;
		if (!bytes) {
			lane->want_in = true;
			return 0;
		}
		rc = plan(helper, lane, task, (uint32_t)bytes);
		if (rc < 0)
			return too_many(helper, task);
		if (rc == 0) {
			emu_stats_stall();
			return 0; /* the pool wakes the helper */
		}
		if (read_pieces(helper, lane, task) < 0)
			return -1;
	}
	if (!helper->comm->pool->area.host && copy_out(helper, lane, task)) {
		atomic_store(&helper->comm->broken, EMU_CUDA_ERROR);
		return -1;
	}
	return 1;
}
