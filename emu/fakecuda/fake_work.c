/* SPDX-License-Identifier: Apache-2.0 */
/* What streams do: copies, fills, writes of a word, and kernels by their CPU reference. */
#include "fake.h"

#include <stdio.h>
#include <stdlib.h>

#define KERNELS_MAX 64
#define PARAMS_MAX 32

struct cuda_function_st {
	char name[64];
	fakecuda_kernel fn;
	size_t bytes[PARAMS_MAX];
	unsigned params;
};

struct cuda_module_st {
	struct cuda_module_st *next;
};

static struct cuda_function_st kernels[KERNELS_MAX];
static unsigned kernels_used;
static struct cuda_module_st *modules;

/* The driver copies within a device's memory by a kernel, which needs room on an SM. */
static void copy_run(struct fake_work *work)
{
	const struct timespec nap = {0, 100000};

	if (work->fault)
		return;
	while (work->within && !fakecuda_sm_take())
		nanosleep(&nap, NULL);
	memmove(work->to_cpu, work->from_cpu, work->bytes);
	if (work->within)
		fakecuda_sm_give(1);
}

static void copy_end(struct fake_work *work)
{
	if (work->fault)
		return;
	fake_span_use(work->addr, work->bytes, -1);
	fake_span_use(work->from, work->bytes, -1);
}

static int within_device(cuda_ptr dst, cuda_ptr src)
{
	const struct fake_range *to = fake_range_find(dst), *from = fake_range_find(src);

	return to && from && to->kind < FAKE_HOST && from->kind < FAKE_HOST &&
	       to->device == from->device;
}

/*
 * Under the lock. What is wrong about an address is told later, as a fault of the stream's context.
 * With pageable memory on either side the call returns when the copy ended, as a driver's does.
 */
static cuda_result copy_push(cuda_stream stream, cuda_ptr dst, cuda_ptr src, size_t bytes, int wait)
{
	enum fake_span to, from;
	struct fake_work *work;
	int device;

	if (!bytes)
		return CUDA_OK;
	if (fake_span_crosses(dst, bytes) || fake_span_crosses(src, bytes))
		return CUDA_ERR_INVALID_VALUE;
	device = fake_stream_ctx(stream)->device;
	to = fake_span(dst, bytes, device);
	from = fake_span(src, bytes, device);
	work = fake_work_new(stream);
	if (!work)
		return CUDA_ERR_OUT_OF_MEMORY;
	work->run = copy_run;
	work->end = copy_end;
	work->addr = dst;
	work->from = src;
	work->bytes = bytes;
	work->within = within_device(dst, src);
	work->to_cpu = fake_shadow(dst);
	work->from_cpu = fake_shadow(src);
	if (to == FAKE_SPAN_BAD || from == FAKE_SPAN_BAD) {
		work->fault = CUDA_ERR_ILLEGAL_ADDRESS;
	} else {
		fake_span_use(dst, bytes, 1);
		fake_span_use(src, bytes, 1);
		wait |= to == FAKE_SPAN_PAGEABLE || from == FAKE_SPAN_PAGEABLE;
	}
	return fake_stream_push(stream, work, wait);
}

cuda_result fake_copy(cuda_ptr dst, cuda_ptr src, size_t bytes)
{
	cuda_stream stream;
	cuda_result rc;

	FAKE_ENTER_UNSAFE(copy);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(NULL, &stream);
	if (!rc)
		rc = copy_push(stream, dst, src, bytes, 1);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

cuda_result fake_copy_async(cuda_ptr dst, cuda_ptr src, size_t bytes, cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER(copy_async);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc)
		rc = copy_push(stream, dst, src, bytes, 0);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* Each address must be memory of its context's device. */
static int peer_on(cuda_ptr ptr, cuda_ctx ctx)
{
	const struct fake_range *range = fake_range_find(ptr);

	return range && range->kind < FAKE_HOST && range->device == ctx->device;
}

cuda_result fake_copy_peer_async(cuda_ptr dst, cuda_ctx dst_ctx, cuda_ptr src, cuda_ctx src_ctx,
				 size_t bytes, cuda_stream stream)
{
	cuda_result rc;

	FAKE_ENTER(copy_peer_async);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc && (!fake_ctx_valid(dst_ctx) || !fake_ctx_valid(src_ctx)))
		rc = CUDA_ERR_INVALID_CONTEXT;
	if (!rc && bytes && (!peer_on(dst, dst_ctx) || !peer_on(src, src_ctx)))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc)
		rc = copy_push(stream, dst, src, bytes, 0);
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static void set_run(struct fake_work *work)
{
	if (!work->fault)
		memset(work->to_cpu, (int)work->value, work->bytes);
}

static void word_run(struct fake_work *work)
{
	atomic_store_explicit((_Atomic uint32_t *)work->to_cpu, work->value, memory_order_release);
}

static void one_end(struct fake_work *work)
{
	if (!work->fault)
		fake_span_use(work->addr, work->bytes, -1);
}

cuda_result fake_set_async(cuda_ptr dst, unsigned char value, size_t bytes, cuda_stream stream)
{
	struct fake_work *work = NULL;
	cuda_result rc;

	FAKE_ENTER(set_async);
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc && bytes) {
		work = fake_work_new(stream);
		rc = work ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (work) {
		work->run = set_run;
		work->end = one_end;
		work->addr = dst;
		work->to_cpu = fake_shadow(dst);
		work->bytes = bytes;
		work->value = value;
		if (fake_span(dst, bytes, fake_stream_ctx(stream)->device) != FAKE_SPAN_KNOWN)
			work->fault = CUDA_ERR_ILLEGAL_ADDRESS;
		else
			fake_span_use(dst, bytes, 1);
		rc = fake_stream_push(stream, work, 0);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* Everything before it in the stream is seen by whoever sees the word. */
cuda_result fake_stream_write(cuda_stream stream, cuda_ptr addr, uint32_t value, unsigned flags)
{
	struct fake_work *work = NULL;
	cuda_result rc;

	FAKE_ENTER(stream_write);
	if (flags || !addr || addr % sizeof(value))
		return CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc &&
	    fake_span(addr, sizeof(value), fake_stream_ctx(stream)->device) != FAKE_SPAN_KNOWN)
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc) {
		work = fake_work_new(stream);
		rc = work ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (work) {
		work->run = word_run;
		work->end = one_end;
		work->addr = addr;
		work->to_cpu = fake_shadow(addr);
		work->bytes = sizeof(value);
		work->value = value;
		fake_span_use(addr, sizeof(value), 1);
		rc = fake_stream_push(stream, work, 0);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* An ELF file, a fat binary or what wraps one, PTX text, or our own mark. */
static int image_good(const void *image)
{
	static const uint32_t magics[] = {0x464c457fu, 0xba55ed50u, 0x466243b1u};
	uint32_t magic;

	if (!image)
		return 0;
	memcpy(&magic, image, sizeof(magic));
	for (unsigned i = 0; i < 3; i++) {
		if (magic == magics[i])
			return 1;
	}
	return !memcmp(image, "FAKE", 4) || !memcmp(image, ".ver", 4) || !memcmp(image, "//", 2);
}

cuda_result fake_module_load(cuda_module *out, const void *image)
{
	cuda_module module = NULL;
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER_UNSAFE(module_load);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc && !image_good(image))
		rc = CUDA_ERR_INVALID_IMAGE;
	if (!rc) {
		module = calloc(1, sizeof(*module));
		rc = module ? CUDA_OK : CUDA_ERR_OUT_OF_MEMORY;
	}
	if (module) {
		module->next = modules;
		modules = module;
		fake.live.modules++;
		*out = module;
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

static cuda_module *module_find(const struct cuda_module_st *module)
{
	cuda_module *at = &modules;

	while (*at && *at != module)
		at = &(*at)->next;
	return at;
}

cuda_result fake_module_unload(cuda_module module)
{
	cuda_result late, rc;
	cuda_module *at;

	FAKE_ENTER_LATE(module_unload, &late);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_leaving(&late);
	at = module_find(module);
	if (!rc && !*at)
		rc = CUDA_ERR_INVALID_HANDLE;
	if (!rc) {
		*at = module->next;
		free(module);
		fake_gone(&fake.live.modules);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc ? rc : late;
}

cuda_result fake_module_function(cuda_function *out, cuda_module module, const char *name)
{
	cuda_result rc;
	cuda_ctx ctx;

	FAKE_ENTER(module_function);
	pthread_mutex_lock(&fake.lock);
	rc = fake_ctx_here(&ctx);
	if (!rc && !*module_find(module))
		rc = CUDA_ERR_INVALID_HANDLE;
	if (!rc)
		rc = CUDA_ERR_NOT_FOUND;
	for (unsigned i = 0; rc == CUDA_ERR_NOT_FOUND && i < kernels_used; i++) {
		if (!strcmp(kernels[i].name, name)) {
			*out = &kernels[i];
			rc = CUDA_OK;
		}
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}

/* What fakecuda_kernel_add does, without a look at the environment. */
static int kernel_put(const char *name, fakecuda_kernel fn, const size_t *param_bytes,
		      unsigned params)
{
	struct cuda_function_st *kernel = NULL;

	pthread_mutex_lock(&fake.lock);
	for (unsigned i = 0; i < kernels_used; i++) {
		if (!strcmp(kernels[i].name, name))
			kernel = &kernels[i];
	}
	if (!kernel && kernels_used < KERNELS_MAX)
		kernel = &kernels[kernels_used++];
	if (kernel && params <= PARAMS_MAX && strlen(name) < sizeof(kernel->name)) {
		memcpy(kernel->name, name, strlen(name) + 1);
		kernel->fn = fn;
		kernel->params = params;
		for (unsigned i = 0; i < params; i++)
			kernel->bytes[i] = param_bytes[i];
	} else {
		kernel = NULL;
	}
	pthread_mutex_unlock(&fake.lock);
	return kernel ? 0 : -1;
}

/* After the kernels that come by default, so that a program's own take the place of those. */
int fakecuda_kernel_add(const char *name, fakecuda_kernel fn, const size_t *param_bytes,
			unsigned params)
{
	fake_once();
	return kernel_put(name, fn, param_bytes, params);
}

int fakecuda_sm_take(void)
{
	_Atomic unsigned *taken = &fake.device[fake_stream_device()].sms_taken;
	unsigned now = atomic_load(taken);

	while (now < FAKE_SMS)
		if (atomic_compare_exchange_weak(taken, &now, now + 1))
			return 1;
	return 0;
}

void fakecuda_sm_give(unsigned count)
{
	atomic_fetch_sub(&fake.device[fake_stream_device()].sms_taken, count);
}

/* must: say so where it cannot be had. */
static void kernels_of(const char *path, int must)
{
	static struct fakecuda self = {
#define FAKE_SELF(result, name, params) .name = fakecuda_##name,
		FAKECUDA_CONTROLS(FAKE_SELF)
#undef FAKE_SELF
	};
	void (*add)(const struct fakecuda *fake) = NULL;
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *symbol = handle ? dlsym(handle, "fakecuda_kernels") : NULL;

	if (symbol) {
		self.kernel_add = kernel_put;
		memcpy(&add, &symbol, sizeof(symbol));
		add(&self);
	} else if (must) {
		fprintf(stderr, "fakecuda: FAKECUDA_KERNELS: %s\n", dlerror());
	}
}

void fake_kernels_load(void)
{
	const char *more = getenv("FAKECUDA_KERNELS"), *slash;
	char path[4096];
	Dl_info here;

	if (more && !strcmp(more, "none"))
		return;
	if (dladdr((void *)&fake, &here) && (slash = strrchr(here.dli_fname, '/')) != NULL &&
	    (size_t)snprintf(path, sizeof(path), "%.*s/libfakekernels.so",
			     (int)(slash - here.dli_fname), here.dli_fname) < sizeof(path))
		kernels_of(path, 0);
	if (more && *more)
		kernels_of(more, 1);
}

static void kernel_run(struct fake_work *work)
{
	work->kernel->fn(work->params, work->grid_x, work->block_x);
}

static void kernel_end(struct fake_work *work)
{
	fake.device[work->ctx->device].launches--;
	free(work->params);
}

/* One block of memory: the pointers, and behind them the arguments' copies. */
static void **params_copy(const struct cuda_function_st *kernel, void **params)
{
	size_t at = (kernel->params * sizeof(void *) + 15) & ~(size_t)15, whole = at;
	void **out;

	for (unsigned i = 0; i < kernel->params; i++)
		whole += (kernel->bytes[i] + 15) & ~(size_t)15;
	out = calloc(1, whole ? whole : 1);
	for (unsigned i = 0; out && i < kernel->params; i++) {
		out[i] = (char *)out + at;
		memcpy(out[i], params[i], kernel->bytes[i]);
		at += (kernel->bytes[i] + 15) & ~(size_t)15;
	}
	return out;
}

static int launch_bad(cuda_function function, const unsigned *sizes)
{
	for (unsigned i = 0; i < 6; i++) {
		if (!sizes[i])
			return 1;
	}
	return function < kernels || function >= kernels + kernels_used ||
	       (uint64_t)sizes[3] * sizes[4] * sizes[5] > 1024;
}

cuda_result fake_launch(cuda_function function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
			unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
			cuda_stream stream, void **params, void **extra)
{
	const unsigned sizes[6] = {grid_x, grid_y, grid_z, block_x, block_y, block_z};
	struct fake_work *work = NULL;
	cuda_result rc;

	FAKE_ENTER(launch);
	if (extra || shared_bytes > 228 * 1024)
		return extra ? CUDA_ERR_NOT_SUPPORTED : CUDA_ERR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	rc = fake_stream_here(stream, &stream);
	if (!rc && launch_bad(function, sizes))
		rc = CUDA_ERR_INVALID_VALUE;
	if (!rc && fake_stream_ctx(stream) != fake_thread_ctx())
		rc = CUDA_ERR_INVALID_HANDLE;
	if (!rc) {
		work = fake_work_new(stream);
		if (work)
			work->params = params_copy(function, params);
		if (!work || !work->params) {
			free(work);
			work = NULL;
			rc = CUDA_ERR_OUT_OF_MEMORY;
		}
	}
	if (work) {
		work->run = kernel_run;
		work->end = kernel_end;
		work->kernel = function;
		work->grid_x = grid_x;
		work->block_x = block_x;
		fake.device[work->ctx->device].launches++;
		rc = fake_stream_push(stream, work, 0);
	}
	pthread_mutex_unlock(&fake.lock);
	return rc;
}
