/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is one direction of a GPU: a queue that any thread pushes to, and the groups of copies
 * that the owner thread has under way. A group uses the copy engine, in one stream, or the copy
 * kernels, in another one, so that a kernel that cannot start blocks nothing else. After each group
 * its stream writes the number of the group to a word of mapped host memory. Groups end in the
 * order in which they were issued.
 */
#ifndef MEM_CUDA_LANE_H
#define MEM_CUDA_LANE_H

#include <stdatomic.h>

#include "base/config.h"
#include "mem/cuda_launch.h"
#include "mem/cuda_queue.h"
#include "mem/kind.h"
#include "sys/cuda.h"

/* Most groups under way. Work in a stream cannot be recalled, so they are few; two keep the engine
 * busy. */
#define CUDA_LANE_GROUPS 2

/* Directions: into GPU memory, out of it, from another GPU's memory into it. */
enum { CUDA_LANE_IN = 0, CUDA_LANE_OUT, CUDA_LANE_MOVE, CUDA_LANES };

/* A stream of a lane, and the numbers of its groups. */
struct cuda_way {
	cuda_stream stream;
	_Atomic uint32_t *word; /* number of the last group that ended */
	cuda_ptr word_at;	/* address of word for the device */
	uint32_t number;	/* number of the last group issued */
	uint32_t known;		/* last number that the driver confirmed; *word may lag */
};

struct cuda_group {
	struct mem_copy *first;
	struct cuda_way *way;
	struct cuda_launch *launch; /* NULL: the copy engine copies the group */
	uint32_t number;
	int flagged;	  /* 1: the stream will write the number */
	int mixed;	  /* 1: a launch failed, so copies follow in the same stream */
	int64_t since_ns; /* when it became the oldest group under way */
};

struct cuda_lane {
	struct cuda_queue queue;

	/* for the owner thread only */
	const struct sys_cuda *api;
	_Atomic uint32_t *pending;
	enum config_copies copies;
	uint64_t group_bytes;  /* most bytes of one group, except a single larger copy */
	uint64_t first_bytes;  /* the same, for a group that finds the lane idle */
	uint32_t engine_calls; /* up to so many calls of the copy engine cost less than a launch */
	struct cuda_way engine, kernel;
	struct cuda_launcher launcher;
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	/* aborted launches that are still in the stream */
	struct cuda_group late[MEM_LAUNCH_SLOTS];
	unsigned nlate;
	int64_t moved_ns; /* time when a group was issued or ended, or the driver was asked */
	int flagless;	  /* 1: the device has no stream writes */
	cuda_result fatal;
};

/* Mapped host memory of a lane: its two words, then the memory of the launcher. */
#define MEM_LANE_WORDS 256 /* bytes; the words are two cache lines apart */
#define MEM_LANE_BYTES(with_kernels) (MEM_LANE_WORDS + ((with_kernels) ? MEM_LAUNCHER_BYTES : 0))

/* How long a launch may wait for its start before the copy engine takes over its group. Tests
 * change it while no lane is open. */
extern int64_t mem_lane_patience_ns;

/* kernels NULL: copy engine only. memory: MEM_LANE_BYTES of mapped host memory, at memory_at for
 * the device. pending: the owner's count of copies, which the lane decrements as they end. After an
 * error the lane must be closed too. Owner thread, as all functions here; the context is
 * current. */
tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority);
/* Makes it a lane for moves out of mappings. Returns 1 if it has a kernel for lists. */
int mem_lane_moves(struct cuda_lane *lane);
/* If the lane is idle, makes a call that changes nothing on each of its streams. */
void mem_lane_warm(struct cuda_lane *lane);
void mem_lane_close(struct cuda_lane *lane);

/* Ends finished groups and issues new ones; returns how many groups made progress. lane->fatal is
 * set if the device is broken. Calls done, which may push. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* The device is broken: ends queued copies with status, and copies in a stream as soon as the
 * stream reports that it is dead; until then it may still move bytes. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
