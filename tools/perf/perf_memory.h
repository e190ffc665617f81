/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a run may fill, so that it is refused before the kernel kills for it. */
#ifndef TOOLS_PERF_MEMORY_H
#define TOOLS_PERF_MEMORY_H

#include <stdint.h>

#define PERF_MEMORY_UNKNOWN UINT64_MAX

struct perf_memory {
	uint64_t available; /* of the host: MemAvailable; PERF_MEMORY_UNKNOWN: not told */
	uint64_t room;	    /* in the fullest of this process's cgroups; PERF_MEMORY_UNKNOWN */
	uint64_t group;	    /* identifies that cgroup among the processes of the host; 0: none */
};

/* root is "" for this process; a test gives a folder that has proc/ and sys/. */
void perf_memory_read(const char *root, struct perf_memory *out);

/* Of so many free bytes those that a run may fill: a part stays for the kernel and the library. */
uint64_t perf_memory_usable(uint64_t free_bytes);

/* Bytes that this process may fill now. PERF_MEMORY_UNKNOWN where nothing tells. */
uint64_t perf_memory_free(void);

#endif
