/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of copies of one direction: any thread pushes, and the owner thread removes copies in
 * groups. A group is chosen so that copies with contiguous slots go together, because they become
 * few driver calls, or one launch; the oldest copy is in one of the next five groups.
 */
#ifndef MEM_CUDA_QUEUE_H
#define MEM_CUDA_QUEUE_H

#include <stdatomic.h>

#include "mem/kind.h"

struct cuda_queue {
	_Alignas(64) _Atomic(struct mem_copy *) pushed; /* pushed copies, newest first */

	/* for the owner thread only */
	_Alignas(64) struct mem_copy *first, *last; /* from the oldest to the newest */
	/* groups removed since the oldest copy became the oldest */
	uint32_t passed;
};

/* Adds a copy. Lock-free. Any thread. */
void mem_queue_push(struct cuda_queue *queue, struct mem_copy *copy);
int mem_queue_pushed(struct cuda_queue *queue); /* returns 1 if there are pushed copies */

/* Moves the copies from `pushed` to the end of the list that begins at `first`. Owner thread. */
void mem_queue_take(struct cuda_queue *queue);

/* Removes the next group from the list that begins at `first`, and returns it: one copy or more,
 * sorted by slot address. The list must not be empty; copies that were only pushed are not in it
 * before mem_queue_take(). The group has at most `bytes` bytes and `pieces` pieces, unless it is a
 * single copy. Owner thread. */
struct mem_copy *mem_queue_group(struct cuda_queue *queue, uint64_t bytes, uint32_t pieces);

#endif
