/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the copy kernels: the division of a list among blocks, and the reference on the
 * CPU. */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"

/*
 * Checks the list and fills in the fields of args that belong to the plan; the caller sets pieces,
 * mark, state and serial. slot: the GPU address of byte 0 of the slot. blocks: 0: as many as the
 * rate of the bus needs; else that many, up to MEM_COPY_BLOCKS, as far as each gets a line of the
 * slot. ERR_INVALID: names what is wrong with the list; args is unchanged.
 */
tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args);

/*
 * The reference of both kernels, on this thread: the same words, read in the same order. It waits,
 * as a block does, if state says that another block is deciding whether to move. at: maps an
 * address of args or of a piece to a CPU address; NULL: the same address.
 */
void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes));

/* For references on the CPU. The decision of the first block to arrive, for all launches of the
 * list. 1: touch nothing. */
int mem_copy_stopped(struct mem_copy_mark *mark, struct mem_copy_state *state, uint32_t serial);
void *mem_copy_same_address(uint64_t addr, uint64_t bytes);

#endif
