/* SPDX-License-Identifier: Apache-2.0 */
/* The host's half of the copy kernels: dividing a list among blocks, and the reference by CPU. */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"

/*
 * Checks the list and fills in what args says mem_copy_plan makes; pieces, mark, state and serial
 * are the caller's. slot: the address of the slot's byte 0 as the GPU sees it. blocks: 0: as many
 * as reach the bus's rate and no more; else so many, up to MEM_COPY_BLOCKS, as far as each gets a
 * line of the slot. ERR_INVALID: names what is wrong with the list; args is untouched.
 */
tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args);

/*
 * The reference of both kernels, on this thread: the same words, the same order of looks at them.
 * Waits, as a block does, where state says that somebody else is finding out whether to move. at:
 * where the CPU finds the bytes at an address of args or of a piece; NULL: at that address.
 */
void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes));

#endif
