/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the check kernels, passed by value and read by C and CUDA. */
#ifndef TOOLS_CHECK_ABI_H
#define TOOLS_CHECK_ABI_H

#include <stdint.h>

struct gpu_check_args {
	uint64_t buf, bytes; /* GPU memory, any alignment */
	uint64_t pos, key;   /* state of the pattern at the first byte (perf_pattern.h) */
	uint64_t result;     /* struct gpu_check_result in GPU memory; used by perf_check only */
	uint32_t poison;     /* not 0: every byte must be PERF_POISON instead */
	uint32_t reserved;
};

/* Parameters of perf_check_layout: a whole destination of perf_layout.h. */
struct gpu_check_layout_args {
	uint64_t buf, bytes;
	uint64_t stride, piece;	      /* bytes: slot s begins at s * stride */
	uint64_t dst_piece, src_slot; /* tables of uint32_t in GPU memory; 0: in order */
	uint64_t key, result;
	uint32_t slots;
	uint32_t with_data; /* pieces below it hold the pattern, every other byte is poison */
};

/* The caller sets wrong to 0 and first to UINT64_MAX before the first launch; launches add to
 * it. */
struct gpu_check_result {
	uint64_t wrong, first; /* bytes; offset of the first one in buf */
};

#endif
