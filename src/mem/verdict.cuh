/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's part of the protocol in copy_abi.h: whether a list moves, or touches nothing. */
#ifndef MEM_VERDICT_CUH
#define MEM_VERDICT_CUH

#include "mem/copy_abi.h"

static __device__ __forceinline__ uint32_t word_load(const uint32_t *word)
{
	return *(const volatile uint32_t *)word;
}

static __device__ __forceinline__ void word_store(uint32_t *word, uint32_t value)
{
	*(volatile uint32_t *)word = value;
}

/*
 * Returns nonzero if the list must touch nothing. Called by one thread of each block. The first
 * block of the list to arrive accesses the mark: it stores started, makes a system fence and loads
 * abort. The mark is in host memory, a round trip over the bus away, so the other blocks do not
 * access it: they wait for the result in GPU memory. The first block is running already, so this
 * wait needs no free place on the GPU.
 */
static __device__ uint32_t list_stopped(struct mem_copy_state *state, struct mem_copy_mark *mark,
					uint32_t serial)
{
	uint32_t verdict;

	if (atomicExch(&state->claimed, serial) != serial) {
		word_store(&mark->started, serial);
		__threadfence_system();
		verdict = word_load(&mark->abort) ? serial | MEM_COPY_STOP : serial;
		if (verdict != serial)
			word_store(&mark->stopped, 1);
		__threadfence();
		word_store(&state->verdict, verdict);
	} else {
		do
			verdict = word_load(&state->verdict);
		while ((verdict & ~MEM_COPY_STOP) != serial);
		__threadfence();
	}
	return verdict & MEM_COPY_STOP;
}

#endif
