/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread per GPU, the owner, calls the driver; other threads queue copies for it. The owner
 * issues queued copies, contiguous ones as one, with at most two groups under way per direction,
 * and ends them in order. It sleeps when idle. docs/design/gpu.md has the reasons.
 */
#ifndef MEM_CUDA_OWNER_H
#define MEM_CUDA_OWNER_H

#include "mem/kind.h"

#define MEM_CUDA_DEVICES 64 /* GPUs that a process can use */

/* With fewer cores no owner spins, since that would slow the threads that queue copies. Tests
 * change it while no owner runs. */
extern unsigned mem_owner_cores_to_spin;

/* Starts the thread of the device, which holds the device. ERR_INVALID (no such device),
 * ERR_UNSUPPORTED, ERR_NO_MEMORY, ERR_LIMIT, ERR_SYSTEM (also: the device is broken). May take
 * milliseconds. Any thread. */
tcpx_status mem_cuda_owner_start(uint32_t device);

/* Queues a copy; to_slot: from the pieces into the slot. Never blocks, except for a first copy that
 * starts the thread. On an error nothing was queued and done is not called. Any thread. */
tcpx_status mem_cuda_owner_push(struct mem_copy *copy, int to_slot);

/* The same for a move: copy->slot is an address that the device can access. */
tcpx_status mem_cuda_owner_move(struct mem_copy *copy);

/* See mem_kind.rouse. Does nothing where cores are scarce. */
void mem_cuda_owner_rouse(uint32_t device, int to_slot);

/* Returns 1 if the owner thread runs and the device works. Any thread. */
int mem_cuda_owner_runs(uint32_t device);
/* Returns 1 if all running owners move lists by a kernel; 0: not all do, or none runs. Any
 * thread. */
int mem_cuda_owners_move_lists(void);

/* Ends the owner threads: see mem_kind.stop. */
void mem_cuda_owners_stop(void);

#endif
