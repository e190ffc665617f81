/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a GPU: a queue that any thread pushes to, and the groups of copies that the
 * owner has under way. A group uses the copy engine, in one stream, or the copy kernels, in
 * another one, so that a kernel that cannot start blocks nothing else. After each group its stream
 * writes the number of the group to a mapped word. Groups end in the order in which they were
 * issued.
 */
#ifndef MEM_CUDA_LANE_H
#define MEM_CUDA_LANE_H

#include <stdatomic.h>

#include "base/config.h"
#include "mem/cuda_launch.h"
#include "mem/cuda_queue.h"
#include "mem/kind.h"
#include "sys/cuda.h"

/* Work in a stream cannot be recalled, so the number is small; two keep the engine busy. */
#define CUDA_LANE_GROUPS 2

/* Directions: into GPU memory, out of it, from another GPU's memory into it. */
enum { CUDA_LANE_IN = 0, CUDA_LANE_OUT, CUDA_LANE_MOVE, CUDA_LANES };

/* A stream of a lane. */
struct cuda_way {
	cuda_stream stream;
	_Atomic uint32_t *word; /* number of the last group that ended */
	cuda_ptr word_at;	/* for the device */
	uint32_t number;	/* of the last group issued */
	uint32_t known;		/* the last number that the driver confirmed; the word may lag */
};

struct cuda_group {
	struct mem_copy *first;
	struct cuda_way *way;
	struct cuda_launch *launch; /* NULL: by the copy engine */
	uint32_t number;
	int flagged;	  /* the stream will write the number */
	int mixed;	  /* launches, followed by copies in the same stream */
	int64_t since_ns; /* when it became the oldest */
};

struct cuda_lane {
	struct cuda_queue queue;

	/* the owner's thread */
	const struct sys_cuda *api;
	_Atomic uint32_t *pending;
	enum config_copies copies;
	uint64_t group_bytes;  /* most bytes of one group, except a single larger copy */
	uint64_t first_bytes;  /* the same, of a group that finds the lane idle */
	uint32_t engine_calls; /* up to so many calls of the copy engine cost less than a launch */
	struct cuda_way engine, kernel;
	struct cuda_launcher launcher;
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	struct cuda_group late[MEM_LAUNCH_SLOTS]; /* aborted, but still in the stream */
	unsigned nlate;
	int64_t moved_ns; /* when a group was issued or ended, or the driver was asked */
	int flagless;	  /* the device has no stream writes */
	cuda_result fatal;
};

/* Mapped memory of a lane. */
#define MEM_LANE_WORDS 256 /* so that the two words are more than two lines apart */
#define MEM_LANE_BYTES(with_kernels) (MEM_LANE_WORDS + ((with_kernels) ? MEM_LAUNCHER_BYTES : 0))

/* How long a launch may wait for its start before the copy engine takes over. Tests change it while
 * no lane is open. */
extern int64_t mem_lane_patience_ns;

/* kernels NULL: copy engine only. memory: MEM_LANE_BYTES, at memory_at for the device. pending
 * counts the copies under way. After ERR_SYSTEM, ERR_NO_MEMORY the lane must be closed too. Owner
 * thread, as all functions here; the context is current. */
tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority);
/* The lane's copies are moves out of mappings. 1: it has a kernel for lists. */
int mem_lane_moves(struct cuda_lane *lane);
/* Makes a call that changes nothing on each stream of an idle lane. */
void mem_lane_warm(struct cuda_lane *lane);
void mem_lane_close(struct cuda_lane *lane);

/* Ends finished groups and issues new ones; returns how many groups made progress. lane->fatal: why
 * the device is broken. Calls done, which may push. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* The device is broken: ends queued copies with status, and copies in a stream as soon as the
 * stream reports that it is dead; until then it may still move bytes. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
