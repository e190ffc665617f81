/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU with the copy kernels, pinned slots, GPU memory and the CPU's picture of both. */
#ifndef GPU_RIG_H
#define GPU_RIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "mem/copy.h"
#include "mem/cuda_kernels.h"

#define RIG_LANES 2 /* launches that may be under way at once */
#define RIG_GUARD 65536

/* What one launch needs. host: the CPU's address, gpu: the same memory's on the GPU. */
struct gpu_lane {
	cuda_stream stream;
	struct mem_copy_piece *pieces;
	struct mem_copy_mark *mark;
	struct mem_copy_state *open; /* mapped: a state in which the test says what blocks find */
	_Atomic uint32_t *word; /* number of the last launch that is over: the stream says so */
	uint8_t *slot, *model;	/* slot: pinned, guards on both sides; model: what it should be */
	cuda_ptr pieces_gpu, mark_gpu, open_gpu, word_gpu, slot_gpu, state;
	struct mem_copy_args args;
	uint32_t launches;
};

struct gpu_rig {
	struct sys_cuda_gpu *gpu;
	const struct sys_cuda *api;
	struct sys_cuda_scope scope;
	struct mem_cuda_kernels kernels;
	struct gpu_lane lane[RIG_LANES];
	size_t slot_bytes, arena_bytes; /* slot_bytes: without the guards */
	cuda_ptr arena;			/* pieces lie here */
	uint8_t *shadow, *image;	/* what the arena should hold; room to read it back */
	uint32_t serial;		/* the last one, even */
};

#define RIG_MUST(rig_call)                                                                         \
	do {                                                                                       \
		cuda_result rig_result = (rig_call);                                               \
		if (rig_result != CUDA_OK)                                                         \
			gpu_rig_fail(__FILE__, __LINE__, rig_result, #rig_call);                   \
	} while (0)

__attribute__((noreturn)) void gpu_rig_fail(const char *file, int line, cuda_result result,
					    const char *call);

/* Ends the case as skipped where there is no driver, device or kernel; fails on anything else. The
 * arena is filled with random bytes. One rig a process; never taken down, the process ends. */
struct gpu_rig *gpu_rig_open(size_t slot_bytes, size_t arena_bytes, struct rng *rng);

/* Plans lane->pieces [count] for a slot that begins slot_at bytes into the lane's (guard not
 * counted), and fills in the rest of args; the mark is fresh. */
void gpu_rig_plan(struct gpu_rig *rig, struct gpu_lane *lane, uint32_t count, size_t slot_at,
		  uint32_t blocks);
void gpu_rig_launch(struct gpu_rig *rig, struct gpu_lane *lane, int to_slot);
/* For all launches, by the word alone, so that its order is tested; a failed one ends the case. */
void gpu_rig_wait(struct gpu_rig *rig, struct gpu_lane *lane);

/* The CPU reference on model (gather) or shadow (scatter). */
void gpu_rig_expect(struct gpu_rig *rig, struct gpu_lane *lane, int to_slot);
/* Slot and guards against model; the arena against shadow. Say what differs and end the case. */
void gpu_rig_check_slot(struct gpu_rig *rig, struct gpu_lane *lane, const char *what);
void gpu_rig_check_arena(struct gpu_rig *rig, struct gpu_lane *lane, const char *what);

/* The tables of gpu_copy_kernels --bench. */
void gpu_bench_run(void *arg);

#endif
