/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU reference of beside.cu, for the CUDA driver's stand-in: FAKECUDA_KERNELS names it. */
#include <stdatomic.h>
#include <time.h>

#include "beside_abi.h"
#include "fakecuda/fakecuda.h"

static const struct fakecuda *fake;

__attribute__((visibility("default"))) void fakecuda_kernels(const struct fakecuda *controls);

/* Each block has an SM to itself. A kernel that waits has no event to wait for. */
static void meet(void **params, unsigned grid, unsigned block)
{
	const struct timespec nap = {0, 100000};
	const struct beside_args *args = params[0];
	struct beside_mark *mark = fake->translate(args->mark, sizeof(*mark));
	unsigned here = 0;

	(void)block;
	while (!atomic_load(&mark->stop) && (args->stay || here < grid)) {
		if (here == grid || !fake->sm_take()) {
			nanosleep(&nap, NULL);
			continue;
		}
		atomic_store(&mark->here[here++], 1);
		if (here == grid)
			atomic_store(&mark->all, 1);
	}
	fake->sm_give(here);
}

void fakecuda_kernels(const struct fakecuda *controls)
{
	static const size_t meet_bytes[] = {sizeof(struct beside_args)};

	fake = controls;
	(void)controls->kernel_add("beside_meet", meet, meet_bytes, 1);
}
