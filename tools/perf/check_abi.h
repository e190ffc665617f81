/* SPDX-License-Identifier: Apache-2.0 */
/* The only parameter of the kernels perf_fill and perf_check, by value. C and CUDA read it. */
#ifndef TOOLS_CHECK_ABI_H
#define TOOLS_CHECK_ABI_H

#include <stdint.h>

struct gpu_check_args {
	uint64_t buf, bytes; /* GPU memory, any alignment */
	uint64_t pos, key;   /* the pattern's at the first byte (perf_pattern.h) */
	uint64_t result;     /* struct gpu_check_result in GPU memory; of perf_check alone */
	uint32_t poison;     /* not 0: every byte is PERF_POISON instead */
	uint32_t reserved;
};

/* Before the first launch wrong is 0 and first is UINT64_MAX; launches add to it. */
struct gpu_check_result {
	uint64_t wrong, first; /* bytes; offset of the first one in buf */
};

#endif
