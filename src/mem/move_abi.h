/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the move kernel and the host. The kernel copies pieces of memory that the
 * GPU can read, its own or that of another GPU, to memory that it can write. Both the C and the
 * CUDA compiler read this file.
 */
#ifndef MEM_MOVE_ABI_H
#define MEM_MOVE_ABI_H

#include "mem/copy_abi.h"

#define MEM_MOVE_PIECES 8192u	  /* most pieces of one launch */
#define MEM_MOVE_BYTES (1u << 30) /* most bytes of one launch */
#define MEM_MOVE_BLOCKS 64u	  /* most blocks of one launch; each occupies a whole SM */
#define MEM_MOVE_THREADS 512u
#define MEM_MOVE_WARPS (MEM_MOVE_THREADS / 32u)
#define MEM_MOVE_UNIT 4096u /* bytes of the destination that a warp copies at once */

/*
 * A piece has `length` bytes, 1 or more; `src` and `dst` may have any alignment. Destinations do
 * not overlap each other or a source. A piece is divided into units, which warps copy one at a
 * time. A unit ends at each multiple of MEM_MOVE_UNIT bytes, counted from the aligned 16-byte word
 * that holds the first byte of the destination. `unit` is the number of units of all pieces before
 * this one.
 */
struct mem_move_piece {
	uint64_t src, dst;
	uint32_t length, unit;
};

/*
 * The only parameter of the kernel, passed by value. A list is copied by one launch. copy_abi.h
 * says what `mark`, `state` and `serial` are, and how the host aborts a list. Block b copies the
 * units from b * `share` up to the first unit of the next block. mem_move_plan fills in `count` and
 * all fields after it.
 *
 * Nothing but the pieces is read or written, not even in the same 16-byte word.
 */
struct mem_move_args {
	uint64_t pieces; /* struct mem_move_piece [count], in mapped host memory */
	uint64_t mark;	 /* struct mem_copy_mark, in mapped host memory */
	uint64_t state;	 /* struct mem_copy_state, in GPU memory */
	uint32_t serial; /* even, not 0 */
	uint32_t count;
	uint32_t units, share;
	uint32_t blocks; /* number of blocks of the launch */
	/* For each block: the index of the piece that contains the block's first unit. Elements
	 * from `blocks` on are `count`. */
	uint16_t first[MEM_MOVE_BLOCKS + 1];
};

/* Returns the number of units of a piece. */
static inline
#ifdef __CUDACC__
	__host__ __device__
#endif
		uint32_t
		mem_move_units(uint64_t dst, uint32_t length)
{
	return (uint32_t)((dst % 16 + length + MEM_MOVE_UNIT - 1) / MEM_MOVE_UNIT);
}

#endif
