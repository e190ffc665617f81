/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the unpack kernels and the host: pieces of a bounce pool move to their destination, in
 * one launch for one chunk or many. Read by the C and the CUDA compiler.
 */
#ifndef MEM_UNPACK_ABI_H
#define MEM_UNPACK_ABI_H

#include "base/frag.h"

#define MEM_UNPACK_FRAGS 2047u	/* most fragments of a job: the limit of an UNPACK plugin */
#define MEM_UNPACK_PIECES 8192u /* most pieces of a launch */
#define MEM_UNPACK_INLINE 248u	/* most pieces that a launch carries in its parameters */
#define MEM_UNPACK_THREADS 256u
#define MEM_UNPACK_WARPS (MEM_UNPACK_THREADS / 32u) /* of a block; each moves one piece at a time */
#define MEM_UNPACK_WORDS 256u	/* whole words of 16 bytes that a warp moves in one step */
#define MEM_UNPACK_SM_BLOCKS 3u /* blocks that run on an SM at once */

/*
 * The parameter of mem_unpack_list, by value. A piece is a fragment whose dst is an address:
 * length, source and destination may have any alignment, and a length of 0 moves nothing.
 * Destinations do not overlap. An aligned word of 16 bytes that holds a byte of a piece's source
 * is readable as a whole; nothing else is read, and nothing but destinations is written.
 *
 * The block that ends last stores serial to *word. A thread that reads it there (acquire, any CPU
 * or GPU) sees all bytes in place, and no source, piece or state is accessed any more.
 */
struct mem_unpack_args {
	/* address of the pool, a multiple of 16; src of a piece is an offset in it */
	uint64_t src;
	uint64_t pieces; /* struct base_frag [count], mapped host memory, a multiple of 16 */
	uint64_t word;	 /* address of a uint32_t in mapped host memory */
	/* address of a uint32_t in GPU memory, one per stream; 0 before the stream's first
	 * launch */
	uint64_t state;
	uint32_t serial, count;
	uint32_t blocks; /* number of blocks of the launch, 1 or more */
	uint32_t reserved;
};

/* The parameter of mem_unpack_inline, which carries the pieces itself: args.pieces is unused. A
 * driver accepts 4096 bytes of parameters. */
struct mem_unpack_inline_args {
	struct mem_unpack_args args;
	struct base_frag pieces[MEM_UNPACK_INLINE];
};

#endif
