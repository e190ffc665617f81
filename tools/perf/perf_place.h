/* SPDX-License-Identifier: Apache-2.0 */
/* Where the buffers of one end lie: a kind of memory, and of GPUs which one. */
#ifndef TOOLS_PERF_PLACE_H
#define TOOLS_PERF_PLACE_H

#include "cli_gpu.h"

#define PERF_MEMS "host|cuda[:N]"
#define PERF_DEVICE_FIRST UINT32_MAX /* of another process: the first it may use */

struct perf_place {
	enum tcpx_mem_kind kind;
	uint32_t device; /* ordinal in the process that has the buffers; 0 but for a GPU */
};

/* The value of an option over PERF_MEMS; none: the device where none is given. */
struct perf_place perf_place_of(uint64_t value, uint32_t none);

/* "host", "cuda". */
const char *perf_place_kind(enum tcpx_mem_kind kind);

/* Whether this process has such memory: TCPX_OK, or why not, with the next step. */
tcpx_status perf_place_check(const struct perf_place *place);

#endif
