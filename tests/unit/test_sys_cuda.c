/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loader of the CUDA driver: what it answers without one, devices and contexts over a stand-in,
 * and every driver call failed once. The answer of a process never changes, so each case is one.
 */
#include "unit.h"

#include <stdlib.h>

#include "base/error.h"
#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__,          \
				__LINE__, #condition, error_last()->what);                         \
			return 1;                                                                  \
		}                                                                                  \
	} while (0)

/* Twice: the second answer is kept, and told again. */
static int refused(const char *what)
{
	for (int i = 0; i < 2; i++) {
		struct sys_cuda_gpu *gpu = NULL;

		error_set(TCPX_ERR_INTERNAL, 0, "nothing yet");
		CHECK(!sys_cuda_driver());
		CHECK(error_last()->status == TCPX_ERR_UNSUPPORTED);
		CHECK(strstr(error_last()->what, what));
		CHECK(error_last()->next[0]);
		error_set(TCPX_ERR_INTERNAL, 0, "nothing yet");
		CHECK(sys_cuda_get(0, &gpu) == TCPX_ERR_UNSUPPORTED);
		CHECK(!gpu && strstr(error_last()->what, what));
	}
	return 0;
}

static int no_library(void)
{
	setenv("TCPX_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", 1);
	CHECK(!refused("cannot load the CUDA driver: /nonexistent/libcuda.so.1"));
	CHECK(strstr(error_last()->next, "TCPX_CUDA_LIBRARY"));
	return 0;
}

static int no_elf(void)
{
	setenv("TCPX_CUDA_LIBRARY", GOLDEN_DIR "/frame.hex", 1);
	return refused("frame.hex");
}

static int other_library(void)
{
	setenv("TCPX_CUDA_LIBRARY", "libc.so.6", 1);
	return refused("libc.so.6 is no CUDA driver");
}

static int incomplete(void)
{
	setenv("TCPX_CUDA_LIBRARY", CUDA_INCOMPLETE, 1);
	return refused("lacks cuGetErrorName");
}

static int too_old(void)
{
	setenv("FAKECUDA_DRIVER_VERSION", "11020", 1);
	CHECK(!refused("too old: of CUDA 11.2"));
	CHECK(strstr(error_last()->next, "11.4"));
	return 0;
}

static int no_device(void)
{
	setenv("FAKECUDA_DEVICES", "0", 1);
	return refused("no CUDA device is visible");
}

static int all_hidden(void)
{
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	CHECK(!refused("no CUDA device is visible"));
	CHECK(strstr(error_last()->next, "CUDA_VISIBLE_DEVICES"));
	return 0;
}

static int stub(void)
{
	setenv("FAKECUDA_FAIL", "cuInit:1:34", 1);
	return refused("stub");
}

static int mismatch(void)
{
	setenv("FAKECUDA_FAIL", "cuInit:1:999", 1);
	return refused("cuInit: CUDA_ERROR_UNKNOWN (unknown error)");
}

static int count_fails(void)
{
	setenv("FAKECUDA_FAIL", "cuDeviceGetCount:1:1", 1);
	return refused("cuDeviceGetCount: CUDA_ERROR_INVALID_VALUE");
}

static int version_fails(void)
{
	setenv("FAKECUDA_FAIL", "cuDriverGetVersion:1:1", 1);
	return refused("cuDriverGetVersion of");
}

static int devices(void)
{
	struct sys_cuda_gpu *gpu, *same, *other;
	const struct sys_cuda *api;

	setenv("FAKECUDA_DEVICES", "3", 1);
	setenv("CUDA_VISIBLE_DEVICES", "2,1", 1);
	api = sys_cuda_driver();
	CHECK(api && api == sys_cuda_driver());
	CHECK(api->devices == 2 && api->version == 13000);
	CHECK(sys_cuda_get(2, &gpu) == TCPX_ERR_INVALID);
	CHECK(strstr(error_last()->what, "cuda:2: 2 visible"));
	CHECK(!sys_cuda_get(0, &gpu) && !sys_cuda_get(0, &same) && !sys_cuda_get(1, &other));
	CHECK(gpu == same && gpu != other);
	CHECK(gpu->api == api && gpu->ordinal == 0 && gpu->ctx && gpu->ctx != other->ctx);
	CHECK(!strcmp(gpu->pci, "0000:3c:00.0") && !strcmp(gpu->name, "Fake GPU 2"));
	CHECK(gpu->numa == 0 && other->numa == -1);
	CHECK(gpu->sms == 132 && gpu->capability == 90 && gpu->bytes == (uint64_t)4 << 30);
	sys_cuda_put(gpu);
	sys_cuda_put(NULL);
	CHECK(same->ctx);
	sys_cuda_put(same);
	sys_cuda_put(other);
	return 0;
}

/* Whatever is current before is current after; capture modes too. */
static int scopes(void)
{
	struct sys_cuda_scope outer, inner;
	struct sys_cuda_gpu *a, *b;
	const struct sys_cuda *api;
	cuda_ctx own, now;
	int mode = CUDA_CAPTURE_THREAD_LOCAL;

	CHECK(!sys_cuda_get(0, &a) && !sys_cuda_get(1, &b));
	api = a->api;
	CHECK(!api->ctx_current(&now) && !now);
	CHECK(!api->ctx_create(&own, 0, 1));
	CHECK(!api->capture_mode(&mode) && mode == CUDA_CAPTURE_GLOBAL);
	CHECK(!sys_cuda_push(a, &outer));
	CHECK(!api->ctx_current(&now) && now == a->ctx);
	CHECK(!sys_cuda_push(b, &inner));
	CHECK(!api->ctx_current(&now) && now == b->ctx);
	mode = CUDA_CAPTURE_RELAXED;
	CHECK(!api->capture_mode(&mode) && mode == CUDA_CAPTURE_RELAXED);
	sys_cuda_pop(&inner);
	CHECK(!api->ctx_current(&now) && now == a->ctx);
	sys_cuda_pop(&outer);
	CHECK(!api->ctx_current(&now) && now == own);
	mode = CUDA_CAPTURE_GLOBAL;
	CHECK(!api->capture_mode(&mode) && mode == CUDA_CAPTURE_THREAD_LOCAL);
	CHECK(!api->ctx_destroy(own));
	sys_cuda_put(b);
	sys_cuda_put(a);
	return 0;
}

static int errors(void)
{
	CHECK(sys_cuda_error(CUDA_ERR_ILLEGAL_ADDRESS, "too early") == TCPX_ERR_SYSTEM);
	CHECK(!strcmp(error_last()->what, "too early: CUDA error 700"));
	CHECK(sys_cuda_driver());
	CHECK(sys_cuda_error(CUDA_ERR_OUT_OF_MEMORY, "cuMemAlloc") == TCPX_ERR_NO_MEMORY);
	CHECK(!strcmp(error_last()->what, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
	CHECK(sys_cuda_error(CUDA_ERR_INVALID_DEVICE, "x") == TCPX_ERR_UNSUPPORTED);
	CHECK(sys_cuda_error(CUDA_ERR_NO_DEVICE, "x") == TCPX_ERR_UNSUPPORTED);
	CHECK(sys_cuda_error(CUDA_ERR_ILLEGAL_ADDRESS, "x") == TCPX_ERR_SYSTEM);
	CHECK(strstr(error_last()->next, "restart"));
	CHECK(sys_cuda_error(12345, "x") == TCPX_ERR_SYSTEM);
	CHECK(!strcmp(error_last()->what, "x: unknown error (no text)"));
	CHECK(sys_cuda_fatal(CUDA_ERR_ILLEGAL_ADDRESS) && sys_cuda_fatal(CUDA_ERR_DEINITIALIZED));
	CHECK(!sys_cuda_fatal(CUDA_ERR_NOT_READY) && !sys_cuda_fatal(CUDA_ERR_OUT_OF_MEMORY));
	CHECK(!sys_cuda_fatal(CUDA_ERR_INVALID_VALUE) && !sys_cuda_fatal(CUDA_OK));
	return 0;
}

/* The driver is gone before the library lets go: no crash, no line. */
static int at_exit(void)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	struct fakecuda fake;

	CHECK(!fakecuda_open(FAKECUDA, &fake));
	CHECK(!sys_cuda_get(0, &gpu));
	CHECK(!sys_cuda_push(gpu, &scope));
	fake.deinit(1);
	sys_cuda_pop(&scope);
	CHECK(sys_cuda_push(gpu, &scope) == TCPX_ERR_SYSTEM);
	sys_cuda_put(gpu);
	return 0;
}

static int grandchild(void)
{
	CHECK(!refused("forked"));
	return 0;
}

static int forked(void)
{
	struct sys_cuda_gpu *gpu;
	int status = -1;
	pid_t pid;

	CHECK(!sys_cuda_get(0, &gpu));
	pid = fork();
	if (!pid)
		_exit(grandchild());
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	sys_cuda_put(gpu);
	return 0;
}

static int forked_without(void)
{
	int status = -1;
	pid_t pid;

	setenv("TCPX_CUDA_LIBRARY", "/nonexistent/libcuda.so.1", 1);
	CHECK(!sys_cuda_driver());
	pid = fork();
	if (!pid)
		_exit(refused("/nonexistent/libcuda.so.1"));
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	return 0;
}

/* One use of a device; the first status that is not OK. */
static tcpx_status use_once(void)
{
	struct sys_cuda_scope scope;
	struct sys_cuda_gpu *gpu;
	tcpx_status status;

	status = sys_cuda_get(0, &gpu);
	if (status)
		return status;
	status = sys_cuda_push(gpu, &scope);
	if (!status)
		sys_cuda_pop(&scope);
	sys_cuda_put(gpu);
	return status;
}

static const struct failure {
	const char *symbol;
	unsigned calls; /* that one use makes */
	tcpx_status status;
} failures[] = {
	{"cuDeviceGet", 1, TCPX_ERR_SYSTEM},
	{"cuDeviceGetPCIBusId", 1, TCPX_ERR_SYSTEM},
	{"cuDeviceGetName", 1, TCPX_ERR_SYSTEM},
	{"cuDeviceTotalMem", 1, TCPX_ERR_SYSTEM},
	{"cuDeviceGetAttribute", 3, TCPX_ERR_SYSTEM},
	{"cuDevicePrimaryCtxRetain", 1, TCPX_ERR_SYSTEM},
	{"cuThreadExchangeStreamCaptureMode", 1, TCPX_ERR_SYSTEM},
	{"cuCtxPushCurrent", 1, TCPX_ERR_SYSTEM},
	/* what lets go has nobody to tell */
	{"cuCtxPopCurrent", 1, TCPX_OK},
	{"cuDevicePrimaryCtxRelease", 1, TCPX_OK},
};

static int each_call_fails_once(void)
{
	const struct sys_cuda *api = sys_cuda_driver();
	struct fakecuda fake;

	CHECK(api && !fakecuda_open(FAKECUDA, &fake));
	CHECK(!use_once());
	for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
		const struct failure *row = &failures[i];

		for (unsigned nth = 1; nth <= row->calls; nth++) {
			int mode = CUDA_CAPTURE_GLOBAL;
			cuda_ctx now;

			CHECK(!fake.fail_call(row->symbol, nth, CUDA_ERR_NOT_PERMITTED));
			error_set(TCPX_ERR_INTERNAL, 0, "nothing yet");
			CHECK(use_once() == row->status);
			CHECK(!row->status || strstr(error_last()->what, row->symbol));
			CHECK(!row->status || strstr(error_last()->what, "CUDA_ERROR_NOT_PER"));
			CHECK(!api->ctx_current(&now) && !now);
			CHECK(!api->capture_mode(&mode) && mode == CUDA_CAPTURE_GLOBAL);
			CHECK(!fake.live(NULL));
			CHECK(!use_once());
		}
	}
	CHECK(!fake.fail_call("cuDevicePrimaryCtxRetain", 1, CUDA_ERR_OUT_OF_MEMORY));
	CHECK(use_once() == TCPX_ERR_NO_MEMORY);
	CHECK(!fake.fail_call("cuDeviceGetAttribute", 4,
			      CUDA_ERR_INVALID_VALUE)); /* NUMA: not needed */
	CHECK(!use_once());
	return 0;
}

static void run(void **state)
{
	int (*fn)(void);

	memcpy(&fn, state, sizeof(fn));
	assert_int_equal(in_child(fn), 0);
}

#define CASE(fn)                                                                                   \
	{                                                                                          \
#fn, run, NULL, NULL, (void *)(uintptr_t)fn                                        \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(no_library),  CASE(no_elf),	 CASE(other_library),
		CASE(incomplete),  CASE(too_old),	 CASE(no_device),
		CASE(all_hidden),  CASE(stub),		 CASE(mismatch),
		CASE(count_fails), CASE(devices),	 CASE(version_fails),
		CASE(scopes),	   CASE(errors),	 CASE(at_exit),
		CASE(forked),	   CASE(forked_without), CASE(each_call_fails_once),
	};

	setenv("TCPX_CUDA_LIBRARY", FAKECUDA, 1);
	unsetenv("CUDA_VISIBLE_DEVICES");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
