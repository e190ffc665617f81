/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each GPU has a thread, its owner, which makes the driver's calls for copies. Other threads queue
 * copies for it. The owner merges contiguous copies, has at most two groups of copies under way per
 * direction, and ends groups in order. It sleeps when it has nothing to do. docs/design/gpu.md has
 * the reasons.
 */
#ifndef MEM_CUDA_OWNER_H
#define MEM_CUDA_OWNER_H

#include "mem/kind.h"

#define MEM_CUDA_DEVICES 64 /* most GPUs that a process can use */

/* If the process can use fewer cores than this, owner threads do not spin before they sleep,
 * because they would slow down the threads that queue copies. Tests change it while no owner thread
 * runs. */
extern unsigned mem_owner_cores_to_spin;

/* Starts the owner thread of the device if it does not run, and waits until it does. The thread
 * holds a reference to the device. Returns ERR_INVALID (no such device), ERR_UNSUPPORTED,
 * ERR_NO_MEMORY, ERR_LIMIT, or ERR_SYSTEM (also if the device is broken). May take milliseconds.
 * Any thread. */
tcpx_status mem_cuda_owner_start(uint32_t device);

/* Queues a copy: from the pieces into the slot if `to_slot` is 1, from the slot into the pieces if
 * it is 0. Blocks only if the owner thread must be started first. After an error nothing is queued,
 * and `done` is not called. Any thread. */
tcpx_status mem_cuda_owner_push(struct mem_copy *copy, int to_slot);

/* Queues a move: like mem_cuda_owner_push with `to_slot` 0, but copy->slot may be any address that
 * the device can read, and the pieces any memory that it can write. */
tcpx_status mem_cuda_owner_move(struct mem_copy *copy);

/* Wakes the owner thread of the device, because copies of this kind will follow soon: see
 * mem_kind.rouse. Does nothing if the thread does not run, is awake, has work under way, or never
 * spins. */
void mem_cuda_owner_rouse(uint32_t device, enum mem_call what);

/* Returns 1 if the owner thread of the device runs and the device works. Any thread. */
int mem_cuda_owner_runs(uint32_t device);
/* Returns 1 if at least one owner runs, and all running owners have a kernel that moves lists of
 * pieces. Any thread. */
int mem_cuda_owners_move_lists(void);

/* Ends the owner threads: see mem_kind.stop. */
void mem_cuda_owners_stop(void);

#endif
