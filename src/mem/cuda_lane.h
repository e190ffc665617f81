/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lane is one direction of copies of a GPU. It has a queue, to which any thread pushes copies,
 * and the groups of copies that the GPU's owner thread has issued. A group uses either the copy
 * engine or a kernel. Each of the two has its own stream, so that a kernel that cannot begin does
 * not block the copy engine. After each group the stream, if the device can, writes the group's
 * number to a word of mapped host memory. Groups end in the order in which they were issued.
 */
#ifndef MEM_CUDA_LANE_H
#define MEM_CUDA_LANE_H

#include <stdatomic.h>

#include "base/config.h"
#include "mem/cuda_launch.h"
#include "mem/cuda_queue.h"
#include "mem/kind.h"
#include "sys/cuda.h"

/* At most this many groups of a lane are under way. They are few, because work in a stream cannot
 * be taken back. Two suffice to keep the copy engine busy: one can run while the host ends the
 * other. */
#define CUDA_LANE_GROUPS 2

/* Directions: IN from a slot into GPU memory, OUT from GPU memory into a slot, MOVE from memory
 * that the GPU can read into memory that it can write, its own or not. */
enum { CUDA_LANE_IN = 0, CUDA_LANE_OUT, CUDA_LANE_MOVE, CUDA_LANES };

/* One of the two streams of a lane, and the numbers of the groups issued to it. */
struct lane_stream {
	cuda_stream stream;
	/* in mapped host memory: number of the last group that ended, written by the stream */
	_Atomic uint32_t *word;
	cuda_ptr word_at; /* device address of `word` */
	uint32_t number;  /* number of the last group issued */
	/* number of the last group that the driver reported as ended; *word may be older */
	uint32_t known;
};

struct cuda_group {
	struct mem_copy *first;
	struct lane_stream *way;
	struct cuda_launch *launch; /* NULL if no kernel was launched */
	uint32_t number;
	int flagged; /* whether the stream will write the group's number to the word */
	/* whether only some of the group's launches succeeded; the copy engine then copies the
	 * whole group, in the stream of the launches */
	int mixed;
	int64_t since_ns; /* when the group was issued or, later, became the oldest under way */
};

struct cuda_lane {
	struct cuda_queue queue;

	/* The following fields are for the owner thread only. */
	const struct sys_cuda *api;
	_Atomic uint32_t *pending; /* cuda_owner.pending, which other threads change, too */
	enum config_copies copies;
	uint64_t group_bytes; /* most bytes of a group of several copies */
	/* most bytes and most pieces of a group that is issued while no other group is under way */
	uint64_t first_bytes;
	uint32_t first_pieces;
	uint32_t engine_calls; /* up to this many copy-engine calls cost less than a launch */
	/* MEM_BOUNCE_BYTES of pinned memory for moves within the GPU's memory that no kernel makes.
	 * NULL in a lane for moves without a kernel, where the driver's own copies make such moves,
	 * and in other lanes. */
	void *bounce;
	struct lane_stream engine, kernel;
	struct cuda_launcher launcher;
	struct cuda_group under[CUDA_LANE_GROUPS];
	unsigned oldest, nunder;
	/* groups whose launch was aborted and is still in the stream */
	struct cuda_group late[MEM_LAUNCH_SLOTS];
	unsigned naborted;
	int64_t moved_ns; /* when a group was last issued or ended, or the driver was asked */
	/* whether the device cannot write a word from a stream; then the driver is asked whether
	 * groups have ended */
	int flagless;
	cuda_result fatal;
};

/* The mapped host memory of a lane: one word for each of its two streams, then the memory of its
 * launcher. */
#define MEM_LANE_WORDS 256 /* bytes; the words are 128 bytes apart */
#define MEM_LANE_BYTES(with_kernels) (MEM_LANE_WORDS + ((with_kernels) ? MEM_LAUNCHER_BYTES : 0))

/* How long a launch may wait for its start before it is aborted and the copy engine copies its
 * group. Tests change it while no lane is open. */
extern int64_t mem_lane_patience_ns;

/* Opens a lane. If `kernels` is NULL, the lane uses the copy engine only. `memory` is
 * MEM_LANE_BYTES of mapped host memory, and `memory_at` is its device address. `pending` is
 * cuda_owner.pending, which the lane decrements as copies end, and increments while an aborted
 * launch is in a stream. `priority` is the priority of the lane's streams. The lane must be closed
 * even after an error. All functions here are called by the owner thread, with the context
 * current. */
tcpx_status mem_lane_open(struct cuda_lane *lane, const struct sys_cuda *api,
			  const struct mem_cuda_kernels *kernels, void *memory, cuda_ptr memory_at,
			  _Atomic uint32_t *pending, int priority);
/* Changes an opened lane to one for moves. Returns 1 if the lane has a kernel for lists of pieces.
 * `bounce` is then MEM_BOUNCE_BYTES of pinned memory; otherwise it is not used. */
int mem_lane_moves(struct cuda_lane *lane, void *bounce);
/* If nothing is under way in the lane and no copy waits, issues a group without copies to each
 * stream, because the driver's first calls after an idle time and the device's first work are
 * slow. */
void mem_lane_warm(struct cuda_lane *lane);
void mem_lane_close(struct cuda_lane *lane);

/* Ends groups that the GPU has finished, and issues new ones. Returns the number of groups that
 * were ended, issued or aborted. Sets lane->fatal if the device is broken. Calls `done` of the
 * copies that have ended; `done` may push other copies. */
unsigned mem_lane_round(struct cuda_lane *lane, int64_t now_ns);

/* Ends queued copies with `status`. Ends the copies of a group in a stream only when the stream has
 * passed them or is dead, because before that the stream may still copy bytes. Returns the number
 * of groups that ended; the queue counts as one group. Called in each round after the device
 * broke. */
unsigned mem_lane_fail(struct cuda_lane *lane, tcpx_status status);

#endif
