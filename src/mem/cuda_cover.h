/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CUDA driver whether it exports pages of GPU memory. A plugin asks the driver the same
 * when it registers the memory. */
#ifndef MEM_CUDA_COVER_H
#define MEM_CUDA_COVER_H

#include "sys/cuda.h"

/*
 * Returns OK if the driver exports a dma-buf of [at, at + bytes), which must be whole pages of
 * device memory. The descriptor is closed at once. A driver before CUDA 11.7 cannot be asked; the
 * result is then OK if the pages lie in one allocation. Otherwise returns ERR_UNSUPPORTED, and the
 * last error names the pages, the driver's answer and the next step. The context of the GPU must be
 * current. May be slow.
 */
tcpx_status mem_cuda_cover(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes);

#endif
