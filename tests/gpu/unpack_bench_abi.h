/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernels of gpu_unpack --bench and the host agree on. C and CUDA read it. */
#ifndef UNPACK_BENCH_ABI_H
#define UNPACK_BENCH_ABI_H

#include "mem/unpack_abi.h"

#define UNPACK_RING 8u		 /* lists that may be published and not over */
#define UNPACK_RING_PIECES 1024u /* of a list */
#define UNPACK_RING_STOP 0xffffffffu

/*
 * unpack_ring stays until it is told to stop, and polls mapped host memory: list n (from 1) is
 * there when the upper half of heads[n % UNPACK_RING] is n; the lower half is its count, or
 * UNPACK_RING_STOP. Its end is as that of a launch with serial n.
 */
#define UNPACK_RING_ONE 1u   /* one block polls, the others a word of GPU memory behind it */
#define UNPACK_RING_FENCE 2u /* a fence behind the word of the end, too */
struct unpack_ring_args {
	struct mem_unpack_args args; /* pieces: [UNPACK_RING][UNPACK_RING_PIECES] */
	uint64_t heads;		     /* uint64_t [UNPACK_RING] */
	uint64_t go;		     /* uint64_t, GPU memory, 0; of UNPACK_RING_ONE */
	uint32_t mode, reserved;     /* bits of UNPACK_RING_.. */
};

/* unpack_work: an application's kernel: every thread multiplies and adds, so often. */
struct unpack_work_args {
	uint64_t sink; /* a word of GPU memory; never written */
	uint32_t rounds, reserved;
};

#endif
