/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattered copies of one direction by the copy kernels: a list of copies becomes a list of pieces
 * in mapped memory, and one launch per stretch of slots. All launches of a list share a mark, a
 * state and a serial (copy_abi.h), so the list moves as a whole or not at all.
 */
#ifndef MEM_CUDA_LAUNCH_H
#define MEM_CUDA_LAUNCH_H

#include "mem/cuda_kernels.h"
#include "mem/kind.h"

#define MEM_LAUNCH_PIECES 8192u /* most pieces of a list */
#define MEM_LAUNCH_SLOTS 2	/* most lists under way */

/* Memory for one list of pieces that is under way. */
struct cuda_launch {
	struct mem_copy_mark *mark; /* mapped host memory */
	union {			    /* MEM_LAUNCH_PIECES pieces in mapped host memory */
		struct mem_copy_piece *pieces;
		struct mem_move_piece *moves; /* used if move_blocks of the launcher is not 0 */
	};
	cuda_ptr mark_at, pieces_at; /* addresses for the device */
	uint32_t serial;	     /* of the list (copy_abi.h) */
	int busy; /* 1 until the owner thread knows that the stream has passed the list */
};

struct cuda_launcher {
	/* NULL: no kernels, and the fields below are unused */
	const struct mem_cuda_kernels *kernels;
	cuda_stream stream; /* all launches go into it, so no two run at once */
	/* GPU memory: the struct mem_copy_state of all launches */
	cuda_ptr state;
	uint32_t move_blocks; /* not 0: a launcher of moves, with the most blocks of a launch */
	uint32_t serial;      /* of the last list */
	struct cuda_launch slots[MEM_LAUNCH_SLOTS];
};

enum mem_launch_result {
	MEM_LAUNCH_NONE, /* nothing was launched: use the copy engine, in any stream */
	MEM_LAUNCH_PART, /* some launches failed: copy the whole list again, in the same stream */
	MEM_LAUNCH_ALL,
};

#define MEM_LAUNCHER_BYTES                                                                         \
	(MEM_LAUNCH_SLOTS * (128 + MEM_LAUNCH_PIECES * sizeof(struct mem_copy_piece)))

_Static_assert(MEM_LAUNCH_PIECES <= MEM_MOVE_PIECES &&
		       sizeof(struct mem_move_piece) <= sizeof(struct mem_copy_piece),
	       "a list of moves fits as well");

/* Opens a launcher. memory: MEM_LAUNCHER_BYTES of mapped host memory, at memory_at for the device,
 * aligned to a cache line. After ERR_NO_MEMORY, ERR_SYSTEM the launcher works as one without
 * kernels. Owner thread, as all functions here; the context is current. */
tcpx_status mem_launcher_open(struct cuda_launcher *launcher,
			      const struct mem_cuda_kernels *kernels, cuda_stream stream,
			      void *memory, cuda_ptr memory_at);
void mem_launcher_close(struct cuda_launcher *launcher); /* only while no launch is under way */

/* Returns an element of launcher->slots that is not busy; NULL: all are busy, or there are no
 * kernels. */
struct cuda_launch *mem_launcher_slot(struct cuda_launcher *launcher);

/* Launches a list of copies that is sorted by slot. calls: how many calls the copy engine would
 * need; a list that takes more launches than a quarter of that is not launched (UINT32_MAX: no
 * such limit; a launcher of moves has none). launch is busy afterwards unless the result is
 * NONE. */
enum mem_launch_result mem_launch_put(struct cuda_launcher *launcher, struct cuda_launch *launch,
				      const struct mem_copy *first, uint32_t calls);

/* Defined in cuda_launch_move.c: mem_launch_put for a launcher of moves, in one launch. */
enum mem_launch_result mem_launch_put_moves(struct cuda_launcher *launcher,
					    struct cuda_launch *launch,
					    const struct mem_copy *first);

/* For cuda_launch.c and cuda_launch_move.c. Takes the next serial for the list and resets its mark
 * (copy_abi.h). */
void mem_launch_renew(struct cuda_launcher *launcher, struct cuda_launch *launch);
void mem_launch_failed(void); /* logs the last error and that the copy engine is used */

/* Returns 1 if a block of the list has begun. */
int mem_launch_started(const struct cuda_launch *launch);
/* Sets abort. Returns 1 if the list has touched nothing and will move nothing; the stream may
 * still read its mark and pieces, so both stay in use. Returns 0 if the list has begun and ends
 * soon; mem_launch_stopped then says whether it saw the abort and moved nothing. */
int mem_launch_abort(struct cuda_launch *launch);
/* Returns 1 if the list saw the abort and moved nothing. Valid after the stream has passed the
 * list. */
int mem_launch_stopped(const struct cuda_launch *launch);

#endif
