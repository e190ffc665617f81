/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test call moves: it retires finished chunks, makes one posted request active, and gives
 * chunks of the oldest active request to the helpers. Nothing moves without it.
 */
#include "emu.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { MESSAGE_NORMAL, MESSAGE_INLINE };

static bool tokens_add(struct emu_tokens *tokens, const uint32_t *pages, uint32_t count)
{
	uint32_t room = tokens->room ? tokens->room : 128;
	uint32_t *more;

	if (!count)
		return true;
	while (room < tokens->count + count)
		room *= 2;
	if (room != tokens->room) {
		more = realloc(tokens->page, room * sizeof(*more));
		if (!more)
			return false;
		tokens->page = more;
		tokens->room = room;
	}
	memcpy(tokens->page + tokens->count, pages, count * sizeof(*pages));
	tokens->count += count;
	return true;
}

/* The pages of a chunk stay the slot's, unless a later chunk of its socket made it forget them. */
static bool retire_pages(struct emu_comm *comm, const struct emu_task *task, int lane)
{
	struct emu_queue *queue = comm->queue;

	if (task->number == queue->last[task->slot][lane] || !emu_config.leak)
		return tokens_add(&queue->slot[task->slot][lane], task->pages, task->frags);
	emu_pool_lose(comm->pool, (long)task->frags);
	return tokens_add(&queue->lost, task->pages, task->frags);
}

/* A further chunk of a slot on a socket: the count of its tokens begins at 0 again. */
static void forget_pages(struct emu_comm *comm, unsigned slot, int lane)
{
	struct emu_tokens *tokens = &comm->queue->slot[slot][lane];

	if (!emu_config.leak || !tokens->count)
		return;
	if (!tokens_add(&comm->queue->lost, tokens->page, tokens->count))
		return;
	emu_pool_lose(comm->pool, (long)tokens->count);
	tokens->count = 0;
}

static int retire(struct emu_comm *comm, int at)
{
	struct emu_lane *lane = &comm->lane[at];
	uint32_t finished = atomic_load_explicit(&lane->finished, memory_order_acquire);
	uint32_t retired = atomic_load_explicit(&lane->retired, memory_order_relaxed);

	for (; retired != finished; retired++) {
		struct emu_task *task = &lane->task[retired % EMU_TASKS];
		struct emu_request *request = task->request;
		uint32_t room;

		request->pending -= task->size;
		if (comm->queue && task->frags) {
			room = request->frags < EMU_FRAGS ? EMU_FRAGS - request->frags : 0;
			memcpy(&comm->queue->at->mem[task->slot][request->frags % EMU_FRAGS],
			       task->list,
			       (task->frags < room ? task->frags : room) * sizeof(*task->list));
			request->frags += task->frags;
			atomic_fetch_add(&emu_count.fragments, task->frags);
			atomic_fetch_add(&comm->frags, task->frags);
			if (!retire_pages(comm, task, at))
				return EMU_SYSTEM;
			task->frags = 0;
		}
		atomic_store_explicit(&lane->retired, retired + 1, memory_order_release);
	}
	return EMU_OK;
}

/* A copy that has not finished reads this instead of its bytes. */
static void poison(struct emu_comm *comm, const struct emu_tokens *tokens)
{
	struct emu_area *pool = &comm->pool->area;
	struct emu_flow flow = {.gpu = comm->gpu};

	if (pool->host) {
		for (uint32_t i = 0; i < tokens->count; i++)
			memset(pool->host + (size_t)tokens->page[i] * EMU_PAGE, 0xa5, EMU_PAGE);
	} else if (tokens->count && !emu_cuda_flow_open(&flow, flow.gpu)) {
		for (uint32_t i = 0; i < tokens->count; i++)
			emu_cuda_set(&flow, pool->device + (uint64_t)tokens->page[i] * EMU_PAGE,
				     0xa5, EMU_PAGE);
		emu_cuda_wait(&flow);
		emu_cuda_flow_close(&flow);
	}
}

void emu_slot_recycle(struct emu_comm *comm, unsigned slot)
{
	for (int lane = 0; lane < comm->socks; lane++) {
		struct emu_tokens *tokens = &comm->queue->slot[slot][lane];

		if (emu_config.poison)
			poison(comm, tokens);
		emu_pool_give(comm->pool, tokens->page, tokens->count);
		tokens->count = 0;
	}
}

/* Bytes of a control socket: all, or 0 if none moves; -1: it is broken. Begun ones are finished. */
static int ctrl_out(struct emu_comm *comm, const void *buf, size_t bytes)
{
	const uint8_t *at = buf;
	struct pollfd poller = {.fd = comm->ctrl_fd, .events = POLLOUT};
	size_t left = bytes;

	while (left) {
		ssize_t done = send(comm->ctrl_fd, at, left, emu_send_flags());

		if (done < 0 && errno != EAGAIN && errno != EINTR)
			return -1;
		if (done < 0 && left == bytes)
			return 0;
		if (done < 0) {
			poll(&poller, 1, -1);
			continue;
		}
		at += done;
		left -= (size_t)done;
	}
	return (int)bytes;
}

/* 1: buf is full; 0: not yet, have says how far; -1: broken or at its end. */
static int ctrl_in(struct emu_comm *comm, void *buf, size_t bytes, size_t *have)
{
	ssize_t done = recv(comm->ctrl_fd, (uint8_t *)buf + *have, bytes - *have, 0);

	if (done < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (!done)
		return -1;
	*have += (size_t)done;
	if (*have < bytes)
		return 0;
	*have = 0;
	return 1;
}

int emu_link(struct emu_comm *comm)
{
	uint8_t word = 1;
	size_t have = 0;
	int rc;

	if (comm->up)
		return EMU_OK;
	if (comm->kind == EMU_SEND && !comm->asked) {
		rc = ctrl_out(comm, &word, sizeof(word));
		comm->asked = rc > 0;
		return rc < 0 ? EMU_SYSTEM : EMU_OK;
	}
	rc = ctrl_in(comm, &word, sizeof(word), &have);
	if (rc > 0 && comm->kind == EMU_RECV)
		rc = ctrl_out(comm, &word, sizeof(word));
	comm->up = rc > 0;
	return rc < 0 ? EMU_SYSTEM : EMU_OK;
}

static int activate(struct emu_comm *comm)
{
	uint32_t index = (uint32_t)comm->stage[EMU_ACTIVE];
	int rc;

	if (comm->stage[EMU_ACTIVE] == comm->stage[EMU_POSTED])
		return EMU_OK;
	if (emu_config.recv_sync) {
		rc = comm->kind == EMU_RECV
			     ? ctrl_out(comm, &index, sizeof(index))
			     : ctrl_in(comm, &comm->sync_in, sizeof(index), &comm->sync_have);
		if (rc <= 0)
			return rc ? EMU_SYSTEM : EMU_OK;
		if (comm->kind == EMU_SEND && comm->sync_in != index)
			EMU_WARN("TCPXEMU: recv sync mismatch: %u, peer %u", index, comm->sync_in);
	}
	comm->stage[EMU_ACTIVE]++;
	return EMU_OK;
}

static unsigned outstanding(const struct emu_lane *lane)
{
	return atomic_load_explicit(&lane->queued, memory_order_relaxed) -
	       atomic_load_explicit(&lane->retired, memory_order_relaxed);
}

static bool lane_free(const struct emu_lane *lane)
{
	return outstanding(lane) < EMU_TASKS;
}

static void push(struct emu_comm *comm, struct emu_request *request, int at, uint32_t size)
{
	struct emu_lane *lane = &comm->lane[at];
	struct emu_task *task = &lane->task[lane->queued % EMU_TASKS];

	task->request = request;
	task->data = request->data + request->offset;
	task->size = size;
	task->offset = request->offset;
	task->type = request->type;
	task->slot = request->slot;
	task->number = ++lane->tasks;
	task->done = task->frags = 0;
	task->not_before = 0;
	task->begun = false;
	if (comm->queue && request->slot >= 0) {
		forget_pages(comm, (unsigned)request->slot, at);
		comm->queue->last[request->slot][at] = task->number;
	}
	request->offset += size;
	if (request->offset == request->size)
		comm->stage[EMU_SENT]++;
	emu_lane_push(comm, at);
}

/* The control socket's end, as a fault, after so many messages. */
static void maybe_end_ctrl(struct emu_comm *comm, int side)
{
	const struct emu_fault *fault = emu_fault(EMU_FAULT_CTRL_EOF, side, comm->serial);

	if (fault && ++comm->ctrl_messages == fault->nth)
		shutdown(comm->ctrl_fd, SHUT_RDWR);
}

static int announce(struct emu_comm *comm, struct emu_request *request, int type, int lane,
		    uint32_t size)
{
	struct emu_message message = {(uint16_t)type, (uint16_t)lane, size, request->offset,
				      request->size};
	int rc = ctrl_out(comm, &message, sizeof(message));

	if (rc > 0)
		maybe_end_ctrl(comm, EMU_SIDE_SEND);
	return rc;
}

/* The next socket to use after the last one, or the least loaded; -1: none has room. */
static int pick(const struct emu_comm *comm)
{
	int best = -1;

	for (int i = 1; i <= comm->socks; i++) {
		int at = (comm->last_lane + i) % comm->socks;

		if (!lane_free(&comm->lane[at]))
			continue;
		if (!emu_config.katy)
			return at;
		if (best < 0 || outstanding(&comm->lane[at]) < outstanding(&comm->lane[best]))
			best = at;
	}
	return best;
}

static int send_some(struct emu_comm *comm, struct emu_request *request)
{
	int quota = emu_config.katy ? 2 : comm->socks, at, rc;

	if (!request->size) {
		rc = announce(comm, request, MESSAGE_INLINE, 0, 0);
		if (rc > 0)
			comm->stage[EMU_SENT]++;
		return rc < 0 ? EMU_SYSTEM : EMU_OK;
	}
	for (; quota && request->offset < request->size && emu_config.chunk; quota--) {
		uint32_t left = request->size - request->offset;
		uint32_t size = left < emu_config.chunk ? left : emu_config.chunk;

		at = pick(comm);
		if (at < 0)
			break;
		rc = announce(comm, request, MESSAGE_NORMAL, at, size);
		if (rc <= 0)
			return rc ? EMU_SYSTEM : EMU_OK;
		push(comm, request, at, size);
		comm->last_lane = at;
	}
	return EMU_OK;
}

/* The slot of a comm's k-th message is k mod 16. */
static int assign_slot(struct emu_comm *comm, struct emu_request *request)
{
	if (request->slot >= 0 || !emu_flavour.device)
		return EMU_OK;
	if (!comm->queue)
		return emu_violation(TCPXEMU_NO_DEVHANDLE, "first receive");
	request->slot = (int)(comm->queue->tail++ % EMU_SLOTS);
	atomic_store_explicit(&comm->queue->at->cnt[request->slot], 0, memory_order_relaxed);
	memset(comm->queue->last[request->slot], 0, sizeof(comm->queue->last[0]));
	return EMU_OK;
}

static int read_message(struct emu_comm *comm, struct emu_request *request)
{
	struct emu_message *message = &request->message;
	int rc = ctrl_in(comm, comm->ctrl_in, sizeof(*message), &comm->ctrl_have);

	if (rc <= 0)
		return rc ? EMU_SYSTEM : EMU_OK;
	memcpy(message, comm->ctrl_in, sizeof(*message));
	maybe_end_ctrl(comm, EMU_SIDE_RECV);
	if (request->pending < 0) {
		request->size = message->total;
		request->pending = message->total;
		if (message->total > request->posted)
			emu_violation(TCPXEMU_OVERRUN, "%u bytes into a receive of %u",
				      message->total, request->posted);
	}
	if (message->type == MESSAGE_NORMAL &&
	    (message->sock >= comm->socks || message->offset != request->offset ||
	     message->total != request->size || message->size > request->size - request->offset)) {
		EMU_WARN("TCPXEMU: a control message that makes no sense");
		return EMU_INTERNAL;
	}
	if (message->type == MESSAGE_NORMAL && message->size > emu_config.chunk)
		return emu_violation(TCPXEMU_CHUNK_DIFFERS, "%u bytes, the chunk here has %u",
				     message->size, emu_config.chunk);
	request->message_in = true;
	return EMU_OK;
}

static int receive_some(struct emu_comm *comm, struct emu_request *request)
{
	int rc;

	do {
		if (!request->message_in) {
			rc = read_message(comm, request);
			if (rc || !request->message_in)
				return rc;
		}
		rc = assign_slot(comm, request);
		if (rc)
			return rc;
		if (request->message.type == MESSAGE_INLINE) {
			request->message_in = false;
			comm->stage[EMU_SENT]++;
			return EMU_OK;
		}
		if (!lane_free(&comm->lane[request->message.sock]))
			return EMU_OK;
		request->message_in = false;
		push(comm, request, request->message.sock, request->message.size);
	} while (request->offset < request->size);
	return EMU_OK;
}

int emu_progress(struct emu_comm *comm)
{
	struct emu_request *request;
	bool room = false;
	int rc;

	if (comm->stage[EMU_POSTED] == comm->stage[EMU_RETIRED])
		return EMU_OK;
	for (int i = 0; i < comm->socks; i++) {
		rc = retire(comm, i);
		if (rc)
			return rc;
		room = room || lane_free(&comm->lane[i]);
	}
	rc = activate(comm);
	if (rc || !room || comm->stage[EMU_SENT] == comm->stage[EMU_ACTIVE])
		return rc;
	request = &comm->item[comm->stage[EMU_SENT] % EMU_REQUESTS];
	return comm->kind == EMU_SEND ? send_some(comm, request) : receive_some(comm, request);
}
