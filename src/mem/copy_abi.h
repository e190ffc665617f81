/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the copy kernels and the host. The kernel mem_gather copies scattered
 * pieces of GPU memory into one slot of mapped host memory, and mem_scatter copies a slot into
 * pieces. Both the C and the CUDA compiler read this file.
 */
#ifndef MEM_COPY_ABI_H
#define MEM_COPY_ABI_H

#include <stdint.h>

/* The type of words that the host and a kernel, or several blocks, access concurrently. */
#ifdef __CUDACC__
#define MEM_COPY_WORD uint32_t
#else
#define MEM_COPY_WORD _Atomic uint32_t
#endif

#define MEM_COPY_PIECES 4096u /* most pieces of one launch */
#define MEM_COPY_BYTES (4u << 20)
#define MEM_COPY_BLOCKS 64u /* most blocks of one launch */
#define MEM_COPY_THREADS 512u

/* One piece of GPU memory and its offset in the slot, in bytes. A list is sorted by slot_off, its
 * pieces do not overlap in the slot, and each piece has at least one byte. Bytes of the slot that
 * lie between pieces do not change. */
struct mem_copy_piece {
	uint64_t addr, length, slot_off;
};

/*
 * A list is copied by one launch, or by several launches in one stream with the same mark, state
 * and serial. Either the whole list is copied, or it is aborted and touches no memory. The first
 * block that runs in any of its launches decides this for all of them. Serials are even and not 0,
 * and consecutive lists have different serials.
 *
 * The mark is in mapped host memory; each list that may be under way has its own. Before the first
 * launch of a list the host sets `abort` and `stopped` to 0, and `started` to a value other than
 * the serial.
 *
 * The host stores `abort` and then loads `started`; the first block stores `started` and then loads
 * `abort`. All sides see these accesses in one order (seq_cst on the host, a system fence in the
 * kernel). So if the host has stored `abort` and then does not find the serial in `started`, no
 * block of the list has touched memory, and none will. An abort that the host stores after the
 * block's load has no effect. Pieces, mark and slot are in use until the stream has passed the
 * launches of the list; `stopped` does not change after that.
 */
struct mem_copy_mark {
	/* set by the host; if not 0, the list is aborted unless it has begun */
	MEM_COPY_WORD abort;
	MEM_COPY_WORD started; /* set to the serial by the first block, before it touches memory */
	/* set to 1 by the first block if it has read that `abort` is not 0 */
	MEM_COPY_WORD stopped;
};

/* The decision whether the current list is copied. Each stream has its own struct in GPU memory,
 * because launches in different streams may overlap. The host clears the struct once, before the
 * first launch, not for each list. The first block that stores its list's serial in `claimed`
 * decides for all blocks of that list. */
struct mem_copy_state {
	MEM_COPY_WORD claimed; /* serial of the latest list of which a block has begun */
	/* the decision: the serial if the list is copied, serial | MEM_COPY_STOP if it is
	 * aborted */
	MEM_COPY_WORD verdict;
};

#define MEM_COPY_STOP 1u

/*
 * The only parameter of the kernels, passed by value. Addresses are GPU addresses. A position is
 * the offset of a byte from the 128-byte line that holds the first byte of the slot. So a position
 * that is a multiple of 16 is an aligned address. `begin` and `share` are multiples of 128, so no
 * two blocks write to the same line of host memory. Block b copies the positions from `begin` + b *
 * `share` up to the first position of the next block; the last block ends at `end`. mem_copy_plan
 * fills in all fields after `serial`.
 *
 * The aligned 16-byte words that contain bytes of the slot are readable as a whole. Bytes of the
 * slot outside of pieces are never written, and GPU memory outside of pieces is neither read nor
 * written.
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
	/* For each block: the index of the first piece that ends after the first position of the
	 * block. The index is stored because a search in mapped memory costs a bus round trip per
	 * step. Elements from `blocks` on are `count`. */
	uint16_t first[MEM_COPY_BLOCKS + 1];
};

#endif
