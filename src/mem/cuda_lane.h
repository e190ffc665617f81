/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a GPU: a queue that anybody pushes to, and the groups of copies that its owner
 * has under way. A group goes by the copy engine, in one stream, or by the copy kernels, in another
 * one, so that a kernel that cannot start holds up nothing else. Behind each group its stream
 * writes the group's number to a mapped word. Groups end in the order in which they were issued.
 */
#ifndef MEM_CUDA_LANE_H
#define MEM_CUDA_LANE_H

#include <stdatomic.h>

#include "base/config.h"
#include "mem/cuda_launch.h"
#include "mem/cuda_queue.h"
#include "mem/kind.h"
#include "sys/cuda.h"

/* What is in a stream cannot be recalled: two, so that the engine never waits for us. */
#define CUDA_LANE_GROUPS 2

/* Directions: into GPU memory, out of it, from another GPU's memory into it. */
enum { CUDA_LANE_IN = 0, CUDA_LANE_OUT, CUDA_LANE_MOVE, CUDA_LANES };

/* A stream of a lane. */
struct cuda_way {
	cuda_stream stream;
	_Atomic uint32_t *word; /* number of the last group that is over */
	cuda_ptr word_at;	/* for the device */
	uint32_t number;	/* of the last group issued */
	uint32_t known;		/* the driver said so; the word may not */
};

struct cuda_group {
	struct mem_copy *first;
	struct cuda_way *way;
	struct cuda_launch *launch; /* NULL: by the copy engine */
	uint32_t number;
	int flagged;	  /* the stream will write the number */
	int mixed;	  /* launches, and copies behind them in the same stream */
	int64_t since_ns; /* when it became the oldest */
};

struct cuda_lane {
	struct cuda_queue queue;

	/* the owner's thread */
	const struct sys_cuda *api;
	_Atomic uint32_t *pending;
	enum config_copies copies;
	uint64_t group_bytes; /* most of one group, but for a larger copy alone */
	struct cuda_way engine, kernel;
	struct cuda_launcher launcher;
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	struct cuda_group late[MEM_LAUNCH_SLOTS]; /* taken back, still in the stream */
	unsigned nlate;
	int64_t moved_ns; /* when one was issued or ended, or the driver was asked */
	int flagless;	  /* the device has no stream writes */
	cuda_result fatal;
};

/* Mapped memory of a lane. */
#define MEM_LANE_WORDS 256 /* apart by more than a line and its neighbour */
#define MEM_LANE_BYTES(with_kernels) (MEM_LANE_WORDS + ((with_kernels) ? MEM_LAUNCHER_BYTES : 0))

/* How long a launch may wait for its start before the copy engine does its work. Tests change it
 * while no lane is open. */
extern int64_t mem_lane_patience_ns;

/* kernels NULL: the copy engine alone. memory: MEM_LANE_BYTES, at memory_at for the device. pending
 * counts what is under way. ERR_SYSTEM, ERR_NO_MEMORY: close it all the same. Owner, as all here;
 * the context is current. */
tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority);
void mem_lane_close(struct cuda_lane *lane);

/* Ends what is over and issues what may be; returns how many groups moved. lane->fatal says why
 * the device is broken. Calls done, which may push. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* The device is broken: ends with status what is queued, and what is in a stream as soon as the
 * stream itself says that it is dead; until then it may still move bytes. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
