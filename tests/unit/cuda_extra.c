/* SPDX-License-Identifier: Apache-2.0 */
/* A library of kernels for the stand-in driver, as FAKECUDA_KERNELS names one. */
#include "fakecuda/fakecuda.h"

static const struct fakecuda *driver;

/* *to = value */
static void extra_store(void **params, unsigned grid_x, unsigned block_x)
{
	uint32_t *to = driver->translate(*(uint64_t *)params[0], sizeof(*to));

	(void)grid_x;
	(void)block_x;
	if (to)
		*to = *(uint32_t *)params[1];
}

__attribute__((visibility("default"))) void fakecuda_kernels(const struct fakecuda *fake);
void fakecuda_kernels(const struct fakecuda *fake)
{
	static const size_t sizes[] = {sizeof(uint64_t), sizeof(uint32_t)};

	driver = fake;
	(void)fake->kernel_add("extra_store", extra_store, sizes, 2);
}
