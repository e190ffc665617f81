/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a run may fill. */
#ifndef TOOLS_PERF_MEMORY_H
#define TOOLS_PERF_MEMORY_H

#include <stdint.h>

/* Bytes: what the kernel says is available, at most the limits of this process's cgroups.
 * UINT64_MAX where nobody tells. */
uint64_t perf_memory_free(void);

#endif
