/* SPDX-License-Identifier: Apache-2.0 */
/* The place of the buffers of one end. */
#include "perf_place.h"

#include "cli_values.h"

static const enum tcpx_mem_kind kinds[] = {TCPX_MEM_HOST, TCPX_MEM_CUDA};

struct perf_place perf_place_of(uint64_t value, uint32_t none)
{
	struct perf_place place = {.kind = kinds[cli_choice_index(value)]};

	if (place.kind == TCPX_MEM_CUDA)
		place.device = cli_choice_number(value, none);
	return place;
}

const char *perf_place_kind(enum tcpx_mem_kind kind)
{
	return kind == TCPX_MEM_CUDA ? "cuda" : "host";
}

tcpx_status perf_place_check(const struct perf_place *place)
{
	struct cli_gpu gpu;

	return place->kind == TCPX_MEM_CUDA ? cli_gpu_get(place->device, &gpu) : TCPX_OK;
}
