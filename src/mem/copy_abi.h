/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the copy kernels and the host agree on: mem_gather moves scattered GPU pieces into one slot
 * of mapped host memory, mem_scatter a slot into pieces. Read by the C and the CUDA compiler.
 */
#ifndef MEM_COPY_ABI_H
#define MEM_COPY_ABI_H

#include <stdint.h>

/* Words that several touch at once: host and kernel, or blocks. */
#ifdef __CUDACC__
#define MEM_COPY_WORD uint32_t
#else
#define MEM_COPY_WORD _Atomic uint32_t
#endif

#define MEM_COPY_PIECES 4096u /* of one launch */
#define MEM_COPY_BYTES (4u << 20)
#define MEM_COPY_BLOCKS 64u /* the most of a launch */
#define MEM_COPY_THREADS 512u

/* One piece of GPU memory and its place in the slot. A list is ascending in slot_off, pieces do not
 * overlap in the slot, each has a byte or more; gaps are legal and left alone. */
struct mem_copy_piece {
	uint64_t addr, length, slot_off;
};

/*
 * A list is one launch or several with the same mark, state and serial, in one stream. It moves as
 * a whole or touches nothing; which, the first of its blocks to arrive finds out, for all of them.
 * Serials are even and not 0, and lists in a row do not have the same.
 *
 * In mapped host memory, one per list that may be under way. Before its first launch the host makes
 * abort and stopped 0 and started something else than the serial.
 *
 * abort, then started: the host stores abort and afterwards loads started; that block stores
 * started and afterwards loads abort, both in one order that all see (seq_cst here, a system fence
 * there). So a host that set abort and does not read the serial in started knows: no block of the
 * list has touched anything, and none will. An abort that comes later is not heard. Pieces, mark
 * and slot are in use until the stream is behind the launches, which also makes stopped final.
 */
struct mem_copy_mark {
	MEM_COPY_WORD abort;   /* host: not 0 = touch nothing, unless it has begun */
	MEM_COPY_WORD started; /* kernel: the serial, before anything is touched */
	MEM_COPY_WORD stopped; /* kernel: 1 = abort was seen, nothing was or will be touched */
};

/* In GPU memory, all zero before the first launch. For the lists of one stream: launches that may
 * overlap have one each. */
struct mem_copy_state {
	MEM_COPY_WORD claimed; /* the serial of the list whose agreement a block has taken on */
	MEM_COPY_WORD verdict; /* what it found: the serial, with MEM_COPY_STOP: touch nothing */
};

#define MEM_COPY_STOP 1u

/*
 * The kernels' only parameter, by value. Addresses are those the GPU uses. Positions are bytes from
 * the 128-byte line that holds the slot's first byte, so that a multiple of 16 is an aligned
 * address and no two blocks write one line of the host. Block b moves positions begin + b * share
 * up to the next block's. Everything below the serial is made by mem_copy_plan.
 *
 * The 16-byte words that hold the slot's bytes are readable as a whole; bytes of the slot that
 * belong to no piece are never written, nor is GPU memory outside of pieces read or written.
 */
struct mem_copy_args {
	uint64_t pieces; /* struct mem_copy_piece [count], mapped host memory */
	uint64_t mark;	 /* struct mem_copy_mark, mapped host memory */
	uint64_t state;	 /* struct mem_copy_state, GPU memory */
	uint32_t serial; /* even, not 0 */
	uint32_t count;
	uint64_t slot;
	uint32_t begin, end, share;
	uint32_t blocks; /* the launch's grid */
	/* By block: the first piece that reaches beyond the block's first position. Given, not
	 * searched for: a search in mapped memory costs a bus round trip a step. */
	uint16_t first[MEM_COPY_BLOCKS + 1];
};

#endif
