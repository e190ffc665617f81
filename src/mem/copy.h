/* SPDX-License-Identifier: Apache-2.0 */
/* The host side of the copy kernels: divides a list of pieces among the blocks of a launch, and
 * copies a list on the CPU (reference implementation). */
#ifndef MEM_COPY_H
#define MEM_COPY_H

#include <tcpx/types.h>

#include "mem/copy_abi.h"

/*
 * Checks the list, divides it among the blocks of one launch, and fills in args->count and all
 * later fields of `args`. The caller has set args->pieces, mark, state and serial.
 * `slot` is the GPU address of byte 0 of the slot. `blocks` is the most blocks that the launch may
 * have, up to MEM_COPY_BLOCKS; 0 means as many as the rate of the bus needs. The launch has fewer
 * blocks if some would get no 128-byte line of the slot. Returns ERR_INVALID if the list is not
 * valid; the last error then says why, and `args` is unchanged.
 */
tcpx_status mem_copy_plan(const struct mem_copy_piece *pieces, uint32_t count, uint64_t slot,
			  uint32_t blocks, struct mem_copy_args *args);

/*
 * Copies a list on the calling thread as the kernels do: into the slot if `to_slot` is 1
 * (mem_gather), out of it if `to_slot` is 0 (mem_scatter). Accesses the words of mark and state in
 * the same order as the kernels, and waits like a block while another block decides whether the
 * list is copied. `at` maps an address of `args` or of a piece to a CPU address; if `at` is NULL,
 * the addresses are CPU addresses.
 */
void mem_copy_cpu(const struct mem_copy_args *args, int to_slot,
		  void *(*at)(uint64_t addr, uint64_t bytes));

/* Returns nonzero if the list is aborted and must touch no memory. The first call for a list
 * decides whether the list is copied or aborted; other calls for the list wait for that decision.
 * For reference implementations on the CPU. */
int mem_copy_stopped(struct mem_copy_mark *mark, struct mem_copy_state *state, uint32_t serial);
/* Returns `addr` as a pointer. The reference implementations call this if their `at` is NULL. */
void *mem_copy_same_address(uint64_t addr, uint64_t bytes);

#endif
