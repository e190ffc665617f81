/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of another session on this host: export, open, move. Driver calls to export and open
 * take up to milliseconds, so a thread of its own (the sharing thread) makes them; it is started
 * on demand.
 */
#ifndef MEM_CUDA_SHARE_H
#define MEM_CUDA_SHARE_H

#include "mem/kind.h"

/* See mem_kind.share: queues the request for the sharing thread. */
tcpx_status mem_cuda_share(struct mem_share *share);
/* See mem_kind.mapped_at: the address of the mapping for the device; 0: the mapping is not open on
 * the device yet. */
uint64_t mem_cuda_mapped_at(const struct mem_mapping *mapping, uint32_t device);
/* See mem_kind.move. If the mapping is not open on the device yet, the sharing thread opens it
 * first, which may take milliseconds. */
tcpx_status mem_cuda_move(struct mem_copy *copy);
/* Ends the sharing thread after the last request. Called when no session is left. */
void mem_cuda_share_stop(void);

#endif
