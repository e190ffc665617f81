/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the copy kernels: divides a list of pieces among the blocks of a launch, and
 * copies a list on the CPU (reference implementation). */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"

/*
 * Checks the list, divides it among the blocks of one launch and fills in the fields of args from
 * count on; the caller sets pieces, mark, state and serial. slot: the GPU address of byte 0 of the
 * slot. blocks: the most blocks of the launch, up to MEM_COPY_BLOCKS, of which fewer are used if
 * some would get no line of the slot; 0: as many as the rate of the bus needs. ERR_INVALID: the
 * last error says what is wrong with the list, and args is unchanged.
 */
tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args);

/*
 * Copies a list on the calling thread as the kernels do: into the slot (to_slot 1: mem_gather) or
 * out of it (0: mem_scatter). It accesses the words of mark and state in the order of the kernels.
 * It waits, as a block does, while state says that another block is deciding whether to move. at:
 * maps an address of args or of a piece to a CPU address; NULL: addresses are CPU addresses.
 */
void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes));

/* For reference implementations on the CPU: decides whether the list moves if no launch of the
 * list has decided yet, else waits for that decision. Returns nonzero if the list must touch
 * nothing. */
int mem_copy_stopped(struct mem_copy_mark *mark, struct mem_copy_state *state, uint32_t serial);
/* Returns addr as a pointer: the default of `at` in the reference implementations. */
void *mem_copy_same_address(uint64_t addr, uint64_t bytes);

#endif
