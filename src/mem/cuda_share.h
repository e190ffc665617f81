/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of another session on this host: export, open, move. The driver calls take up to
 * milliseconds, so a separate thread makes them; it is started on demand.
 */
#ifndef MEM_CUDA_SHARE_H
#define MEM_CUDA_SHARE_H

#include "mem/kind.h"

tcpx_status mem_cuda_share(struct mem_share *share);
/* The address of the mapping for the device; 0: it is not open there yet. mem_cuda_move then lets
 * the thread open it first, which may take milliseconds. */
uint64_t mem_cuda_mapped_at(const struct mem_mapping *mapping, uint32_t device);
tcpx_status mem_cuda_move(struct mem_copy *copy);
/* Called when all requests are done; ends the thread. */
void mem_cuda_share_stop(void);

#endif
