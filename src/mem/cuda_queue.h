/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of one direction: any thread pushes, the owner thread takes copies out in groups. A
 * group is chosen so that contiguous slots go together, because those become few driver calls, or
 * one launch; the oldest copy is in one of the next five groups.
 */
#ifndef MEM_CUDA_QUEUE_H
#define MEM_CUDA_QUEUE_H

#include <stdatomic.h>

#include "mem/kind.h"

struct cuda_queue {
	_Alignas(64) _Atomic(struct mem_copy *) pushed; /* pushed copies, newest first */

	/* for the owner thread only */
	_Alignas(64) struct mem_copy *first, *last; /* oldest first */
	uint32_t passed;			    /* groups issued without the oldest copy */
};

/* Lock-free. Any thread. */
void mem_queue_push(struct cuda_queue *queue, struct mem_copy *copy);
int mem_queue_pushed(struct cuda_queue *queue); /* 1: a copy was pushed */

/* Appends the pushed copies to the queue. Owner thread. */
void mem_queue_take(struct cuda_queue *queue);

/* Removes the next copies, at least one, ordered by the address of their slots: at most this many
 * bytes and pieces, unless a single copy has more. The queue is not empty. Owner thread. */
struct mem_copy *mem_queue_group(struct cuda_queue *queue, uint64_t bytes, uint32_t pieces);

#endif
