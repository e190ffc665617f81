/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the CUDA driver whether pages of GPU memory can be exported, as a plugin will ask it. */
#ifndef MEM_CUDA_COVER_H
#define MEM_CUDA_COVER_H

#include "sys/cuda.h"

/*
 * Asks whether the driver exports a dma-buf of [at, at + bytes), whole pages of device memory. The
 * descriptor is closed at once. OK: yes; with a driver that is too old to be asked (before CUDA
 * 11.7), the pages lie in one allocation. ERR_UNSUPPORTED: no; the last error names the pages, the
 * driver's answer and the next step. The context of the GPU must be current. May be slow.
 */
tcpx_status mem_cuda_cover(const struct sys_cuda_gpu *gpu, cuda_ptr at, uint64_t bytes);

#endif
