/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory a run may fill. Larger runs are refused, because the kernel would kill a
 * process. */
#ifndef TOOLS_PERF_MEMORY_H
#define TOOLS_PERF_MEMORY_H

#include <stdint.h>

#define PERF_MEMORY_UNKNOWN UINT64_MAX

struct perf_memory {
	uint64_t available; /* MemAvailable of the host, or PERF_MEMORY_UNKNOWN */
	uint64_t room;	    /* room in the fullest cgroup of this process, or PERF_MEMORY_UNKNOWN */
	uint64_t group;	    /* identifies that cgroup on the host; 0: none */
};

/* root is "" for this process; tests pass a folder with proc/ and sys/. */
void perf_memory_read(const char *root, struct perf_memory *out);

/* The part of the free bytes that a run may fill; the rest stays for the kernel and the library. */
uint64_t perf_memory_usable(uint64_t free_bytes);

/* Bytes that this process may fill now, or PERF_MEMORY_UNKNOWN. */
uint64_t perf_memory_free(void);

#endif
