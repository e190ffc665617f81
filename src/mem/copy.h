/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the copy kernels: the division of a list among blocks, and the reference
 * implementation on the CPU. */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"

/*
 * Checks the list and fills in the fields of args that belong to the plan; the caller sets pieces,
 * mark, state and serial. slot: the GPU address of byte 0 of the slot. blocks: number of blocks, up
 * to MEM_COPY_BLOCKS, fewer if some would get no line of the slot; 0: as many as the rate of the
 * bus needs. ERR_INVALID: names what is wrong with the list; args is unchanged.
 */
tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args);

/*
 * The reference implementation of both kernels, on the calling thread. It accesses the words of
 * mark and state in the same order. It waits, as a block does, while state says that another block
 * is deciding whether to move. at: maps an address of args or of a piece to a CPU address; NULL:
 * the same address.
 */
void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes));

/* For reference implementations on the CPU: the decision of the first block to arrive, for all
 * launches of the list. Returns nonzero if the list must touch nothing. */
int mem_copy_stopped(struct mem_copy_mark *mark, struct mem_copy_state *state, uint32_t serial);
void *mem_copy_same_address(uint64_t addr, uint64_t bytes);

#endif
