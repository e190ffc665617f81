/* SPDX-License-Identifier: Apache-2.0 */
/* Loads the CUDA driver once, and maps its errors to status codes. */
#include "sys/cuda.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/error.h"
#include "sys/cuda_priv.h"

enum load_state { LOAD_NEVER, LOAD_UNDER_WAY, LOAD_DONE, LOAD_FAILED };

/*
 * `state` is written under the lock and may be read without the lock. Once `state` is LOAD_DONE,
 * `driver` is constant and may be read without the lock. Once `state` is LOAD_FAILED, the same
 * holds for `cause`.
 */
static struct {
	pthread_mutex_t lock;
	_Atomic int state;
	_Atomic int forked; /* 1 in a child of the process that loaded the driver */
	struct sys_cuda driver;
	tcpx_error cause; /* why loading failed */
} cuda = {.lock = PTHREAD_MUTEX_INITIALIZER};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct entry {
	const char *symbol;
	int since;     /* oldest driver version with the function */
	size_t offset; /* of the function pointer in struct sys_cuda */
} entries[] = {
#define CUDA_ENTRY(name, symbol, since, params) {symbol, since, offsetof(struct sys_cuda, name)},
	SYS_CUDA_LIST(CUDA_ENTRY)
#undef CUDA_ENTRY
};

/* Runs in a forked child. Makes sys_cuda_driver fail there if the parent had loaded the driver or
 * was loading it, because the driver does not survive a fork. */
static void cuda_in_child(void)
{
	pthread_mutex_init(&cuda.lock, NULL);
	if (atomic_load_explicit(&cuda.state, memory_order_relaxed) != LOAD_FAILED)
		atomic_store_explicit(&cuda.forked, 1, memory_order_relaxed);
	sys_cuda_gpus_forked();
}

static void cuda_at_fork(void)
{
	/* If the registration fails, calls in a child fail with the driver's own error. */
	(void)pthread_atfork(NULL, NULL, cuda_in_child);
}

static const char *call_name(const struct sys_cuda *api, cuda_result result)
{
	const char *name = NULL;

	if (!api->error_name || api->error_name(result, &name) || !name)
		return "unknown error";
	return name;
}

static const char *call_text(const struct sys_cuda *api, cuda_result result)
{
	const char *text = NULL;

	if (!api->error_string || api->error_string(result, &text) || !text)
		return "no text";
	return text;
}

static tcpx_status load_open(const char *path, void **out_handle)
{
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	const char *why;

	if (!handle) {
		why = dlerror();
		error_set(TCPX_ERR_UNSUPPORTED, 0, "cannot load the CUDA driver: %s",
			  why ? why : path);
		return error_next("install the NVIDIA driver, or name its library by %s; host "
				  "memory needs none",
				  config_row(CONFIG_CUDA_LIBRARY)->name);
	}
	*out_handle = handle;
	return TCPX_OK;
}

/* Looks up the driver's functions in the library. Returns ERR_UNSUPPORTED if a function is missing
 * that the driver's version should have. Newer functions that are missing become NULL. */
static tcpx_status load_symbols(const char *path, void *handle, struct sys_cuda *api)
{
	int oldest = api->version > SYS_CUDA_DRIVER_MIN ? api->version : SYS_CUDA_DRIVER_MIN;

	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++) {
		void *symbol = dlsym(handle, entries[i].symbol);

		if (!symbol && entries[i].since <= oldest) {
			error_set(TCPX_ERR_UNSUPPORTED, 0, "the CUDA driver %s lacks %s", path,
				  entries[i].symbol);
			return error_next("install a driver of CUDA %d.%d or newer",
					  SYS_CUDA_DRIVER_MIN / 1000,
					  SYS_CUDA_DRIVER_MIN % 1000 / 10);
		}
		memcpy((char *)api + entries[i].offset, &symbol, sizeof(symbol));
	}
	return TCPX_OK;
}

/* Reads the driver's version and checks that it is not too old. Called before the functions are
 * looked up, so that an old driver is reported as old and not as incomplete. */
static tcpx_status load_version(const char *path, void *handle, struct sys_cuda *api)
{
	cuda_result (*ask)(int *out) = NULL;
	void *symbol = dlsym(handle, "cuDriverGetVersion");
	cuda_result result;

	if (!symbol) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "%s is no CUDA driver: no cuDriverGetVersion",
			  path);
		return error_next("name the driver's library by %s",
				  config_row(CONFIG_CUDA_LIBRARY)->name);
	}
	memcpy(&ask, &symbol, sizeof(symbol));
	result = ask(&api->version);
	if (result) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "cuDriverGetVersion of %s: CUDA error %d%s",
			  path, result,
			  result == CUDA_ERR_STUB_LIBRARY ? " (a stub of the toolkit)" : "");
		return error_next("see whether nvidia-smi works here");
	}
	if (api->version < SYS_CUDA_DRIVER_MIN) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "the CUDA driver is too old: of CUDA %d.%d",
			  api->version / 1000, api->version % 1000 / 10);
		return error_next("install a driver of CUDA %d.%d or newer",
				  SYS_CUDA_DRIVER_MIN / 1000, SYS_CUDA_DRIVER_MIN % 1000 / 10);
	}
	return TCPX_OK;
}

static tcpx_status load_start(struct sys_cuda *api)
{
	const char *call = "cuInit";
	cuda_result result = api->init(0);

	if (!result) {
		call = "cuDeviceGetCount";
		result = api->device_count(&api->devices);
	}
	if (result == CUDA_ERR_NO_DEVICE || (!result && api->devices < 1)) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "no CUDA device is visible");
		return error_next("see nvidia-smi and CUDA_VISIBLE_DEVICES");
	}
	if (result == CUDA_ERR_STUB_LIBRARY) {
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "the CUDA driver that was found is a stub of the toolkit");
		return error_next("take the stubs folder out of LD_LIBRARY_PATH");
	}
	if (result) {
		error_set(TCPX_ERR_UNSUPPORTED, 0, "%s: %s (%s)", call, call_name(api, result),
			  call_text(api, result));
		return error_next("see whether nvidia-smi works here");
	}
	return TCPX_OK;
}

/* Loads and initialises the driver. The caller holds cuda.lock. The library stays loaded once
 * cuInit was called, even if that failed, because the driver has threads. */
static tcpx_status load_driver(void)
{
	const char *path = config_text(CONFIG_CUDA_LIBRARY);
	void *handle = NULL;
	tcpx_status status;

	status = load_open(path, &handle);
	if (status)
		return status;
	status = load_version(path, handle, &cuda.driver);
	if (!status)
		status = load_symbols(path, handle, &cuda.driver);
	if (status) {
		dlclose(handle);
		return status;
	}
	return load_start(&cuda.driver);
}

/* Loads the driver, unless an earlier call has tried to. Returns LOAD_DONE or LOAD_FAILED. */
static int load_once(void)
{
	int state;

	pthread_once(&once, cuda_at_fork);
	pthread_mutex_lock(&cuda.lock);
	state = atomic_load_explicit(&cuda.state, memory_order_relaxed);
	if (state == LOAD_NEVER) {
		atomic_store_explicit(&cuda.state, LOAD_UNDER_WAY, memory_order_relaxed);
		state = LOAD_DONE;
		if (load_driver()) {
			cuda.cause = *error_last();
			state = LOAD_FAILED;
		}
		atomic_store_explicit(&cuda.state, state, memory_order_release);
		if (state == LOAD_DONE)
			LOG_INFO("CUDA driver of CUDA %d.%d, %d devices visible",
				 cuda.driver.version / 1000, cuda.driver.version % 1000 / 10,
				 cuda.driver.devices);
	}
	pthread_mutex_unlock(&cuda.lock);
	return state;
}

const struct sys_cuda *sys_cuda_driver(void)
{
	int state;

	if (atomic_load_explicit(&cuda.forked, memory_order_relaxed)) {
		error_set(TCPX_ERR_UNSUPPORTED, 0,
			  "CUDA was initialised before this process was forked: it does not work "
			  "in the child");
		error_next("start processes that use GPUs by exec, or fork before the first use");
		return NULL;
	}
	state = atomic_load_explicit(&cuda.state, memory_order_acquire);
	if (state != LOAD_DONE && state != LOAD_FAILED)
		state = load_once();
	if (state == LOAD_DONE)
		return &cuda.driver;
	error_raise(&cuda.cause);
	return NULL;
}

tcpx_status sys_cuda_error(cuda_result result, const char *what)
{
	const struct sys_cuda *api = &cuda.driver;
	tcpx_status status = TCPX_ERR_SYSTEM;

	if (result == CUDA_ERR_OUT_OF_MEMORY)
		status = TCPX_ERR_NO_MEMORY;
	else if (result == CUDA_ERR_NO_DEVICE || result == CUDA_ERR_INVALID_DEVICE)
		status = TCPX_ERR_UNSUPPORTED;
	if (atomic_load_explicit(&cuda.state, memory_order_acquire) != LOAD_DONE)
		return error_set(status, 0, "%s: CUDA error %d", what, result);
	error_set(status, 0, "%s: %s (%s)", what, call_name(api, result), call_text(api, result));
	if (status == TCPX_ERR_NO_MEMORY)
		return error_next("free GPU or pinned host memory");
	if (sys_cuda_fatal(result))
		return error_next("the GPU's context is broken: restart the process");
	if (status == TCPX_ERR_SYSTEM)
		return error_next("see the CUDA error in the message, and 'dmesg' for the driver");
	return status;
}

int sys_cuda_fatal(cuda_result result)
{
	switch (result) {
	case CUDA_ERR_NOT_INITIALIZED: /* returned in a forked child */
	case CUDA_ERR_DEINITIALIZED:
	case CUDA_ERR_ECC_UNCORRECTABLE:
	case CUDA_ERR_NVLINK_UNCORRECTABLE:
	case CUDA_ERR_CONTAINED:
	case CUDA_ERR_ILLEGAL_ADDRESS:
	case CUDA_ERR_LAUNCH_TIMEOUT:
	case CUDA_ERR_CONTEXT_IS_DESTROYED:
	case CUDA_ERR_ASSERT:
	case CUDA_ERR_HARDWARE_STACK_ERROR:
	case CUDA_ERR_ILLEGAL_INSTRUCTION:
	case CUDA_ERR_MISALIGNED_ADDRESS:
	case CUDA_ERR_INVALID_ADDRESS_SPACE:
	case CUDA_ERR_INVALID_PC:
	case CUDA_ERR_LAUNCH_FAILED:
	case CUDA_ERR_TENSOR_MEMORY_LEAK:
	case CUDA_ERR_UNKNOWN:
		return 1;
	}
	return 0;
}
