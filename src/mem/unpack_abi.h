/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the unpack kernels and the host. One launch copies the pieces of one
 * message or of many from a bounce pool to their destination. Both the C and the CUDA compiler read
 * this file.
 */
#ifndef MEM_UNPACK_ABI_H
#define MEM_UNPACK_ABI_H

#include "base/frag.h"

#define MEM_UNPACK_FRAGS 2047u	/* most fragments of a job; a plugin delivers no more */
#define MEM_UNPACK_PIECES 8192u /* most pieces of a launch */
#define MEM_UNPACK_INLINE 248u	/* most pieces that a launch carries in its parameters */
#define MEM_UNPACK_THREADS 256u
/* warps of a block; each copies one piece at a time */
#define MEM_UNPACK_WARPS (MEM_UNPACK_THREADS / 32u)
#define MEM_UNPACK_WORDS 256u	/* whole 16-byte words that a warp copies in one step */
#define MEM_UNPACK_SM_BLOCKS 3u /* blocks that run on an SM at the same time */

/*
 * The parameter of mem_unpack_list, passed by value. A piece is a fragment whose `dst` is an
 * address. Length, source and destination of a piece may have any alignment, and a length of 0
 * moves nothing. Destinations do not overlap. An aligned 16-byte word that holds a byte of a
 * piece's source is readable as a whole. Nothing else is read, and nothing but destinations is
 * written.
 *
 * The block that ends last stores `serial` to *word. A thread that reads it there (acquire, any CPU
 * or GPU) sees all bytes in place, and sources, pieces and `state` are no longer accessed.
 */
struct mem_unpack_args {
	/* address of the bounce pool, a multiple of 16; `src` of a piece is an offset in it */
	uint64_t src;
	uint64_t pieces; /* struct base_frag [count], mapped host memory, a multiple of 16 */
	uint64_t word;	 /* address of a uint32_t in mapped host memory */
	/* address of a uint32_t in GPU memory, one per stream, which is 0 before the stream's first
	 * launch */
	uint64_t state;
	uint32_t serial, count;
	uint32_t blocks; /* number of blocks of the launch, 1 or more */
	uint32_t reserved;
};

/* The parameter of mem_unpack_inline, which contains the pieces, so that args.pieces is unused. A
 * driver accepts 4096 bytes of parameters. */
struct mem_unpack_inline_args {
	struct mem_unpack_args args;
	struct base_frag pieces[MEM_UNPACK_INLINE];
};

#endif
