/* SPDX-License-Identifier: Apache-2.0 */
/* --ceiling with GPU memory: the rate of one copy engine between the GPU and pinned host memory,
 * and of copies from GPU to GPU. Copies run back to back on one stream, without libtcpx and
 * without kernels. */
#ifndef TOOLS_CEILING_GPU_H
#define TOOLS_CEILING_GPU_H

#include <stdint.h>

#include <tcpx/types.h>

/* size of the pinned ring, and then also of the buffers of plain sockets */
#define CEILING_RING_BYTES (64ull << 20)
#define CEILING_GPU_BYTES (256ull << 20) /* most GPU memory that is copied from or to */

enum ceiling_way { CEILING_D2H, CEILING_H2D };

/* Bytes per second of 4-MiB copies through the ring, the median of five; about 1 GiB each, less
 * where that takes long. ERR_UNSUPPORTED, ERR_INVALID (device), ERR_NO_MEMORY, ERR_SYSTEM. */
tcpx_status ceiling_gpu_copy(uint32_t device, enum ceiling_way way, uint64_t *out_rate);

/* The same between two GPUs of this process, in copies of the whole memory; 0 where one cannot
 * reach the other. */
tcpx_status ceiling_gpu_peer(uint32_t from, uint32_t to, uint64_t *out_rate);

/* Rates along the path, by direction (0: to the server, 1: back); 0: not on the path. */
struct ceiling_rates {
	double tcp; /* all directions together */
	double d2h[2], h2d[2];
	double peer; /* from GPU to GPU, all directions together */
	int direct;  /* the path may copy from GPU to GPU; then peer is its ceiling */
};

/* The smallest ceiling: tcp, or the sum over the directions of the slower copy engine of each;
 * or peer. directions: bit 0, bit 1. Returns 0 if nothing was measured. */
double ceiling_smallest(const struct ceiling_rates *rates, unsigned directions);

#endif
