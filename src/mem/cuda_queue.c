/* SPDX-License-Identifier: Apache-2.0 */
/* The queue of copies of one direction. Copies are pushed without a lock. Groups are chosen by the
 * age of copies and by contiguous slots. */
#include "mem/cuda_queue.h"

#define AHEAD 64u /* most copies searched for contiguous slots; front.taken has a bit for each */
#define AHEAD_BYTES (16ull << 20) /* the search ends after this many bytes */
#define PASSES 4u /* most groups that are removed before the group with the oldest copy */

/* The bytes and pieces that a group can still take. */
struct room {
	uint64_t bytes, pieces;
};

/* The copies at the front of the queue, in two orders. The age of a copy is its index in `copies`;
 * the oldest copy has age 0. The place of a copy is its index in `by_slot`; the copy with the
 * lowest slot address has place 0. */
struct front {
	struct mem_copy *copies[AHEAD];
	uint32_t n;
	/* by_slot: the age of the copy at each place; place: the place of the copy of each age */
	uint8_t by_slot[AHEAD], place[AHEAD];
	uint64_t taken; /* bit a is set if the copy of age a is in the group */
};

void mem_queue_push(struct cuda_queue *queue, struct mem_copy *copy)
{
	struct mem_copy *top = atomic_load_explicit(&queue->pushed, memory_order_relaxed);

	copy->result = TCPX_OK;
	do
		copy->next = top;
	while (!atomic_compare_exchange_weak(&queue->pushed, &top, copy));
}

int mem_queue_pushed(struct cuda_queue *queue)
{
	return atomic_load(&queue->pushed) != NULL;
}

void mem_queue_take(struct cuda_queue *queue)
{
	struct mem_copy *copy, *newest, *oldest = NULL;

	if (!atomic_load_explicit(&queue->pushed, memory_order_relaxed))
		return;
	newest = copy = atomic_exchange_explicit(&queue->pushed, NULL, memory_order_acquire);
	while (copy) {
		struct mem_copy *older = copy->next;

		copy->next = oldest;
		oldest = copy;
		copy = older;
	}
	if (queue->first)
		queue->last->next = oldest;
	else
		queue->first = oldest;
	queue->last = newest;
}

/* Subtracts the copy from the room. Returns 0 if the copy does not fit. */
static int room_take(struct room *room, const struct mem_copy *copy)
{
	if (copy->bytes > room->bytes || copy->npieces > room->pieces)
		return 0;
	room->bytes -= copy->bytes;
	room->pieces -= copy->npieces;
	return 1;
}

/* Subtracts the first copy of a group from the room. If the copy exceeds the room, it is taken all
 * the same, and nothing else fits. */
static void room_first(struct room *room, const struct mem_copy *copy)
{
	if (!room_take(room, copy))
		room->bytes = room->pieces = 0;
}

static int slot_is_lower(const struct mem_copy *a, const struct mem_copy *b)
{
	return (uintptr_t)a->slot < (uintptr_t)b->slot;
}

static struct mem_copy *merge_by_slot(struct mem_copy *a, struct mem_copy *b)
{
	struct mem_copy *first = NULL, **at = &first;

	for (; a && b; at = &(*at)->next) {
		struct mem_copy **from = slot_is_lower(b, a) ? &b : &a;

		*at = *from;
		*from = (*from)->next;
	}
	*at = a ? a : b;
	return first;
}

/* Sorts a list by slot address. The order of equal addresses is kept. This is a merge sort from the
 * bottom up: bins[i] is empty or holds a sorted list of 2^i copies. */
static struct mem_copy *sort_by_slot(struct mem_copy *copy)
{
	struct mem_copy *bins[32] = {0}, *all = NULL;
	unsigned i;

	while (copy) {
		struct mem_copy *run = copy;

		copy = copy->next;
		run->next = NULL;
		for (i = 0; bins[i]; i++) {
			run = merge_by_slot(bins[i], run);
			bins[i] = NULL;
		}
		bins[i] = run;
	}
	for (i = 0; i < 32; i++)
		all = merge_by_slot(bins[i], all);
	return all;
}

/* Removes the oldest copies that fit, at least one; returns them sorted by slot address. */
static struct mem_copy *take_in_order(struct cuda_queue *queue, struct room room)
{
	struct mem_copy *first = queue->first, *last = first;

	room_first(&room, first);
	while (last->next && room_take(&room, last->next))
		last = last->next;
	queue->first = last->next;
	if (!queue->first)
		queue->last = NULL;
	last->next = NULL;
	return sort_by_slot(first);
}

/* Reads the first copies of the queue into `front`, and sorts their ages by slot address (insertion
 * sort). */
static void front_look(struct front *front, const struct cuda_queue *queue)
{
	struct mem_copy *copy = queue->first;
	uint64_t bytes = 0;

	front->taken = 0;
	for (front->n = 0; copy && front->n < AHEAD && bytes < AHEAD_BYTES; copy = copy->next) {
		uint32_t at = front->n;

		for (; at && slot_is_lower(copy, front->copies[front->by_slot[at - 1]]); at--)
			front->by_slot[at] = front->by_slot[at - 1];
		front->by_slot[at] = (uint8_t)front->n;
		front->copies[front->n++] = copy;
		bytes += copy->bytes;
	}
	for (uint32_t i = 0; i < front->n; i++)
		front->place[front->by_slot[i]] = (uint8_t)i;
}

static int is_contiguous(const struct front *front, uint32_t place)
{
	const struct mem_copy *a = front->copies[front->by_slot[place - 1]];
	const struct mem_copy *b = front->copies[front->by_slot[place]];

	return (uint8_t *)a->slot + a->bytes == (uint8_t *)b->slot;
}

/* Copies that are not in the group yet and whose slots are contiguous. */
struct stretch {
	uint32_t begin, end; /* the copies have places begin .. end - 1 */
	uint32_t oldest;     /* age of its oldest copy */
	uint64_t bytes;
};

/* Returns the stretch that begins at place `begin`. The stretch's `bytes` is 0 if the copy at this
 * place is in the group already. */
static struct stretch stretch_at(const struct front *front, uint32_t begin)
{
	struct stretch it = {begin, begin, AHEAD, 0};

	do {
		uint32_t age = front->by_slot[it.end];

		if (front->taken >> age & 1)
			break;
		it.bytes += front->copies[age]->bytes;
		if (age < it.oldest)
			it.oldest = age;
	} while (++it.end < front->n && is_contiguous(front, it.end));
	return it;
}

/*
 * Returns the stretch to take next: the longest one and, among equally long ones, the one with the
 * oldest copy. All stretches of at least a quarter of `group` bytes count as equally long. Age
 * decides among these, because a channel sends its bytes in order. If `must` is set, returns the
 * stretch that has the oldest copy of the queue, however short. The result's `bytes` is 0 if no
 * stretch is left.
 */
static struct stretch stretch_next(const struct front *front, uint64_t group, int must)
{
	struct stretch best = {0}, it;
	uint64_t most = 0;

	for (uint32_t at = 0; at < front->n; at = it.end + (it.end == at)) {
		uint64_t bytes;

		it = stretch_at(front, at);
		bytes = it.bytes < group / 4 ? it.bytes : group / 4;
		if (must ? !it.oldest
			 : bytes > most || (bytes && bytes == most && it.oldest < best.oldest)) {
			best = it;
			most = bytes;
		}
	}
	return best;
}

/* Adds the copies of the stretch to the group, in the order of slots, until one does not fit. If
 * `first` is set, the group is empty, and the first copy is added in any case. Returns 1 if all
 * copies were added, so that the group may take more. */
static int stretch_take(struct front *front, const struct stretch *it, struct room *room, int first)
{
	for (uint32_t at = it->begin; at < it->end; at++, first = 0) {
		struct mem_copy *copy = front->copies[front->by_slot[at]];

		if (first)
			room_first(room, copy);
		else if (!room_take(room, copy))
			return 0;
		front->taken |= 1ull << front->by_slot[at];
	}
	return 1;
}

/* Fills the group: takes the best stretch, then the best of the remaining ones, until a copy does
 * not fit. If `must` is set, the oldest copy has waited for PASSES groups and is taken first. */
static void front_choose(struct front *front, struct room room, int must)
{
	const uint64_t group = room.bytes;
	struct stretch it = stretch_next(front, group, must);

	/* begin with the oldest copy itself, because the copies at lower slots of its stretch could
	 * fill the group */
	if (must)
		it.begin = front->place[0];
	for (int first = 1; it.bytes && stretch_take(front, &it, &room, first); first = 0)
		it = stretch_next(front, group, 0);
}

/* Removes the copies of the group from the queue, and returns them sorted by slot address. */
static struct mem_copy *front_cut(const struct front *front, struct cuda_queue *queue)
{
	struct mem_copy *behind = front->copies[front->n - 1]->next, *group = NULL;
	struct mem_copy **left = &queue->first, **at = &group, *kept = NULL;

	for (uint32_t age = 0; age < front->n; age++)
		if (!(front->taken >> age & 1)) {
			kept = *left = front->copies[age];
			left = &kept->next;
		}
	*left = behind;
	if (!behind)
		queue->last = kept;
	for (uint32_t i = 0; i < front->n; i++)
		if (front->taken >> front->by_slot[i] & 1) {
			*at = front->copies[front->by_slot[i]];
			at = &(*at)->next;
		}
	*at = NULL;
	return group;
}

struct mem_copy *mem_queue_group(struct cuda_queue *queue, uint64_t bytes, uint32_t pieces)
{
	struct room room = {bytes, pieces}, left = room;
	struct front front;
	uint32_t i = 0;

	if (queue->in_order)
		return take_in_order(queue, room);
	front_look(&front, queue);
	while (i < front.n && room_take(&left, front.copies[i]))
		i++;
	if (i == front.n) {
		queue->passed = 0;
		return take_in_order(queue, room);
	}
	front_choose(&front, room, queue->passed == PASSES);
	queue->passed = front.taken & 1 ? 0 : queue->passed + 1;
	return front_cut(&front, queue);
}
