/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of scattered copies share: copies of many pieces, both sides filled, calls counted. */
#ifndef UNIT_CUDA_WIDE_H
#define UNIT_CUDA_WIDE_H

#include "base/rng.h"
#include "cuda_rig.h"
#include "mem/cuda_lane.h"

#define FOR_EVER INT64_MAX
#define PIECE 4096u
#define SPACE (8u << 20)

/* A copy of any number of pieces. */
struct wide {
	struct rig_copy job;
	struct mem_piece *pieces;
};

static uint8_t *slots, *model;
static cuda_ptr gpu;
static uint64_t calls, launches;

static inline void count_from_here(void)
{
	calls = fake.calls("cuMemcpyAsync");
	launches = fake.calls("cuLaunchKernel");
}

static inline uint64_t calls_made(void)
{
	return fake.calls("cuMemcpyAsync") - calls;
}

static inline uint64_t launches_made(void)
{
	return fake.calls("cuLaunchKernel") - launches;
}

/* count pieces of bytes each, every second one of the GPU's memory from there on, to or from the
 * slots from at on. */
static inline void wide_init(struct wide *wide, uint64_t at, uint64_t there, uint32_t count,
			     uint64_t bytes)
{
	rig_init(&wide->job, 0, slots + at, 0, 0);
	wide->pieces = calloc(count, sizeof(*wide->pieces));
	assert_non_null(wide->pieces);
	for (uint32_t i = 0; i < count; i++)
		wide->pieces[i] = (struct mem_piece){
			(void *)(uintptr_t)(gpu + there + 2ull * i * bytes), bytes};
	wide->job.copy.pieces = wide->pieces;
	wide->job.copy.npieces = count;
}

static inline void wide_push(struct wide *wide, int to_slot)
{
	assert_int_equal((to_slot ? cuda->fill : cuda->commit)(&wide->job.copy), TCPX_OK);
}

/* It ended, well, and both sides are the same. */
static inline void wide_check(struct wide *wide)
{
	uint8_t *slot = wide->job.copy.slot;

	assert_int_equal(wide->job.ends, 1);
	assert_int_equal(wide->job.status, TCPX_OK);
	for (uint32_t i = 0; i < wide->job.copy.npieces; i++) {
		const struct mem_piece *piece = &wide->pieces[i];

		assert_int_equal(fake.read((uintptr_t)piece->addr, model, piece->length), 0);
		assert_memory_equal(model, slot, piece->length);
		slot += piece->length;
	}
	free(wide->pieces);
}

/* Different random bytes on both sides; counts begin anew. */
static inline void sides_fill(void)
{
	struct rng rng;

	rng_seed(&rng, 11);
	rng_fill(&rng, model, SPACE);
	rng_fill(&rng, slots, SPACE);
	assert_int_equal(fake.write(gpu, model, SPACE), 0);
	rig_ended = 0;
	count_from_here();
}

static inline int setup(void **state)
{
	(void)state;
	slots = cuda->slot_alloc(SPACE, 0);
	model = malloc(SPACE);
	if (!slots || !model)
		return -1;
	gpu = rig_alloc(0, SPACE);
	sides_fill();
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	rig_free(0, gpu);
	free(model);
	cuda->slot_free(slots, SPACE, 0);
	return 0;
}

/* Each copy becomes a group of its own. */
static inline void wide_push_alone(struct wide *wide, int to_slot)
{
	uint64_t flags = fake.calls("cuStreamWriteValue32");

	wide_push(wide, to_slot);
	rig_calls("cuStreamWriteValue32", flags + 1);
}

#endif
