/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of an application: its blocks wait for one another, or hold their SMs until told. */
#include "beside_abi.h"

static __device__ uint32_t look(const uint32_t *word)
{
	return *(const volatile uint32_t *)word;
}

static __device__ void tell(uint32_t *word)
{
	*(volatile uint32_t *)word = 1;
	__threadfence_system();
}

/* Launched with all the shared memory that a block may have, so that nothing else fits beside it.
 * One thread works; the others wait at the end, so that what the block holds stays held. */
extern "C" __global__ void __launch_bounds__(BESIDE_THREADS) beside_meet(const beside_args args)
{
	beside_mark *mark = (beside_mark *)args.mark;
	uint32_t *count = (uint32_t *)args.count;

	if (threadIdx.x == 0 && !look(&mark->stop)) {
		tell(&mark->here[blockIdx.x]);
		if (atomicAdd(count, 1u) + 1 == gridDim.x)
			tell(&mark->all);
		while (!look(&mark->stop) && (args.stay || look(count) < gridDim.x))
			__nanosleep(20000);
	}
	__syncthreads();
}
