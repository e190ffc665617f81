/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the move kernel: divides a list of pieces among the blocks of a launch, and
 * copies a list on the CPU (reference implementation). */
#ifndef MEM_MOVE_H
#define MEM_MOVE_H

#include <tcpx/types.h>

#include "mem/move_abi.h"

/*
 * Checks the list, sets `unit` of each piece, divides the units among the blocks of one launch, and
 * fills in args->count and all later fields of `args`. The caller has set args->pieces, mark, state
 * and serial. `blocks` (1 .. MEM_MOVE_BLOCKS) is the most blocks that the launch may have; a short
 * list gets fewer. Returns ERR_INVALID if the list or `blocks` is not valid; the last error then
 * says why.
 */
tcpx_status mem_move_plan(struct mem_move_piece *pieces, uint32_t count, uint32_t blocks,
			  struct mem_move_args *args);

/* Copies a list on the calling thread as the kernel does, block by block and unit by unit. `at`
 * maps an address of `args` or of a piece to a CPU address; if `at` is NULL, the addresses are CPU
 * addresses. */
void mem_move_cpu(const struct mem_move_args *args, void *(*at)(uint64_t addr, uint64_t bytes));

#endif
