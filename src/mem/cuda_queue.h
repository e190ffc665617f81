/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of copies of one direction. Any thread pushes copies, and the owner thread removes them
 * in groups. Copies with contiguous slots are put into one group if possible, because they become
 * few driver calls or a single launch. The oldest copy is in one of the next five groups.
 */
#ifndef MEM_CUDA_QUEUE_H
#define MEM_CUDA_QUEUE_H

#include <stdatomic.h>

#include "mem/kind.h"

struct cuda_queue {
	_Alignas(64) _Atomic(struct mem_copy *) pushed; /* pushed copies, newest first */

	/* The following fields are for the owner thread only. */
	/* list of copies, from the oldest to the newest */
	_Alignas(64) struct mem_copy *first, *last;
	/* number of groups removed since the present oldest copy became the oldest */
	uint32_t passed;
	/* whether a group has the oldest copies, even if newer ones are contiguous */
	int in_order;
};

/* Adds a copy. Lock-free. Any thread. */
void mem_queue_push(struct cuda_queue *queue, struct mem_copy *copy);
int mem_queue_pushed(struct cuda_queue *queue); /* returns 1 if `pushed` is not empty */

/* Moves the copies from `pushed` to the end of the list that begins at `first`. The owner
 * thread calls this. */
void mem_queue_take(struct cuda_queue *queue);

/* Removes the next group from the list that begins at `first`, and returns its copies sorted by
 * slot address. The list must not be empty; pushed copies get into it only by mem_queue_take(). The
 * group has at most `bytes` bytes and `pieces` pieces, or is a single larger copy. The owner
 * thread calls this. */
struct mem_copy *mem_queue_group(struct cuda_queue *queue, uint64_t bytes, uint32_t pieces);

#endif
