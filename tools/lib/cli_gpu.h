/* SPDX-License-Identifier: Apache-2.0 */
/* Properties of this machine's GPUs according to the CUDA driver; no function here creates a
 * context. */
#ifndef TOOLS_CLI_GPU_H
#define TOOLS_CLI_GPU_H

#include <stdint.h>

#include <tcpx/types.h>

#define CLI_GPU_UUID_BYTES 16

struct cli_gpu {
	uint32_t ordinal; /* of this process */
	char name[64];
	char pci[16]; /* "0000:17:00.0" */
	int numa;     /* node of the host memory next to it; -1: unknown */
	uint64_t bytes;
	unsigned sms, capability; /* 10 x major + minor */
	unsigned copy_engines;
	uint8_t uuid[CLI_GPU_UUID_BYTES]; /* the same in every process, wherever it runs */
};

/* The number of GPUs that this process sees, and the version of the driver, 1000 x major + 10 x
 * minor. ERR_UNSUPPORTED with the cause. */
tcpx_status cli_gpu_count(uint32_t *out_count, int *out_version);

/* ERR_UNSUPPORTED (no driver); ERR_INVALID (no such GPU: says how many there are); ERR_SYSTEM. */
tcpx_status cli_gpu_get(uint32_t ordinal, struct cli_gpu *out_gpu);

/* 1 if the first can access the memory of the other directly. */
int cli_gpu_reaches(uint32_t ordinal, uint32_t other);

/* The ordinal of a GPU in this process. 0, or -1 if this process does not see it. */
int cli_gpu_find(const uint8_t uuid[CLI_GPU_UUID_BYTES], uint32_t *out_ordinal);

#endif
