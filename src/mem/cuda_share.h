/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPU memory of another session on this host: exported, opened, moved from. The calls of the driver
 * take up to milliseconds, so a thread of their own makes them, started when there is something to
 * do.
 */
#ifndef MEM_CUDA_SHARE_H
#define MEM_CUDA_SHARE_H

#include "mem/kind.h"

tcpx_status mem_cuda_share(struct mem_share *share);
/* A device that the mapping was not opened on yet: first by the thread above, which may take
 * milliseconds. */
tcpx_status mem_cuda_move(struct mem_copy *copy);
/* All that was asked for is done. */
void mem_cuda_share_stop(void);

#endif
