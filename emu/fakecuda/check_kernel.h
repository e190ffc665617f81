/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of check.cu on the CPU, for the driver's stand-in. */
#ifndef FAKECUDA_CHECK_KERNEL_H
#define FAKECUDA_CHECK_KERNEL_H

#include <string.h>

#include "check_abi.h"
#include "perf_layout.h"
#include "perf_pattern.h"

/* Where the CPU may touch device memory, or NULL: one that runs after a wait that was made to fail
 * finds its memory gone. */
typedef void *check_kernel_at(uint64_t addr, uint64_t bytes);

static inline tcpx_status check_kernel_go_on(const void *arg)
{
	(void)arg;
	return TCPX_OK;
}

static inline void check_kernel_fill(const struct gpu_check_args *a, check_kernel_at *at)
{
	void *buf = at(a->buf, a->bytes);

	if (!buf)
		return;
	if (a->poison)
		memset(buf, PERF_POISON, a->bytes);
	else
		perf_pattern_fill(buf, a->pos, a->bytes, a->key);
}

static inline tcpx_status check_kernel_layout(const struct gpu_check_layout_args *a,
					      check_kernel_at *at)
{
	static const struct perf_leave leave = {check_kernel_go_on, NULL};
	struct gpu_check_result *result = at(a->result, sizeof(*result));
	const void *buf = at(a->buf, a->bytes);
	uint64_t table = a->slots * sizeof(uint32_t);
	struct perf_layout layout = {
		.working_set = a->bytes,
		.piece = a->piece,
		.stride = a->stride,
		.batch = 1,
		.transfers = a->slots,
		.dst_piece = a->dst_piece ? at(a->dst_piece, table) : NULL,
		.src_slot = a->src_slot ? at(a->src_slot, table) : NULL,
	};
	struct perf_wrong wrong;
	tcpx_status status;

	if (!result || !buf)
		return TCPX_OK;
	status = perf_layout_check(&layout, buf, a->with_data, a->key, &leave, &wrong);
	if (status != TCPX_OK)
		return status;
	result->wrong += wrong.count;
	if (wrong.count && wrong.first < result->first)
		result->first = wrong.first;
	return TCPX_OK;
}

#endif
