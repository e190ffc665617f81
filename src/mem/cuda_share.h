/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory shared by the sessions of one host: exports it, opens it, and queues moves that use
 * it. Driver calls that export or open memory take up to milliseconds, so a separate thread (the
 * sharing thread) makes them. The thread is started on demand.
 */
#ifndef MEM_CUDA_SHARE_H
#define MEM_CUDA_SHARE_H

#include "mem/kind.h"

/* See mem_kind.share: queues the request for the sharing thread. */
tcpx_status mem_cuda_share(struct mem_share *share);
/* See mem_kind.mapped_at. Returns the address of the mapped region on the device, or 0 if the
 * mapping is not open there yet. *out_within is 1 if the memory is the device's own. */
uint64_t mem_cuda_mapped_at(const struct mem_mapping *mapping, uint32_t device, int *out_within);
/* Queues a move (mem_kind.move). If copy->from is a mapping that is not open on the device yet, the
 * sharing thread opens it before, which may take milliseconds. */
tcpx_status mem_cuda_move(struct mem_copy *copy);
/* Ends the sharing thread when it has carried out all queued requests and passed on all moves.
 * Waits for its end. Called when no session is open. */
void mem_cuda_share_stop(void);

#endif
