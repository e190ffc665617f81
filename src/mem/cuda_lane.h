/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a GPU: a queue that anybody pushes to, and the groups of copies that its owner
 * has in a stream. Behind each group the stream writes the group's number to a mapped word.
 */
#ifndef MEM_CUDA_LANE_H
#define MEM_CUDA_LANE_H

#include <stdatomic.h>

#include "mem/kind.h"
#include "sys/cuda.h"

/* What is in a stream cannot be recalled: two, so that the engine never waits for us. */
#define CUDA_LANE_GROUPS 2

struct cuda_group {
	struct mem_copy *first;
	uint32_t number;
	int flagged; /* the stream will write the number */
};

struct cuda_lane {
	_Alignas(64) _Atomic(struct mem_copy *) pushed; /* newest first */

	/* the owner's thread */
	_Alignas(64) const struct sys_cuda *api;
	cuda_stream stream;
	_Atomic uint32_t *word; /* number of the last group that is over */
	cuda_ptr word_at;	/* for the device */
	_Atomic uint32_t *pending;
	struct mem_copy *first, *last; /* taken, not issued; oldest first */
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	uint32_t number;  /* of the last group issued */
	int64_t moved_ns; /* when one was issued or ended, or the driver was asked */
	int flagless;	  /* the device has no stream writes */
	cuda_result fatal;
};

/* copy->bytes and to_slot are set. Lock-free. Any thread. */
void mem_lane_push(struct cuda_lane *lane, struct mem_copy *copy);
int mem_lane_pushed(struct cuda_lane *lane); /* 1: there is something to take */

/* Ends what is over and issues what may be; returns how many groups moved. lane->fatal says why
 * the device is broken. Calls done, which may push. Owner; the context is current. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* The device is broken: ends with status what is queued, and what is in the stream as soon as the
 * stream itself says that it is dead; until then it may still move bytes. Owner. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
