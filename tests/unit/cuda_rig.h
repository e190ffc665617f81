/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of the kind "cuda" share: the stand-in driver, copies that count their ends. */
#ifndef UNIT_CUDA_RIG_H
#define UNIT_CUDA_RIG_H

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "fakecuda/fakecuda.h"
#include "mem/cuda_kind.h"
#include "sys/cuda.h"
#include "sys/futex.h"
#include "unit.h"

#define RIG_PIECES 12

struct rig_copy {
	struct mem_copy copy;
	struct mem_piece pieces[RIG_PIECES];
	_Atomic uint32_t ends;
	tcpx_status status;
	uint32_t place; /* among the ends of all copies */
};

static const char *const rig_symbols[] = {
#define RIG_SYMBOL(name, symbol, since, params) symbol,
	SYS_CUDA_LIST(RIG_SYMBOL)
#undef RIG_SYMBOL
};
#define RIG_SYMBOLS (sizeof(rig_symbols) / sizeof(rig_symbols[0]))

static struct fakecuda fake;
static const struct sys_cuda *api;
static const struct mem_kind *cuda;
static _Atomic uint32_t rig_ended;

static inline int rig_open(void)
{
	if (setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1) || fakecuda_open(FAKECUDA, &fake)) {
		fprintf(stderr, "cannot load %s\n", FAKECUDA);
		return -1;
	}
	cuda = mem_kind_get(TCPX_MEM_CUDA);
	api = sys_cuda_driver();
	return api && cuda ? 0 : -1;
}

static inline void rig_done(struct mem_copy *copy, tcpx_status status)
{
	struct rig_copy *job = copy->owner;

	job->status = status;
	job->place = atomic_load(&rig_ended);
	atomic_fetch_add(&job->ends, 1);
	atomic_fetch_add(&rig_ended, 1);
	sys_futex_wake(&rig_ended, INT_MAX);
}

static inline void rig_wait(uint32_t count)
{
	uint32_t now;

	while ((now = atomic_load(&rig_ended)) < count)
		sys_futex_wait(&rig_ended, now, -1);
}

/* A copy of one piece; more may be added to pieces. */
static inline void rig_init(struct rig_copy *job, uint32_t device, void *slot, cuda_ptr gpu,
			    uint64_t bytes)
{
	memset(job, 0, sizeof(*job));
	job->pieces[0] = (struct mem_piece){(void *)(uintptr_t)gpu, bytes};
	job->copy = (struct mem_copy){.slot = slot,
				      .pieces = job->pieces,
				      .npieces = 1,
				      .device = device,
				      .done = rig_done,
				      .owner = job};
}

/* The device's primary context is current from here to rig_leave. */
struct rig_scope {
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
};

static inline void rig_enter(struct rig_scope *rig, uint32_t device)
{
	assert_int_equal(sys_cuda_get(device, &rig->gpu), TCPX_OK);
	assert_int_equal(sys_cuda_push(rig->gpu, &rig->scope), TCPX_OK);
}

static inline void rig_leave(struct rig_scope *rig)
{
	sys_cuda_pop(&rig->scope);
	sys_cuda_put(rig->gpu);
}

static inline cuda_ptr rig_alloc(uint32_t device, size_t bytes)
{
	struct rig_scope rig;
	cuda_ptr ptr = 0;

	rig_enter(&rig, device);
	assert_int_equal(api->mem_alloc(&ptr, bytes), CUDA_OK);
	rig_leave(&rig);
	return ptr;
}

static inline cuda_ptr rig_alloc_pool(uint32_t device, size_t bytes)
{
	struct rig_scope rig;
	cuda_ptr ptr = 0;

	rig_enter(&rig, device);
	assert_int_equal(api->mem_alloc_async(&ptr, bytes, NULL), CUDA_OK);
	rig_leave(&rig);
	return ptr;
}

static inline void rig_free(uint32_t device, cuda_ptr ptr)
{
	struct rig_scope rig;

	rig_enter(&rig, device);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	rig_leave(&rig);
}

/* Until the count of calls is reached; the owner makes them on its own. */
static inline void rig_calls(const char *symbol, uint64_t count)
{
	while (fake.calls(symbol) < count)
		sched_yield();
}

#endif
