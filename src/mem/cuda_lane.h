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

/* Most groups under way. Work in a stream cannot be taken back, so they are few; two keep the copy
 * engine busy, because one can run while the host ends the other. */
#define CUDA_LANE_GROUPS 2

/* Directions of copies: into GPU memory, out of it, and moves from another GPU's memory into it. */
enum { CUDA_LANE_IN = 0, CUDA_LANE_OUT, CUDA_LANE_MOVE, CUDA_LANES };

/* One of the two streams of a lane, and the numbers of the groups issued to it. */
struct cuda_way {
	cuda_stream stream;
	/* in mapped host memory: number of the last group that ended, written by the stream */
	_Atomic uint32_t *word;
	cuda_ptr word_at; /* address of word for the device */
	uint32_t number;  /* number of the last group issued */
	/* number of the last group that the driver reported as ended; *word may lag behind */
	uint32_t known;
};

struct cuda_group {
	struct mem_copy *first;
	struct cuda_way *way;
	struct cuda_launch *launch; /* NULL: the copy engine copies the group */
	uint32_t number;
	int flagged; /* 1: the stream will write the group's number to the word */
	/* 1: one of its launches failed, so the engine's copies of the whole group follow in the
	 * same stream */
	int mixed;
	int64_t since_ns; /* when it became the oldest group under way */
};

struct cuda_lane {
	struct cuda_queue queue;

	/* for the owner thread only */
	const struct sys_cuda *api;
	_Atomic uint32_t *pending;
	enum config_copies copies;
	uint64_t group_bytes; /* most bytes of one group, except a single larger copy */
	/* most bytes of one group that is issued while no other is under way */
	uint64_t first_bytes;
	uint32_t engine_calls; /* most calls of the copy engine that cost less than a launch */
	struct cuda_way engine, kernel;
	struct cuda_launcher launcher;
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	/* groups whose launch was aborted and is still in the stream */
	struct cuda_group late[MEM_LAUNCH_SLOTS];
	unsigned nlate;
	int64_t moved_ns; /* when a group was last issued or ended, or the driver was asked */
	/* 1: the device cannot write a word from a stream, so the driver is asked */
	int flagless;
	cuda_result fatal;
};

/* Mapped host memory of a lane: its two words, then the memory of the launcher. */
#define MEM_LANE_WORDS 256 /* bytes; the words are two cache lines apart */
#define MEM_LANE_BYTES(with_kernels) (MEM_LANE_WORDS + ((with_kernels) ? MEM_LAUNCHER_BYTES : 0))

/* How long a launch may wait for its start before the copy engine takes over its group. Tests
 * change it while no lane is open. */
extern int64_t mem_lane_patience_ns;

/* Opens a lane. kernels NULL: it uses the copy engine only. memory: MEM_LANE_BYTES of mapped host
 * memory, at memory_at for the device. pending: the owner's count of accepted copies, which the
 * lane decrements as they end. priority: that of its streams. After an error the lane must be
 * closed too. Owner thread, as all functions here; the context is current. */
tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority);
/* Makes an opened lane one for moves out of mappings. Returns 1 if it has a kernel for lists. */
int mem_lane_moves(struct cuda_lane *lane);
/* If nothing is under way in the lane, makes a call that changes nothing on each of its streams,
 * because the driver's first call after a rest is slow. */
void mem_lane_warm(struct cuda_lane *lane);
void mem_lane_close(struct cuda_lane *lane);

/* Ends groups that the GPU has finished and issues new ones; returns how many groups were ended,
 * issued or aborted. Sets lane->fatal if the device is broken. Calls done of the copies, which may
 * push others. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* Called in each round after the device broke: ends queued copies with status, and copies in a
 * stream as soon as the stream reports that it is dead; until then it may still move bytes.
 * Returns how many groups ended, the queue counting as one. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
