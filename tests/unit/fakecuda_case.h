/* SPDX-License-Identifier: Apache-2.0 */
/* Tests over the stand-in for the CUDA driver: a device in scope before, nothing alive behind. */
#ifndef UNIT_FAKECUDA_CASE_H
#define UNIT_FAKECUDA_CASE_H

#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

#define MIB ((size_t)1 << 20)

static struct fakecuda fake;
static const struct sys_cuda *api;

static inline int group_start(void **state)
{
	(void)state;
	setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1);
	setenv("FAKECUDA_DEVICES", "3", 1);
	setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
	if (fakecuda_open(FAKECUDA, &fake))
		return -1;
	api = sys_cuda_driver();
	return api ? 0 : -1;
}

static struct sys_cuda_gpu *gpu;
static struct sys_cuda_scope scope;

static inline int enter(void **state)
{
	(void)state;
	if (sys_cuda_get(0, &gpu) || sys_cuda_push(gpu, &scope))
		return -1;
	return 0;
}

/* Whatever a test made is gone when it ends. */
static inline int leave(void **state)
{
	struct fakecuda_live live;
	cuda_ctx now;

	(void)state;
	sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
	if (api->ctx_current(&now) || now || fake.live(&live)) {
		print_error("alive: contexts %u memory %u host %u registrations %u streams %u "
			    "events %u modules %u ipc %u vmm %u\n",
			    live.contexts, live.memory, live.host, live.registrations, live.streams,
			    live.events, live.modules, live.ipc, live.vmm);
		return -1;
	}
	return 0;
}

static inline cuda_ptr take(size_t bytes)
{
	cuda_ptr ptr;

	assert_int_equal(api->mem_alloc(&ptr, bytes), CUDA_OK);
	return ptr;
}

static inline cuda_stream stream_new(void)
{
	cuda_stream stream;

	assert_int_equal(api->stream_create(&stream, CUDA_STREAM_NON_BLOCKING, 0), CUDA_OK);
	return stream;
}

static inline void *host_new(size_t bytes)
{
	void *ptr;

	assert_int_equal(api->host_alloc(&ptr, bytes, CUDA_HOST_MAPPED | CUDA_HOST_PORTABLE),
			 CUDA_OK);
	return ptr;
}

struct facts {
	cuda_ctx ctx;
	unsigned type;
	unsigned long long id;
	int managed, ordinal, ipc, mapped, access;
	cuda_ptr start;
	size_t bytes;
	void *pool;
};

static inline struct facts facts_of(cuda_ptr ptr)
{
	static const int names[] = {
		CUDA_POINTER_CONTEXT,	 CUDA_POINTER_MEMORY_TYPE,    CUDA_POINTER_BUFFER_ID,
		CUDA_POINTER_IS_MANAGED, CUDA_POINTER_DEVICE_ORDINAL, CUDA_POINTER_IS_LEGACY_IPC,
		CUDA_POINTER_MAPPED,	 CUDA_POINTER_ACCESS_FLAGS,   CUDA_POINTER_RANGE_START,
		CUDA_POINTER_RANGE_SIZE, CUDA_POINTER_MEMPOOL};
	struct facts f;
	void *outs[] = {&f.ctx,	   &f.type,   &f.id,	&f.managed, &f.ordinal, &f.ipc,
			&f.mapped, &f.access, &f.start, &f.bytes,   &f.pool};

	memset(&f, 0x77, sizeof(f));
	assert_int_equal(api->pointer_attributes(11, names, outs, ptr), CUDA_OK);
	return f;
}

/* This program again, in a process of its own; what it returned. */
static inline int run_self(char *const argv[])
{
	extern char **environ;
	int status = -1;
	pid_t pid;

	assert_int_equal(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

#define CASE(fn) cmocka_unit_test_setup_teardown(fn, enter, leave)

#endif
