/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the copy kernels and the host: mem_gather moves scattered GPU pieces into one slot of
 * mapped host memory, mem_scatter moves a slot into pieces. Read by the C and the CUDA compiler.
 */
#ifndef MEM_COPY_ABI_H
#define MEM_COPY_ABI_H

#include <stdint.h>

/* Words that host and kernel, or several blocks, access concurrently. */
#ifdef __CUDACC__
#define MEM_COPY_WORD uint32_t
#else
#define MEM_COPY_WORD _Atomic uint32_t
#endif

#define MEM_COPY_PIECES 4096u /* most pieces of one launch */
#define MEM_COPY_BYTES (4u << 20)
#define MEM_COPY_BLOCKS 64u /* most blocks of one launch */
#define MEM_COPY_THREADS 512u

/* One piece of GPU memory and its position in the slot, in bytes. A list is sorted by slot_off,
 * pieces do not overlap in the slot, and each has at least one byte. Gaps between pieces are
 * allowed, and the bytes of the slot in them do not change. */
struct mem_copy_piece {
	uint64_t addr, length, slot_off;
};

/*
 * A list is one launch, or several with the same mark, state and serial, in one stream. It moves
 * as a whole or touches nothing; the first block that arrives, of any of its launches, decides for
 * all of them. Serials are even and not 0, and consecutive lists have different ones.
 *
 * The mark is in mapped host memory, one per list that may be under way. Before the first launch
 * of a list the host sets abort and stopped to 0, and started to a value other than the serial.
 *
 * Order of accesses: the host stores abort and then loads started; the first block stores started
 * and then loads abort. All sides see these accesses in one order (seq_cst on the host, a system
 * fence in the kernel). So if the host has set abort and does not read the serial in started, then
 * no block of the list has touched anything, and none will. An abort after the block's load has no
 * effect. Pieces, mark and slot are in use until the stream has passed the launches of the list;
 * stopped does not change after that.
 */
struct mem_copy_mark {
	/* set by the host: not 0: touch nothing, unless the list has begun */
	MEM_COPY_WORD abort;
	MEM_COPY_WORD started; /* set by the first block to the serial, before it touches memory */
	/* set by the first block: 1: it saw abort, so the list touches nothing */
	MEM_COPY_WORD stopped;
};

/* One per stream, in GPU memory; the host clears it once, when it is made, not for each list.
 * Streams do not share one, because their launches may overlap. The first block that stores its
 * list's serial in `claimed` decides for all blocks of that list. */
struct mem_copy_state {
	MEM_COPY_WORD claimed; /* serial of the last list of which a block has arrived */
	/* its decision: the serial: the list moves; serial | MEM_COPY_STOP: it touches nothing */
	MEM_COPY_WORD verdict;
};

#define MEM_COPY_STOP 1u

/*
 * The only parameter of the kernels, by value. Addresses are GPU addresses. Positions are bytes
 * from the 128-byte line that holds the first byte of the slot, so that a multiple of 16 is an
 * aligned address, and no two blocks write to one line of the host. Block b moves positions from
 * begin + b * share up to those of the next block. mem_copy_plan fills in everything below serial.
 *
 * The 16-byte words that hold bytes of the slot are readable as a whole. Bytes of the slot outside
 * of pieces are never written, and GPU memory outside of pieces is neither read nor written.
 */
struct mem_copy_args {
	uint64_t pieces; /* struct mem_copy_piece [count], in mapped host memory */
	uint64_t mark;	 /* struct mem_copy_mark, in mapped host memory */
	uint64_t state;	 /* struct mem_copy_state, in GPU memory */
	uint32_t serial; /* even, not 0 */
	uint32_t count;
	uint64_t slot;
	uint32_t begin, end, share;
	uint32_t blocks; /* number of blocks of the launch */
	/* Per block: the first piece that extends beyond the first position of the block. It is
	 * stored, because a search in mapped memory costs a bus round trip per step. */
	uint16_t first[MEM_COPY_BLOCKS + 1];
};

#endif
