/* SPDX-License-Identifier: Apache-2.0 */
/* GPU memory of the cases through the driver, and copies that stand still. */
#include <sched.h>
#include <stdatomic.h>

#include "conform.h"
#include "cuda_map.h"
#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

#if defined(__SANITIZE_THREAD__)
/* Threads of the stand-in live as long as the process: no second's wait for them in each case. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "atexit_sleep_ms=0";
}
#endif

static unsigned before;	  /* queued when all began to stand still */
static _Atomic bool held; /* every stream stands still: only the stand-in itself can tell */

const struct fakecuda *gpu_fake(void)
{
	static struct fakecuda fake;
	const char *path = getenv("TCPX_CUDA_LIBRARY");

	if (config.mem.kind != TCPX_MEM_CUDA && config.far_mem.kind != TCPX_MEM_CUDA)
		return NULL;
	if (!fake.handle && (!path || fakecuda_open(path, &fake)))
		return NULL;
	return &fake;
}

struct scope {
	struct sys_cuda_gpu *gpu;
	struct sys_cuda_scope scope;
};

static const struct sys_cuda *scope_enter(struct scope *scope, uint32_t device)
{
	const char *why = "";

	if (sys_cuda_get(device, &scope->gpu) || sys_cuda_push(scope->gpu, &scope->scope))
		why = tcpx_last_error()->what;
	CHECK_MSG(!*why, "GPU %u: %s", device, why);
	return scope->gpu->api;
}

static void scope_leave(struct scope *scope)
{
	sys_cuda_pop(&scope->scope);
	sys_cuda_put(scope->gpu);
}

static void expect_cuda(cuda_result result, const char *what, const struct buf *buf)
{
	if (result == CUDA_OK)
		return;
	(void)sys_cuda_error(result, what);
	CHECK_MSG(0, "GPU %u: %s", buf->place.device, tcpx_last_error()->what);
}

/* The device stays in use until the memory goes: its context would take it along. */
void gpu_memory_take(struct buf *buf, size_t bytes)
{
	const struct sys_cuda *api;
	struct scope scope;
	cuda_ptr ptr = 0;

	api = scope_enter(&scope, buf->place.device);
	if (buf->place.from == PLACE_MAPPED)
		expect_cuda(cuda_map_take(api, buf->place.device, bytes, &ptr), "cuMemMap", buf);
	else if (buf->place.from == PLACE_POOL)
		expect_cuda(cuda_pool_take(api, buf->place.device, bytes, &ptr),
			    "cuMemAllocFromPoolAsync", buf);
	else
		expect_cuda(api->mem_alloc(&ptr, bytes), "cuMemAlloc", buf);
	sys_cuda_pop(&scope.scope);
	buf->map = (uint8_t *)(uintptr_t)ptr;
	buf->map_bytes = bytes;
	buf->addr = buf->map + buf->lead;
}

void gpu_memory_give(const struct buf *buf)
{
	const struct sys_cuda *api;
	struct scope scope;

	api = scope_enter(&scope, buf->place.device);
	/* a broken device says so, and lets it go */
	if (buf->place.from == PLACE_MAPPED)
		(void)cuda_map_give(api, buf->place.device, buf->map_bytes, (uintptr_t)buf->map);
	else if (buf->place.from == PLACE_POOL)
		(void)cuda_pool_give(api, (uintptr_t)buf->map);
	else
		(void)api->mem_free((uintptr_t)buf->map);
	scope_leave(&scope);
	sys_cuda_put(scope.gpu);
}

/* Only the default stream is waited for: the library's go on. */
static void copy(const struct buf *buf, cuda_ptr dst, cuda_ptr src, size_t len)
{
	const struct sys_cuda *api;
	struct scope scope;

	if (!len)
		return;
	api = scope_enter(&scope, buf->place.device);
	expect_cuda(api->copy_async(dst, src, len, NULL), "cuMemcpyAsync", buf);
	expect_cuda(api->stream_synchronize(NULL), "cuStreamSynchronize", buf);
	scope_leave(&scope);
}

void gpu_memory_read(const struct buf *buf, uint64_t off, void *out, uint64_t len)
{
	cuda_ptr from = (uintptr_t)buf->map + off;

	if (atomic_load(&held))
		CHECK(gpu_fake()->read(from, out, len) == 0);
	else
		copy(buf, (uintptr_t)out, from, len);
}

void gpu_memory_write(const struct buf *buf, uint64_t off, const void *data, uint64_t len)
{
	cuda_ptr to = (uintptr_t)buf->map + off;

	if (atomic_load(&held))
		CHECK(gpu_fake()->write(to, data, len) == 0);
	else
		copy(buf, to, (uintptr_t)data, len);
}

void gpu_memory_set(const struct buf *buf, uint64_t off, uint64_t len, uint8_t value)
{
	cuda_ptr to = (uintptr_t)buf->map + off;
	const struct sys_cuda *api;
	struct scope scope;

	if (!len)
		return;
	if (atomic_load(&held)) {
		void *cpu = gpu_fake()->translate(to, len);

		CHECK(cpu);
		byte_fill(cpu, len, value);
		return;
	}
	api = scope_enter(&scope, buf->place.device);
	expect_cuda(api->set_async(to, value, len, NULL), "cuMemsetD8Async", buf);
	expect_cuda(api->stream_synchronize(NULL), "cuStreamSynchronize", buf);
	scope_leave(&scope);
}

void gpu_look(void)
{
	struct place places[] = {config.mem, config.far_mem};

	for (int i = 0; i < 2; i++) {
		struct sys_cuda_gpu *gpu;

		if (places[i].kind != TCPX_MEM_CUDA)
			continue;
		if (sys_cuda_get(places[i].device, &gpu))
			SKIP("%s", tcpx_last_error()->what);
		sys_cuda_put(gpu);
	}
}

void gpu_check_empty(void)
{
	const struct fakecuda *fake = gpu_fake();
	struct fakecuda_live live = {0};
	unsigned all = fake ? fake->live(&live) : 0;

	if (conform_plugin()) /* it stays loaded, with a GPU's pool and what fills that */
		all = live.registrations + live.modules + live.ipc;
	CHECK_MSG(!all,
		  "left: contexts %u memory %u host %u registrations %u streams %u events %u "
		  "modules %u ipc %u pools %u mappings %u",
		  live.contexts, live.memory, live.host, live.registrations, live.streams,
		  live.events, live.modules, live.ipc, live.pools, live.vmm);
}

bool hold_possible(void)
{
	const char *pool = getenv("TCPXEMU_MEM");

	/* With its pages in ordinary memory a driver copies from them while the caller waits. */
	if (conform_plugin() && pool && !strcmp(pool, "cpu"))
		return false;
	/* A plugin sends without a copy: the one that is held is the receiving process's. */
	if (conform_plugin() && config.processes == 2)
		return false;
	return (config.mem.kind == MEM_KIND_TEST && config.processes == 1) ||
	       (config.mem.kind == TCPX_MEM_CUDA && gpu_fake());
}

void hold_begin(void)
{
	if (config.mem.kind == MEM_KIND_TEST) {
		mem_slow_hold(1);
		return;
	}
	gpu_fake()->hold(1);
	before = gpu_fake()->queued();
	atomic_store(&held, true);
}

bool hold_begin_near(void)
{
	if (!hold_possible() || config.mem.kind != TCPX_MEM_CUDA ||
	    (config.processes == 1 && config.far_mem.kind == TCPX_MEM_CUDA))
		return false; /* one could not tell whose copy is under way */
	gpu_fake()->hold_device(config.mem.device, 1);
	before = gpu_fake()->queued();
	atomic_store(&held, true);
	return true;
}

void hold_await(unsigned copies)
{
	if (config.mem.kind == MEM_KIND_TEST) {
		mem_slow_await(copies);
		return;
	}
	while (!hold_come(copies))
		sched_yield();
}

bool hold_come(unsigned copies)
{
	return gpu_fake()->queued() >= before + copies;
}

void hold_end(void)
{
	if (config.mem.kind == MEM_KIND_TEST) {
		mem_slow_hold(0);
		return;
	}
	atomic_store(&held, false);
	gpu_fake()->hold(0);
}

void hold_settle(void)
{
	if (config.mem.kind == MEM_KIND_TEST) {
		mem_slow_settle();
		return;
	}
	while (gpu_fake()->queued())
		sched_yield();
}
