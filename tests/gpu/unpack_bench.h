/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of gpu_unpack --bench share: large memory, lists made ahead, kernels. */
#ifndef UNPACK_BENCH_H
#define UNPACK_BENCH_H

#include <stdatomic.h>

#include "gpu_unpack.h"
#include "mem/unpack_cuda.h"
#include "unpack_bench_abi.h"

#define BENCH_BYTES (1ull << 30) /* of the pool, and of memory: far more than the L2 */
#define BENCH_CHUNK (512u << 10)

/* How a chunk lies in the pool and belongs in memory. */
struct bench_row {
	const char *name;
	uint32_t frag, count;	     /* bytes of each, how many a chunk */
	uint32_t skew_src, skew_dst; /* offsets up to this, 0: none; of all */
};

struct bench {
	const struct sys_cuda_gpu *gpu;
	uint32_t peer; /* whose memory it is; another GPU's with --relay */
	const struct sys_cuda *api;
	struct sys_cuda_scope scope;
	struct mem_unpack_kernels kernels;
	cuda_function ring, work;
	cuda_stream stream, second, other; /* second: of launches in turn; other: the work's */
	cuda_ptr pool, memory, state;	   /* state: two, 64 bytes apart */
	struct base_frag *lists;	   /* pinned */
	_Atomic uint32_t *words;	   /* pinned: [0] of launches, [16] of copies, [32] of work,
				  * [48] of launches in the second stream */
	_Atomic uint64_t *heads;	   /* pinned */
	cuda_ptr lists_at, words_at, heads_at;
	uint32_t serial; /* of words[0] and [16] */
};

/* Fills frags with the i-th chunk; dst: offsets of the chunk. Returns where it belongs. */
cuda_ptr bench_chunk(const struct bench *b, const struct bench_row *row, uint64_t i,
		     struct base_frag *frags);

/* One that reaches memory. */
struct mem_unpack *bench_unpacker(const struct bench *b, const struct mem_unpack_opts *opts);

/* A job of the i-th chunk. */
struct mem_unpack_job bench_job(const struct bench *b, const struct bench_row *row, uint64_t i,
				struct base_frag *frags);

void bench_await(const _Atomic uint32_t *word, uint32_t value);

/* Sorts; the p-th part of a hundred. */
double bench_percentile(double *samples, unsigned n, double p);

/* unpack_bench_beside.c: a kernel that stays, and what each way costs an application's kernel. */
/* mode: UNPACK_RING_.. */
void bench_ring_open(struct bench *b, const struct bench_row *row, uint32_t mode);
double bench_ring_trip(struct bench *b, const struct bench_row *row, uint64_t i);
void bench_ring_close(struct bench *b);
void bench_beside(struct bench *b, const struct bench_row *row);

#endif
