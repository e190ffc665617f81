/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU with a bounce pool and memory to unpack to, and the CPU's picture of both. */
#ifndef GPU_UNPACK_H
#define GPU_UNPACK_H

#include "base/error.h"
#include "base/rng.h"
#include "check.h"
#include "mem/unpack.h"
#include "sys/cuda.h"

#define UNPACK_PAGE 8192u

struct unpack_gpu {
	struct sys_cuda_gpu *gpu, *peer; /* peer: where memory is; the same, or another for relay */
	const struct sys_cuda *api;
	struct sys_cuda_scope scope;
	cuda_ptr pool, memory;
	size_t pool_bytes, memory_bytes;
	uint8_t *pool_image;  /* what lies in the pool */
	uint8_t *want, *have; /* memory as it should be; room to read it back */
};

#define UNPACK_MUST(unpack_call)                                                                   \
	do {                                                                                       \
		cuda_result unpack_result = (unpack_call);                                         \
		if (unpack_result != CUDA_OK)                                                      \
			unpack_gpu_fail(__FILE__, __LINE__, unpack_result, #unpack_call);          \
	} while (0)
#define UNPACK_OK(unpack_call)                                                                     \
	CHECK_MSG((unpack_call) == TCPX_OK, "%s: %s", #unpack_call, error_last()->what)

__attribute__((noreturn)) void unpack_gpu_fail(const char *file, int line, cuda_result result,
					       const char *call);

/* Skips the case where there is no driver, device or (relay) second device with peer access. The
 * GPU's context is current from here on. One a process, never taken down. */
struct unpack_gpu *unpack_gpu_open(size_t pool_bytes, size_t memory_bytes, int relay,
				   struct rng *rng);

/* Skips the case where this mode is not in the build. */
struct mem_unpack *unpack_gpu_unpacker(struct unpack_gpu *g, enum mem_unpack_mode mode);

/* The tables of gpu_unpack --bench. arg: int: memory is another GPU's. */
void unpack_bench_run(void *arg);

#endif
