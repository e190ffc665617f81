/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for the CUDA driver does what tests rely on: streams, kernels, faults. */
#include "fakecuda_case.h"

/* CUDA_VISIBLE_DEVICES=2,0 of three. */
static void devices_are_hidden_and_reordered(void **state)
{
	struct sys_cuda_gpu *other;

	(void)state;
	assert_int_equal(api->devices, 2);
	assert_string_equal(gpu->pci, "0000:3c:00.0");
	assert_int_equal(sys_cuda_get(1, &other), TCPX_OK);
	assert_string_equal(other->pci, "0000:3a:00.0");
	assert_string_equal(other->name, "Fake GPU 0");
	assert_int_equal(other->numa, 0);
	sys_cuda_put(other);
}

static void memory_of_a_device_faults_for_the_cpu(void **state)
{
	cuda_ptr ptr = take(4096);
	pid_t pid = fork();
	int status;

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		*(volatile char *)(uintptr_t)ptr = 1;
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

/* Pinned, pageable and device memory in every pair; nothing behind the end is touched. */
static void copies_between_all_kinds(void **state)
{
	enum { BYTES = 70001 };
	uint8_t *pinned = host_new(BYTES + 1), *heap = malloc(BYTES + 1);
	cuda_ptr a = take(BYTES + 1), b = take(BYTES);
	cuda_stream stream = stream_new();

	(void)state;
	assert_non_null(heap);
	for (int i = 0; i < BYTES; i++)
		heap[i] = (uint8_t)(i * 31 + i / 251);
	heap[BYTES] = 0;
	memset(pinned, 0, BYTES + 1);
	assert_int_equal(api->set_async(a, 0x5a, BYTES + 1, stream), CUDA_OK);
	assert_int_equal(api->copy_async(a, (uintptr_t)heap, BYTES, stream), CUDA_OK);
	assert_int_equal(api->copy_async(b, a, BYTES, stream), CUDA_OK);
	assert_int_equal(api->copy_async((uintptr_t)pinned, b, BYTES, stream), CUDA_OK);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_memory_equal(pinned, heap, BYTES + 1);
	assert_int_equal(fake.read(a + BYTES, pinned, 1), 0);
	assert_int_equal(pinned[0], 0x5a);
	assert_int_equal(fake.read(a + BYTES, pinned, 2), -1);
	memset(heap, 0, BYTES);
	assert_int_equal(api->copy((uintptr_t)heap, b + 5, 100), CUDA_OK);
	assert_memory_equal(heap, pinned + 5, 100);
	assert_int_equal(api->copy(a, b, 0), CUDA_OK);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->mem_free(a), CUDA_OK);
	assert_int_equal(api->mem_free(b), CUDA_OK);
	assert_int_equal(api->mem_free(b), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->host_free(pinned), CUDA_OK);
	free(heap);
}

/* Whoever sees the word sees the bytes. */
static void a_word_behind_a_copy(void **state)
{
	_Atomic uint32_t *word = host_new(4096);
	cuda_stream stream = stream_new();
	uint8_t *to = host_new(64);
	cuda_ptr from = take(64), at;

	(void)state;
	assert_int_equal(api->host_device_ptr(&at, (void *)word, 0), CUDA_OK);
	for (uint32_t i = 1; i <= 500; i++) {
		assert_int_equal(api->set_async(from, (uint8_t)i, 64, stream), CUDA_OK);
		assert_int_equal(api->copy_async((uintptr_t)to, from, 64, stream), CUDA_OK);
		assert_int_equal(api->stream_write(stream, at, i, 0), CUDA_OK);
		while (atomic_load_explicit(word, memory_order_acquire) != i)
			;
		assert_int_equal(to[0], (uint8_t)i);
		assert_int_equal(to[63], (uint8_t)i);
	}
	assert_int_equal(api->stream_write(stream, at + 1, 1, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->stream_write(stream, (uintptr_t)&at, 1, 0), CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->host_free((void *)word), CUDA_OK);
	assert_int_equal(api->host_free(to), CUDA_OK);
	assert_int_equal(api->mem_free(from), CUDA_OK);
}

static void a_hold_freezes_streams(void **state)
{
	cuda_stream stream = stream_new();
	cuda_ptr ptr = take(16);
	uint8_t byte = 1;

	(void)state;
	fake.hold(1);
	assert_int_equal(fake.write(ptr, &byte, 1), 0);
	assert_int_equal(api->set_async(ptr, 9, 16, stream), CUDA_OK);
	assert_int_equal(fake.queued(), 1);
	assert_int_equal(api->stream_query(stream), CUDA_ERR_NOT_READY);
	assert_int_equal(fake.read(ptr, &byte, 1), 0);
	assert_int_equal(byte, 1);
	fake.hold(0);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_int_equal(api->stream_query(stream), CUDA_OK);
	assert_int_equal(fake.queued(), 0);
	assert_int_equal(fake.read(ptr, &byte, 1), 0);
	assert_int_equal(byte, 9);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

/* b's work stands behind an event of a, which is held by nothing but a's own kernel. */
static _Atomic int gate;

static void wait_gate(void **params, unsigned grid_x, unsigned block_x)
{
	(void)params;
	(void)grid_x;
	(void)block_x;
	while (!atomic_load_explicit(&gate, memory_order_acquire))
		sched_yield();
}

static cuda_function kernel_new(const char *name, cuda_module *out_module)
{
	cuda_function function;

	assert_int_equal(api->module_load(out_module, "FAKE"), CUDA_OK);
	assert_int_equal(api->module_function(&function, *out_module, name), CUDA_OK);
	return function;
}

static void events_order_streams(void **state)
{
	cuda_stream a = stream_new(), b = stream_new(), c = stream_new();
	cuda_ptr ptr = take(16);
	cuda_function function;
	cuda_module module;
	cuda_event event;
	uint8_t byte = 0;

	(void)state;
	gate = 0;
	assert_int_equal(fake.kernel_add("wait_gate", wait_gate, NULL, 0), 0);
	function = kernel_new("wait_gate", &module);
	assert_int_equal(api->event_create(&event, CUDA_EVENT_DISABLE_TIMING), CUDA_OK);
	assert_int_equal(api->event_query(event), CUDA_OK);
	assert_int_equal(api->launch(function, 1, 1, 1, 1, 1, 1, 0, a, NULL, NULL), CUDA_OK);
	assert_int_equal(api->set_async(ptr, 1, 16, a), CUDA_OK);
	assert_int_equal(api->event_record(event, a), CUDA_OK);
	assert_int_equal(api->stream_wait_event(b, event, 0), CUDA_OK);
	assert_int_equal(api->set_async(ptr, 2, 16, b), CUDA_OK);
	/* a stream with nothing to wait for overtakes both */
	assert_int_equal(api->set_async(ptr, 3, 16, c), CUDA_OK);
	assert_int_equal(api->stream_synchronize(c), CUDA_OK);
	assert_int_equal(fake.read(ptr, &byte, 1), 0);
	assert_int_equal(byte, 3);
	assert_int_equal(api->stream_query(b), CUDA_ERR_NOT_READY);
	assert_int_equal(api->event_query(event), CUDA_ERR_NOT_READY);
	atomic_store_explicit(&gate, 1, memory_order_release);
	assert_int_equal(api->ctx_synchronize(), CUDA_OK);
	assert_int_equal(api->event_query(event), CUDA_OK);
	assert_int_equal(fake.read(ptr, &byte, 1), 0);
	assert_int_equal(byte, 2);
	assert_int_equal(api->event_destroy(event), CUDA_OK);
	assert_int_equal(api->module_unload(module), CUDA_OK);
	assert_int_equal(api->stream_destroy(a), CUDA_OK);
	assert_int_equal(api->stream_destroy(b), CUDA_OK);
	assert_int_equal(api->stream_destroy(c), CUDA_OK);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

/* What a stream frees may stand in front of its own kernels. */
static void a_stream_frees_in_its_order(void **state)
{
	cuda_stream stream = stream_new();
	cuda_function function;
	cuda_module module;
	cuda_ptr ptr;
	uint8_t byte;

	(void)state;
	gate = 1;
	assert_int_equal(fake.kernel_add("wait_gate", wait_gate, NULL, 0), 0);
	function = kernel_new("wait_gate", &module);
	assert_int_equal(api->mem_alloc_async(&ptr, 100, stream), CUDA_OK);
	fake.hold(1);
	assert_int_equal(api->set_async(ptr, 1, 100, stream), CUDA_OK);
	assert_int_equal(api->mem_free_async(ptr, stream), CUDA_OK);
	assert_int_equal(api->launch(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL), CUDA_OK);
	assert_int_equal(fake.read(ptr, &byte, 1), 0);
	fake.hold(0);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_int_equal(fake.read(ptr, &byte, 1), -1);
	assert_int_equal(api->module_unload(module), CUDA_OK);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
}

/* A synchronize waits for what was there before it, in this context. */
static void a_synchronize_is_of_its_context(void **state)
{
	struct sys_cuda_scope inner;
	struct sys_cuda_gpu *other;
	cuda_stream mine = stream_new(), far;
	cuda_ptr ptr = take(16);

	(void)state;
	assert_int_equal(sys_cuda_get(1, &other), TCPX_OK);
	assert_int_equal(sys_cuda_push(other, &inner), TCPX_OK);
	far = stream_new();
	fake.hold_device(1, 1);
	assert_int_equal(api->set_async(ptr, 1, 16, far), CUDA_OK);
	sys_cuda_pop(&inner);
	assert_int_equal(api->set_async(ptr, 2, 16, mine), CUDA_OK);
	assert_int_equal(api->ctx_synchronize(), CUDA_OK);
	assert_int_equal(api->stream_query(far), CUDA_ERR_NOT_READY);
	fake.hold_device(1, 0);
	assert_int_equal(api->stream_synchronize(far), CUDA_OK);
	assert_int_equal(api->stream_destroy(far), CUDA_OK);
	assert_int_equal(api->stream_destroy(mine), CUDA_OK);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	sys_cuda_put(other);
}

static void add_bytes(void **params, unsigned grid_x, unsigned block_x)
{
	uint64_t ptr = *(uint64_t *)params[0];
	uint32_t count = *(uint32_t *)params[1];
	uint8_t *bytes = fake.translate(ptr, count);

	if (!bytes) {
		fake.fault(CUDA_ERR_ILLEGAL_ADDRESS);
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		bytes[i] = (uint8_t)(bytes[i] + grid_x * block_x);
}

/* Arguments are those of the launch, whatever the caller does with his afterwards. */
static void kernels_run_by_name(void **state)
{
	static const size_t sizes[] = {sizeof(uint64_t), sizeof(uint32_t)};
	cuda_stream stream = stream_new();
	cuda_ptr ptr = take(100), arg = ptr;
	cuda_function function;
	uint32_t count = 50;
	void *params[] = {&arg, &count};
	cuda_module module;
	uint8_t bytes[100];

	(void)state;
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(fake.write(ptr, bytes, 100), 0);
	assert_int_equal(fake.kernel_add("add_bytes", add_bytes, sizes, 2), 0);
	function = kernel_new("add_bytes", &module);
	assert_int_equal(api->module_function(&function, module, "nobody"), CUDA_ERR_NOT_FOUND);
	assert_int_equal(api->module_load(&module, "GARBAGE"), CUDA_ERR_INVALID_IMAGE);
	fake.hold(1);
	assert_int_equal(api->launch(function, 3, 1, 1, 2, 1, 1, 0, stream, params, NULL), CUDA_OK);
	arg = 0;
	count = 7;
	fake.hold(0);
	assert_int_equal(api->launch(function, 1, 1, 1, 2048, 1, 1, 0, stream, params, NULL),
			 CUDA_ERR_INVALID_VALUE);
	assert_int_equal(api->stream_synchronize(stream), CUDA_OK);
	assert_int_equal(fake.read(ptr, bytes, 100), 0);
	assert_int_equal(bytes[0], 6);
	assert_int_equal(bytes[49], 6);
	assert_int_equal(bytes[50], 0);
	/* past the end: the kernel breaks its context */
	arg = ptr;
	count = 101;
	assert_int_equal(api->launch(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL), CUDA_OK);
	assert_int_equal(api->stream_synchronize(stream), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->module_unload(module), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	assert_int_equal(api->mem_free(ptr), CUDA_ERR_ILLEGAL_ADDRESS);
}

/* The fault is told later, by every call of that context, and by no other's. */
static void a_wrong_address_is_sticky(void **state)
{
	struct sys_cuda_scope inner;
	struct sys_cuda_gpu *other;
	cuda_ptr ptr = take(4096), far;
	cuda_stream stream = stream_new();
	uint8_t *host = host_new(8192);

	(void)state;
	assert_int_equal(api->copy_async((uintptr_t)host, ptr, 4097, stream), CUDA_OK);
	assert_int_equal(api->stream_synchronize(stream), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->mem_alloc(&far, 16), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->stream_query(stream), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(sys_cuda_get(1, &other), TCPX_OK);
	assert_int_equal(sys_cuda_push(other, &inner), TCPX_OK);
	far = take(16);
	assert_int_equal(api->copy(far, (uintptr_t)host, 16), CUDA_OK);
	assert_int_equal(api->mem_free(far), CUDA_OK);
	sys_cuda_pop(&inner);
	sys_cuda_put(other);
	/* what lets go still does */
	assert_int_equal(api->mem_free(ptr), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->host_free(host), CUDA_ERR_ILLEGAL_ADDRESS);
	assert_int_equal(api->stream_destroy(stream), CUDA_OK);
	/* and a context made anew is whole */
	sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
	assert_int_equal(enter(NULL), 0);
	ptr = take(16);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

static void calls_are_counted_and_fail_once(void **state)
{
	uint64_t before = fake.calls("cuMemAlloc");
	cuda_ptr ptr;

	(void)state;
	assert_int_equal(fake.calls("cuNothing"), 0);
	assert_int_equal(fake.fail_call("cuNothing", 1, 2), -1);
	assert_int_equal(fake.fail_call("cuMemAlloc", 2, CUDA_ERR_OUT_OF_MEMORY), 0);
	ptr = take(16);
	assert_int_equal(api->mem_alloc(&ptr, 16), CUDA_ERR_OUT_OF_MEMORY);
	/* what lets go tells it and does it */
	assert_int_equal(fake.fail_call("cuMemFree_v2", 1, CUDA_ERR_UNKNOWN), 0);
	assert_int_equal(api->mem_free(ptr), CUDA_ERR_UNKNOWN);
	assert_int_equal(fake.fail_call("cuMemAlloc", 0, CUDA_ERR_UNKNOWN), 0);
	assert_int_equal(api->mem_alloc(&ptr, 16), CUDA_ERR_UNKNOWN);
	assert_int_equal(api->mem_alloc(&ptr, 16), CUDA_ERR_UNKNOWN);
	assert_int_equal(fake.fail_call("cuMemAlloc", 0, CUDA_OK), 0);
	ptr = take(16);
	assert_int_equal(fake.calls("cuMemAlloc_v2"), before + 5);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

static void a_capture_forbids(void **state)
{
	int mode = CUDA_CAPTURE_GLOBAL;
	unsigned before = fake.capture(1);
	cuda_ptr ptr = take(16); /* we are in relaxed mode */

	(void)state;
	assert_int_equal(api->capture_mode(&mode), CUDA_OK);
	assert_int_equal(mode, CUDA_CAPTURE_RELAXED);
	assert_int_equal(api->mem_alloc(&ptr, 16), CUDA_ERR_STREAM_CAPTURE_UNSUPPORTED);
	assert_int_equal(fake.capture(0), before + 1);
	assert_int_equal(api->capture_mode(&mode), CUDA_OK);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
}

static void *other_thread(void *arg)
{
	cuda_ctx now = arg;

	return api->ctx_current(&now) || now ? arg : NULL;
}

static void contexts_stand_on_a_stack_of_their_thread(void **state)
{
	cuda_result (*set)(cuda_ctx ctx);
	cuda_ctx own, now;
	pthread_t thread;
	cuda_ptr ptr;
	void *out;

	(void)state;
	*(void **)&set = dlsym(fake.handle, "cuCtxSetCurrent");
	assert_non_null(set);
	assert_int_equal(api->ctx_create(&own, 0, 1), CUDA_OK);
	assert_int_equal(api->ctx_current(&now), CUDA_OK);
	assert_ptr_equal(now, own);
	ptr = take(16);
	assert_ptr_equal(facts_of(ptr).ctx, own);
	assert_int_equal(api->mem_free(ptr), CUDA_OK);
	assert_int_equal(set(gpu->ctx), CUDA_OK);
	assert_int_equal(api->ctx_pop(&now), CUDA_OK);
	assert_ptr_equal(now, gpu->ctx);
	assert_int_equal(pthread_create(&thread, NULL, other_thread, own), 0);
	assert_int_equal(pthread_join(thread, &out), 0);
	assert_null(out);
	assert_int_equal(api->ctx_destroy(own), CUDA_OK);
	assert_int_equal(api->ctx_push(own), CUDA_ERR_CONTEXT_IS_DESTROYED);
	assert_int_equal(api->ctx_destroy(gpu->ctx), CUDA_ERR_INVALID_CONTEXT);
	assert_int_equal(api->ctx_pop(&now), CUDA_OK);
	assert_int_equal(api->mem_alloc(&ptr, 16), CUDA_ERR_INVALID_CONTEXT);
	assert_int_equal(api->ctx_push(now), CUDA_OK);
}

/* 0: the kernel that FAKECUDA_KERNELS brought along works. */
static int extra_kernel(void)
{
	uint32_t *word, value = 77;
	cuda_function function;
	cuda_module module;
	cuda_ptr at;
	void *params[] = {&at, &value};

	if (api->host_alloc((void **)&word, 4096, CUDA_HOST_MAPPED) ||
	    api->host_device_ptr(&at, word, 0) || api->module_load(&module, "FAKE") ||
	    api->module_function(&function, module, "extra_store") ||
	    api->launch(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL) ||
	    api->ctx_synchronize())
		return -1;
	return *word == 77 ? 0 : -1;
}

/* In a process of its own: what the environment asks for. */
static int environment_child(void)
{
	struct sys_cuda_gpu *a, *b;
	struct sys_cuda_scope inside;
	cuda_ptr ptr;
	int can;

	if (group_start(NULL) || sys_cuda_get(0, &a) || sys_cuda_get(1, &b) ||
	    sys_cuda_push(a, &inside))
		return 20;
	if (api->version != 12020 || a->bytes != 8 * MIB)
		return 21;
	if (api->device_can_access(&can, 0, 1) || can ||
	    api->ctx_enable_peer(b->ctx, 0) != CUDA_ERR_PEER_ACCESS_UNSUPPORTED)
		return 22;
	if (extra_kernel())
		return 25;
	if (api->mem_alloc(&ptr, 16) || api->mem_alloc(&ptr, 16) != CUDA_ERR_ILLEGAL_ADDRESS)
		return 23;
	return api->mem_alloc(&ptr, 9 * MIB) == CUDA_ERR_OUT_OF_MEMORY ? 0 : 24;
}

static void the_environment_counts(void **state)
{
	static const char *const names[] = {"FAKECUDA_NO_PEER", "FAKECUDA_BYTES",
					    "FAKECUDA_DRIVER_VERSION", "FAKECUDA_FAIL",
					    "FAKECUDA_KERNELS"};
	static const char *const values[] = {"1", "8388608", "12020",
					     "cuMemAlloc:2:700,cuMemFree_v2:1:1", CUDA_EXTRA};
	char name[] = "test_fakecuda", mode[] = "environment";
	char *argv[] = {name, mode, NULL};

	(void)state;
	for (int i = 0; i < 5; i++)
		setenv(names[i], values[i], 1);
	assert_int_equal(run_self(argv), 0);
	for (int i = 0; i < 5; i++)
		unsetenv(names[i]);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		CASE(devices_are_hidden_and_reordered),
		CASE(memory_of_a_device_faults_for_the_cpu),
		CASE(copies_between_all_kinds),
		CASE(a_word_behind_a_copy),
		CASE(a_hold_freezes_streams),
		CASE(events_order_streams),
		CASE(a_stream_frees_in_its_order),
		CASE(a_synchronize_is_of_its_context),
		CASE(kernels_run_by_name),
		CASE(a_wrong_address_is_sticky),
		CASE(calls_are_counted_and_fail_once),
		CASE(a_capture_forbids),
		CASE(contexts_stand_on_a_stack_of_their_thread),
		CASE(the_environment_counts),
	};

	if (argc == 2 && !strcmp(argv[1], "environment"))
		return environment_child();
	return cmocka_run_group_tests(tests, group_start, NULL);
}
