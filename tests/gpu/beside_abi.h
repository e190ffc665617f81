/* SPDX-License-Identifier: Apache-2.0 */
/* What the application's kernel of gpu_beside and the host agree on. C and CUDA read it. */
#ifndef BESIDE_ABI_H
#define BESIDE_ABI_H

#include <stdint.h>

/* Words that host and kernel, or blocks, touch at once. */
#ifdef __CUDACC__
#define BESIDE_WORD uint32_t
#else
#define BESIDE_WORD _Atomic uint32_t
#endif

#define BESIDE_BLOCKS 1024u /* the most of a launch */
#define BESIDE_THREADS 1024u

/*
 * In mapped host memory, all zero before the launch. Each block says that it is here and stays at
 * least until all are, or the host says stop. So all says that every block had room at one time,
 * and a launch that is behind its end without it does not. Blocks that come after stop say nothing.
 */
struct beside_mark {
	BESIDE_WORD stop; /* host: whatever still waits ends */
	BESIDE_WORD all;  /* kernel: all blocks are here */
	BESIDE_WORD here[BESIDE_BLOCKS];
};

/* The only parameter of beside_meet, by value. */
struct beside_args {
	uint64_t mark;	/* struct beside_mark */
	uint64_t count; /* uint32_t in GPU memory, 0 before the launch: blocks that are here */
	uint32_t stay;	/* not 0: until the host says stop, also when all are here */
	uint32_t reserved;
};

#endif
