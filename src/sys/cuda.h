/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CUDA driver, loaded at run time. Contains the table of its functions, and the visible devices
 * with their primary contexts.
 *
 * A call that needs a context must run between sys_cuda_push and sys_cuda_pop on the same thread.
 * sys_cuda_pop makes the previous context of the thread current again. The primary context of a
 * device is retained from the first sys_cuda_get to the last sys_cuda_put of the process.
 */
#ifndef SYS_CUDA_H
#define SYS_CUDA_H

#include "abi/cuda.h"
#include "sys/cuda_list.h"
#include <tcpx/types.h>

struct sys_cuda {
#define SYS_CUDA_MEMBER(name, symbol, since, params) cuda_result(*name) params;
	SYS_CUDA_LIST(SYS_CUDA_MEMBER)
#undef SYS_CUDA_MEMBER
	int version; /* version of the driver: 1000 x major + 10 x minor */
	int devices; /* number of devices visible to this process, > 0 */
};

/* A visible device. Its ordinal means something in this process only; other processes identify the
 * device by its PCI address. */
struct sys_cuda_gpu {
	const struct sys_cuda *api;
	uint32_t ordinal;
	cuda_device device;
	cuda_ctx ctx; /* the primary context, retained */
	char pci[16]; /* such as "0000:17:00.0", in lower case as in sysfs */
	char name[64];
	int numa;		  /* NUMA node of the nearest host memory, -1 if unknown */
	uint32_t sms, capability; /* capability: 10 x major + minor */
	uint64_t bytes;
};

/*
 * Returns the driver. The first call loads and initialises it from the file that
 * CONFIG_CUDA_LIBRARY names; later calls return the same result. Returns NULL, with ERR_UNSUPPORTED
 * as the last error, if there is no driver or no device, if the driver is too old or a stub, or if
 * this process was forked after the first call. Any thread.
 */
const struct sys_cuda *sys_cuda_driver(void);

/* Retains the primary context of a visible device. Every get needs a put. Returns ERR_UNSUPPORTED
 * without a driver; ERR_INVALID if there is no such device, with the number of visible ones in the
 * error; ERR_NO_MEMORY; for an error of the driver the status of sys_cuda_error(). Any thread. */
tcpx_status sys_cuda_get(uint32_t ordinal, struct sys_cuda_gpu **out_gpu);
void sys_cuda_put(struct sys_cuda_gpu *gpu); /* the last put of a device releases its context */

/* What sys_cuda_pop needs to undo a sys_cuda_push. */
struct sys_cuda_scope {
	const struct sys_cuda_gpu *gpu;
	int mode; /* the thread's capture mode before the push */
};
/* Makes the device's context current on this thread and switches the thread to the relaxed stream
 * capture mode. sys_cuda_pop undoes both. Returns ERR_SYSTEM if the driver refuses. */
tcpx_status sys_cuda_push(const struct sys_cuda_gpu *gpu, struct sys_cuda_scope *out_scope);
void sys_cuda_pop(struct sys_cuda_scope *scope);

/*
 * Loads kernels of this build into the current context, which must be that of `gpu`. `image` is a
 * fatbin, or PTX text with a zero byte at its end. The driver first compiles PTX, which takes up to
 * a second if the result is not in its cache. `what` names the kernels in error texts, such as
 * "copy". May wait for the GPU. Returns ERR_UNSUPPORTED if no kernel runs on this GPU or the driver
 * does not compile PTX, ERR_NO_MEMORY, or ERR_SYSTEM.
 */
tcpx_status sys_cuda_module_load(const struct sys_cuda_gpu *gpu, const void *image,
				 const char *what, cuda_module *out_module);
/* Finds the kernel called `name` in the module. Returns ERR_SYSTEM if it has no such kernel. */
tcpx_status sys_cuda_module_find(const struct sys_cuda_gpu *gpu, cuda_module module,
				 const char *name, cuda_function *out_function);

/* Sets the last error for a failed call of the driver, with the text "WHAT: CUDA_ERROR_X (text)",
 * and returns its status. OUT_OF_MEMORY becomes ERR_NO_MEMORY, INVALID_DEVICE and NO_DEVICE become
 * ERR_UNSUPPORTED, all others ERR_SYSTEM. `result` must not be CUDA_OK. */
tcpx_status sys_cuda_error(cuda_result result, const char *what);
/* Whether a call's result means that the context stays broken until the process is restarted. */
int sys_cuda_fatal(cuda_result result);

#endif
