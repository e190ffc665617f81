/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the move kernel: divides a list of pieces among the blocks of a launch, and
 * moves a list on the CPU (reference implementation). */
#ifndef MEM_MOVE_H
#define MEM_MOVE_H

#include <tcpx/types.h>

#include "mem/move_abi.h"

/*
 * Checks the list, sets unit of each piece, divides the units among the blocks of one launch and
 * fills in the fields of args from count on; the caller sets pieces, mark, state and serial.
 * blocks: the most blocks of the launch, 1 .. MEM_MOVE_BLOCKS; a short list gets fewer.
 * ERR_INVALID: the last error says what is wrong with the list.
 */
tcpx_status mem_move_plan(struct mem_move_piece *pieces, uint32_t count, uint32_t blocks,
			  struct mem_move_args *args);

/* Moves a list on the calling thread as the kernel does, block by block and unit by unit. at: maps
 * an address of args or of a piece to a CPU address; NULL: addresses are CPU addresses. */
void mem_move_cpu(const struct mem_move_args *args, void *(*at)(uint64_t addr, uint64_t bytes));

#endif
