/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the buffers of one end: a kind of memory, and which GPU. */
#ifndef TOOLS_PERF_PLACE_H
#define TOOLS_PERF_PLACE_H

#include "cli_gpu.h"

#define PERF_MEMS "host|cuda[:N]"
#define PERF_DEVICE_FIRST UINT32_MAX /* at the other process: the first GPU that it may use */

struct perf_place {
	enum tcpx_mem_kind kind;
	uint32_t device; /* ordinal in the process that has the buffers; 0 without a GPU */
};

/* Converts an option value over PERF_MEMS; none: the device if none is given. */
struct perf_place perf_place_of(uint64_t value, uint32_t none);

/* "host", "cuda". */
const char *perf_place_kind(enum tcpx_mem_kind kind);

/* Checks that this process has such memory; the error has the next step. */
tcpx_status perf_place_check(const struct perf_place *place);

#endif
