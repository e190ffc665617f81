/* SPDX-License-Identifier: Apache-2.0 */
/* A rank of the NCCL yardstick: its state, and what its kinds of rows share. */
#ifndef BENCH_NCCL_RANK_H
#define BENCH_NCCL_RANK_H

#include <stdint.h>

#include "nccl_api.h"
#include "nccl_p2p.h"
#include "sys/cuda.h"

#define RANK_TILE (16u << 20) /* bytes of test data before they come again */
#define RANK_MESSAGES 512u    /* of a repetition, at most */
#define RANK_POISON 0xdb

struct rank {
	const struct p2p_options *o;
	int rank, fd;
	const struct sys_cuda *api;
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
	struct nccl nccl;
	nccl_comm comm;
	int version;
	cuda_stream stream;
	cuda_ptr buffer[64]; /* message i lies in buffer i % buffers */
	unsigned buffers;
	uint8_t *tile, *back; /* twice RANK_TILE; RANK_TILE of pinned memory */
	char peer_pci[16];
	int wrong; /* rank 0: a row is void, the exit status says so */
};

/* What rank 1 tells rank 0 behind a row. */
struct verdict {
	double cpu;
	uint64_t wrong;
};

/* They end the process where the driver, NCCL or the other rank fails. */
void rank_must(const struct rank *r, cuda_result result, const char *what);
void rank_nccl(const struct rank *r, int result, const char *what);
void rank_put(const struct rank *r, const void *data, size_t bytes);
void rank_get(const struct rank *r, void *data, size_t bytes);
void rank_meet(const struct rank *r);
void rank_drain(const struct rank *r);

/* Test data of buffer b at an offset: another start in the tile for each buffer. */
const uint8_t *rank_data(const struct rank *r, unsigned b, uint64_t off);

/* The head of a row, and its end: which way the channels went. */
void rank_setting(const struct rank *r, uint64_t size, const char *mode);
const char *rank_way(struct rank *r);

/* Messages from rank 0 to rank 1 in one of the modes; there and back. */
void rank_row(struct rank *r, uint64_t size, const char *mode);
void rank_pingpong(struct rank *r, uint64_t size);

/* All-reduce or all-to-all of buffers of that size. */
void rank_collective(struct rank *r, uint64_t size);

#endif
