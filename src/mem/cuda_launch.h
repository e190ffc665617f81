/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattered copies of one lane by the copy kernels or the move kernel. A list of copies becomes a
 * list of pieces in mapped memory. The move kernel copies it by one launch, the copy kernels by one
 * launch for each stretch of nearby slots. All launches of a list share a mark, a state and a
 * serial (copy_abi.h), so that the list is copied as a whole or not at all.
 */
#ifndef MEM_CUDA_LAUNCH_H
#define MEM_CUDA_LAUNCH_H

#include "mem/cuda_kernels.h"
#include "mem/kind.h"

#define MEM_LAUNCH_PIECES 8192u /* most pieces of one list */
#define MEM_LAUNCH_SLOTS 2	/* this many lists may be under way */

/* Memory for one list of pieces that is under way. */
struct cuda_launch {
	struct mem_copy_mark *mark; /* mapped host memory */
	union {			    /* MEM_LAUNCH_PIECES pieces in mapped host memory */
		struct mem_copy_piece *pieces;
		/* used instead of `pieces` if the launcher is for moves (cuda_launcher.move_blocks
		 * is not 0) */
		struct mem_move_piece *moves;
	};
	cuda_ptr mark_at, pieces_at; /* device addresses of `mark` and `pieces` */
	uint32_t serial;	     /* serial of the list (copy_abi.h) */
	/* 1 from the launch until the owner thread knows that the stream has passed the list, or is
	 * dead */
	int busy;
};

struct cuda_launcher {
	/* NULL if there are no kernels; nothing is launched then */
	const struct mem_cuda_kernels *kernels;
	cuda_stream stream; /* all launches go into it, so no two run at once */
	/* GPU memory: the struct mem_copy_state of all launches */
	cuda_ptr state;
	/* most blocks of a launch of the move kernel; 0 if the launcher uses the copy kernels */
	uint32_t move_blocks;
	uint32_t serial; /* serial of the last list */
	struct cuda_launch slots[MEM_LAUNCH_SLOTS];
};

enum mem_launch_result {
	MEM_LAUNCH_NONE, /* nothing was launched: the caller uses the copy engine, in any stream */
	/* only some launches succeeded: the caller copies the whole list again by the copy engine,
	 * in the same stream */
	MEM_LAUNCH_PART,
	MEM_LAUNCH_ALL,
};

#define MEM_LAUNCHER_BYTES                                                                         \
	(MEM_LAUNCH_SLOTS * (128 + MEM_LAUNCH_PIECES * sizeof(struct mem_copy_piece)))

_Static_assert(MEM_LAUNCH_PIECES <= MEM_MOVE_PIECES &&
		       sizeof(struct mem_move_piece) <= sizeof(struct mem_copy_piece),
	       "a list of moves fits as well");

/* Opens a launcher. `memory` is MEM_LAUNCHER_BYTES of mapped host memory, aligned to a cache line,
 * and `memory_at` is its device address. After an error (ERR_NO_MEMORY, ERR_SYSTEM) the launcher
 * works like one without kernels. All functions here are called by the owner thread, with the
 * context current. */
tcpx_status mem_launcher_open(struct cuda_launcher *launcher,
			      const struct mem_cuda_kernels *kernels, cuda_stream stream,
			      void *memory, cuda_ptr memory_at);
void mem_launcher_close(struct cuda_launcher *launcher); /* only while no launch is under way */

/* Returns an element of launcher->slots that is not busy. Returns NULL if all are busy or if there
 * are no kernels. */
struct cuda_launch *mem_launcher_slot(struct cuda_launcher *launcher);

/* Puts one or several launches into the stream that copy the list from `first` on, which is sorted
 * by slot address. `launch` (see mem_launcher_slot) has their pieces, and is busy afterwards unless
 * the result is MEM_LAUNCH_NONE. `calls` is the number of calls that the copy engine would need. If
 * more than `calls` / 4 launches are needed, launches nothing; UINT32_MAX sets no such limit. A
 * launcher of moves ignores `calls`. */
enum mem_launch_result mem_launch_put(struct cuda_launcher *launcher, struct cuda_launch *launch,
				      const struct mem_copy *first, uint32_t calls);

/* Defined in cuda_launch_move.c. Puts one launch of the move kernel into the stream that copies
 * nothing. Returns MEM_LAUNCH_ALL, or MEM_LAUNCH_NONE after an error. */
enum mem_launch_result mem_launch_put_nothing(struct cuda_launcher *launcher,
					      struct cuda_launch *launch);

/* Defined in cuda_launch_move.c. Does what mem_launch_put does, for a launcher of moves, in a
 * single launch. */
enum mem_launch_result mem_launch_put_moves(struct cuda_launcher *launcher,
					    struct cuda_launch *launch,
					    const struct mem_copy *first);

/* Gives `launch` the next serial and resets its mark (copy_abi.h). Called by cuda_launch.c and
 * cuda_launch_move.c. */
void mem_launch_renew(struct cuda_launcher *launcher, struct cuda_launch *launch);
void mem_launch_failed(void); /* logs the last error, and that the copy engine is used instead */

/* Returns 1 if a block of the list has begun. */
int mem_launch_started(const struct cuda_launch *launch);
/* Asks the list to abort. Returns 1 if the list has touched no memory and never will; the stream
 * may still read the mark and the pieces, so both stay in use. Returns 0 if the list has begun and
 * ends soon; mem_launch_stopped then says whether it was aborted all the same. */
int mem_launch_abort(struct cuda_launch *launch);
/* Returns 1 if the list was aborted and copied nothing. Valid only after the stream has passed the
 * list. */
int mem_launch_stopped(const struct cuda_launch *launch);

#endif
