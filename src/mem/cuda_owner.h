/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread a GPU talks to the driver; everybody else queues copies for it. It issues what is
 * queued, neighbours as one copy, behind at most two groups of copies under way in each direction,
 * and ends them in order. Idle it sleeps. docs/design/gpu.md has the reasons.
 */
#ifndef MEM_CUDA_OWNER_H
#define MEM_CUDA_OWNER_H

#include "mem/kind.h"

#define MEM_CUDA_DEVICES 64 /* of a process */

/* The thread of the device runs when it returns TCPX_OK, and holds the device. ERR_INVALID (no such
 * device), ERR_UNSUPPORTED, ERR_NO_MEMORY, ERR_LIMIT, ERR_SYSTEM (also: the device is broken).
 * May take milliseconds. Any thread. */
tcpx_status mem_cuda_owner_start(uint32_t device);

/* Queues a copy, to_slot: from the pieces into the slot. Never blocks, but for a first copy that
 * starts the thread. On an error nothing was queued and done is not called. Any thread. */
tcpx_status mem_cuda_owner_push(struct mem_copy *copy, int to_slot);

/* The same for a move: copy->slot is an address that the device reaches by itself. */
tcpx_status mem_cuda_owner_move(struct mem_copy *copy);

/* 1: its thread runs, and the device works. Any thread. */
int mem_cuda_owner_runs(uint32_t device);

/* See mem_kind.stop. */
void mem_cuda_owners_stop(void);

#endif
