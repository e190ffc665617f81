/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of copies in one direction: merged, issued, ended in order. */
#include "mem/cuda_lane.h"

#include "base/clock.h"
#include "base/error.h"

#define GROUP_BYTES (4ull << 20)
#define GROUP_CALLS 32u		   /* a flag costs what half a small copy does */
#define ASK_NS (100 * CLOCK_MS_NS) /* a word that stands still for so long is looked into */

/* Neighbours on both sides, moved by one call. */
struct run {
	struct mem_copy *first, *last; /* whose, in the order of the group */
	uint8_t *slot, *memory;
	uint64_t bytes;
};

void mem_lane_push(struct cuda_lane *lane, struct mem_copy *copy)
{
	struct mem_copy *top = atomic_load_explicit(&lane->pushed, memory_order_relaxed);

	copy->result = TCPX_OK;
	do
		copy->next = top;
	while (!atomic_compare_exchange_weak(&lane->pushed, &top, copy));
}

int mem_lane_pushed(struct cuda_lane *lane)
{
	return atomic_load(&lane->pushed) != NULL;
}

/* What was pushed goes behind the queue, oldest first. */
static void lane_take(struct cuda_lane *lane)
{
	struct mem_copy *copy, *newest, *oldest = NULL;

	if (!atomic_load_explicit(&lane->pushed, memory_order_relaxed))
		return;
	newest = copy = atomic_exchange_explicit(&lane->pushed, NULL, memory_order_acquire);
	while (copy) {
		struct mem_copy *older = copy->next;

		copy->next = oldest;
		oldest = copy;
		copy = older;
	}
	if (lane->first)
		lane->last->next = oldest;
	else
		lane->first = oldest;
	lane->last = newest;
}

static cuda_result copy_bytes(struct cuda_lane *lane, const struct mem_copy *copy, void *slot,
			      void *memory, uint64_t bytes)
{
	cuda_ptr host = (uintptr_t)slot, gpu = (uintptr_t)memory;

	return copy->to_slot ? lane->api->copy_async(host, gpu, bytes, lane->stream)
			     : lane->api->copy_async(gpu, host, bytes, lane->stream);
}

/* The first failure of a copy counts. Whatever of it is in the stream is waited for all the same:
 * it ends with its group. */
static void copy_failed(struct cuda_lane *lane, struct mem_copy *copy, cuda_result result)
{
	static struct log_limit limit;

	if (copy->result == TCPX_OK) {
		copy->result = sys_cuda_error(result, copy->to_slot ? "copy from the GPU"
								    : "copy to the GPU");
		if (result != CUDA_ERR_DEINITIALIZED && log_allow(&limit, 3))
			LOG_WARN("%s", error_last()->what);
	}
	if (sys_cuda_fatal(result))
		lane->fatal = result;
}

/* One copy of several pieces: a call for each stretch of them. A gather or scatter kernel over
 * copy->pieces takes this place. */
static cuda_result issue_pieces(struct cuda_lane *lane, const struct mem_copy *copy)
{
	uint8_t *slot = copy->slot;
	uint32_t i = 0;

	while (i < copy->npieces) {
		uint8_t *memory = copy->pieces[i].addr;
		uint64_t bytes = copy->pieces[i].length;
		cuda_result result = CUDA_OK;

		while (++i < copy->npieces && copy->pieces[i].addr == memory + bytes)
			bytes += copy->pieces[i].length;
		if (bytes)
			result = copy_bytes(lane, copy, slot, memory, bytes);
		if (result != CUDA_OK)
			return result;
		slot += bytes;
	}
	return CUDA_OK;
}

/* Copies of a run of which the driver wanted no part as a whole: neighbours by address may be
 * allocations that only touch, and no call may cross from one to the next. */
static void issue_singly(struct cuda_lane *lane, const struct run *run)
{
	struct mem_copy *copy = run->first;

	for (;; copy = copy->next) {
		cuda_result result = issue_pieces(lane, copy);

		if (result != CUDA_OK)
			copy_failed(lane, copy, result);
		if (copy == run->last)
			return;
	}
}

static void issue_run(struct cuda_lane *lane, struct run *run)
{
	cuda_result result = lane->fatal; /* of a run before it, in the same group */

	if (!result && run->bytes)
		result = copy_bytes(lane, run->first, run->slot, run->memory, run->bytes);
	if (result == CUDA_ERR_INVALID_VALUE && run->first != run->last)
		issue_singly(lane, run);
	else if (result != CUDA_OK)
		for (struct mem_copy *copy = run->first;; copy = copy->next) {
			copy_failed(lane, copy, result);
			if (copy == run->last)
				break;
		}
	run->first = NULL;
}

/* Returns how many driver calls that began. */
static uint32_t run_add(struct cuda_lane *lane, struct run *run, struct mem_copy *copy)
{
	const struct mem_piece *piece = copy->pieces;
	cuda_result result;

	if (run->first && copy->npieces == 1 && (uint8_t *)copy->slot == run->slot + run->bytes &&
	    (uint8_t *)piece->addr == run->memory + run->bytes) {
		run->last = copy;
		run->bytes += copy->bytes;
		return 0;
	}
	if (run->first)
		issue_run(lane, run);
	if (copy->npieces == 1) {
		*run = (struct run){copy, copy, copy->slot, piece->addr, copy->bytes};
		return 1;
	}
	result = lane->fatal ? lane->fatal : issue_pieces(lane, copy);
	if (result != CUDA_OK)
		copy_failed(lane, copy, result);
	return copy->npieces;
}

/* 1: the stream will write the number when it is that far. */
static int group_flag(struct cuda_lane *lane, uint32_t number)
{
	cuda_result result = CUDA_ERR_NOT_SUPPORTED;

	if (!lane->flagless && lane->api->stream_write)
		result = lane->api->stream_write(lane->stream, lane->word_at, number, 0);
	if (result == CUDA_ERR_NOT_SUPPORTED)
		lane->flagless = 1;
	if (result != CUDA_OK && sys_cuda_fatal(result))
		lane->fatal = result;
	return result == CUDA_OK;
}

/* The next queued copies, up to GROUP_BYTES of them, at least one. */
static void group_issue(struct cuda_lane *lane)
{
	struct cuda_group *group = &lane->under[(lane->oldest + lane->nunder) % CUDA_LANE_GROUPS];
	struct run run = {0};
	struct mem_copy *last;
	uint64_t bytes = 0;
	uint32_t calls = 0;

	group->first = lane->first;
	do {
		last = lane->first;
		lane->first = last->next;
		bytes += last->bytes;
		calls += run_add(lane, &run, last);
	} while (lane->first && !lane->fatal && calls < GROUP_CALLS &&
		 lane->first->bytes <= GROUP_BYTES && bytes + lane->first->bytes <= GROUP_BYTES);
	if (run.first)
		issue_run(lane, &run);
	last->next = NULL;
	if (!lane->first)
		lane->last = NULL;
	group->number = ++lane->number;
	group->flagged = !lane->fatal && group_flag(lane, group->number);
	lane->nunder++;
}

/* done may free the copy, and push others. */
static void copies_end(struct cuda_lane *lane, struct mem_copy *copy, tcpx_status status)
{
	while (copy) {
		struct mem_copy *next = copy->next;

		copy->done(copy, copy->result ? copy->result : status);
		atomic_fetch_sub(lane->pending, 1);
		copy = next;
	}
}

static int group_over(const struct cuda_lane *lane, uint32_t reached)
{
	return lane->nunder && (int32_t)(reached - lane->under[lane->oldest].number) >= 0;
}

static void group_end(struct cuda_lane *lane, tcpx_status status)
{
	struct mem_copy *copies = lane->under[lane->oldest].first;

	lane->oldest = (lane->oldest + 1) % CUDA_LANE_GROUPS;
	lane->nunder--;
	copies_end(lane, copies, status);
}

/* Asks the driver where the word does not tell, or for long has not. What it answers covers all
 * that was issued; a number reached, or the word's. */
static uint32_t lane_ask(struct cuda_lane *lane, uint32_t reached, int64_t now_ns)
{
	cuda_result result;

	if (!lane->nunder || group_over(lane, reached) ||
	    (lane->under[lane->oldest].flagged && now_ns - lane->moved_ns < ASK_NS))
		return reached;
	result = lane->api->stream_query(lane->stream);
	lane->moved_ns = now_ns;
	if (result == CUDA_OK)
		return lane->number;
	if (result != CUDA_ERR_NOT_READY && sys_cuda_fatal(result))
		lane->fatal = result;
	return reached;
}

unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns)
{
	unsigned moved = 0;
	uint32_t reached = atomic_load_explicit(lane->word, memory_order_acquire);

	reached = lane_ask(lane, reached, now_ns);
	for (; group_over(lane, reached); moved++)
		group_end(lane, TCPX_OK);
	if (lane->fatal)
		return moved;
	lane_take(lane);
	for (; lane->first && lane->nunder < CUDA_LANE_GROUPS && !lane->fatal; moved++)
		group_issue(lane);
	if (moved)
		lane->moved_ns = now_ns;
	return moved;
}

unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status)
{
	uint32_t reached = atomic_load_explicit(lane->word, memory_order_acquire);
	cuda_result result = CUDA_OK;
	struct mem_copy *queued;
	unsigned moved = 0;

	if (lane->nunder && !group_over(lane, reached)) {
		result = lane->api->stream_query(lane->stream);
		if (result == CUDA_OK)
			reached = lane->number;
	}
	for (; group_over(lane, reached); moved++)
		group_end(lane, TCPX_OK);
	for (; lane->nunder && sys_cuda_fatal(result); moved++)
		group_end(lane, status);
	lane_take(lane);
	queued = lane->first;
	lane->first = lane->last = NULL;
	copies_end(lane, queued, status);
	return moved + (queued != NULL);
}
