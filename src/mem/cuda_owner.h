/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One thread per GPU, its owner, calls the driver; other threads queue copies for it. The owner
 * issues queued copies, contiguous ones as one, with at most two groups under way per direction,
 * and ends them in order. It sleeps when it has nothing to do. docs/design/gpu.md has the reasons.
 */
#ifndef MEM_CUDA_OWNER_H
#define MEM_CUDA_OWNER_H

#include "mem/kind.h"

#define MEM_CUDA_DEVICES 64 /* GPUs that a process can use */

/* If the process can use fewer cores than this, no owner spins before it sleeps, since that would
 * slow the threads that queue copies. Tests change it while no owner runs. */
extern unsigned mem_owner_cores_to_spin;

/* Starts the owner thread of the device if it does not run, and waits until it does. The thread
 * keeps a reference to the device. ERR_INVALID (no such device), ERR_UNSUPPORTED, ERR_NO_MEMORY,
 * ERR_LIMIT, ERR_SYSTEM (also: the device is broken). May take milliseconds. Any thread. */
tcpx_status mem_cuda_owner_start(uint32_t device);

/* Queues a copy: from the pieces into the slot (to_slot 1) or from the slot into the pieces (0).
 * Never blocks, unless the thread must be started first. On an error nothing was queued and done
 * is not called. Any thread. */
tcpx_status mem_cuda_owner_push(struct mem_copy *copy, int to_slot);

/* Queues a move: like mem_cuda_owner_push with to_slot 0, but copy->slot is any address that the
 * device can read. */
tcpx_status mem_cuda_owner_move(struct mem_copy *copy);

/* Wakes the owner of the device for copies of one direction: see mem_kind.rouse. Does nothing if
 * the owner is awake or has work under way, or never spins. */
void mem_cuda_owner_rouse(uint32_t device, int to_slot);

/* Returns 1 if the owner thread of the device runs and the device works. Any thread. */
int mem_cuda_owner_runs(uint32_t device);
/* Returns 1 if all running owners move lists by a kernel; 0: some do not, or no owner runs. Any
 * thread. */
int mem_cuda_owners_move_lists(void);

/* Ends the owner threads: see mem_kind.stop. */
void mem_cuda_owners_stop(void);

#endif
