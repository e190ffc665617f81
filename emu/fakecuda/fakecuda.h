/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test tells the stand-in for the CUDA driver, and asks it. The library is loaded by its
 * path (TCPX_CUDA_LIBRARY); fakecuda_open() finds the same copy of it.
 *
 * Environment, read at cuInit or at the first call:
 *   FAKECUDA_DEVICES         physical devices, 1 to 16 (default 2); 0: cuInit says NO_DEVICE
 *   CUDA_VISIBLE_DEVICES     which of them, by index, in which order
 *   FAKECUDA_BYTES           memory of a device in bytes (default 4 GiB)
 *   FAKECUDA_DRIVER_VERSION  default 13000
 *   FAKECUDA_NO_PEER         1: no device can access another
 *   FAKECUDA_COVER_STRICT    1: pages that reach outside of allocations are not exported
 *   FAKECUDA_SEED            of the delays between streams (default 1)
 *   FAKECUDA_DELAY_US        longest delay in front of a piece of work (default 30; 0: none)
 *   FAKECUDA_FAIL            "symbol:nth:result,...": the nth call of symbol fails once; nth 0: all
 *   FAKECUDA_KERNELS         a library with "void fakecuda_kernels(const struct fakecuda *)", which
 *                            adds kernels to those of this project (libfakekernels.so, looked for
 *                            in the folder of this library); none: there are no kernels at all
 *
 * cuMemFree waits for all work of its device, as a real driver does.
 *
 * What differs from a real driver: the default stream does not wait for the other streams of its
 * context; kernels are CPU functions by name; nobody but the owner of an address range notices
 * reads of memory that was never written. Memory of a device cannot be touched by the CPU at the
 * address that the driver gives out (the process faults, as it should).
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * A kernel's CPU reference; runs on its stream's thread. params[i] points to a copy of the i-th
 * argument. Device addresses among them go through fakecuda_translate.
 */
typedef void (*fakecuda_kernel)(void **params, unsigned grid_x, unsigned block_x);

struct fakecuda_live {
	unsigned contexts; /* retains of primary contexts and contexts created */
	unsigned memory;   /* cuMemAlloc, cuMemAllocManaged, cuMemAllocAsync */
	unsigned host;	   /* cuMemHostAlloc */
	unsigned registrations;
	unsigned streams, events, modules;
	unsigned ipc;	/* opened handles, allocations of opened pools */
	unsigned pools; /* created and opened ones */
	unsigned vmm;	/* handles, mappings and reservations */
	/* KiB of pinned host memory, in whole KiB of each allocation and registration; not part of
	 * the sum */
	unsigned pinned_kib;
};

/*
 * X(result, name, parameters); names stand behind "fakecuda_". Any thread.
 *
 * calls        of a symbol ("cuMemcpyAsync"; the suffix "_v2" may be left out) so far; 0: unknown.
 * fail_call    The nth call from now fails once with result; nth 0: every one; result 0: none any
 *              more. A call that lets something go does so and tells the failure. -1: unknown.
 * hold         1: no stream starts new work; returns when none works any more. 0: they go on.
 * hold_device  the same for the streams of one device.
 * queued       Pieces of work that streams have not finished.
 * break_device A sticky fault of the device's primary context: work not yet begun is dropped.
 * deinit       1: as at the end of the process, every call answers DEINITIALIZED; 0: not any more.
 * capture      1: as if some thread captured in global mode: calls that a capture forbids fail on
 *              threads that are not in relaxed mode. Returns how many were refused so far.
 * live         What is alive, and the sum of it. out may be NULL.
 * settle       Waits, not for ever, until no more than so much is alive: a session's threads let go
 *              of things behind its close. Returns what is.
 * sm_take      Called by a kernel: one SM of its device is the caller's until sm_give; 0: none is
 *              free. A kernel that waits for one leaves the CPU to others meanwhile.
 * sm_give      Gives so many of them back.
 * kernel_add   A kernel that every module has; param_bytes: size of each argument. Again under the
 *              same name: replaces it. -1: the table is full.
 * translate    Where the CPU may touch [ptr, ptr + bytes); NULL: not all of it is memory that the
 *              kernel's device can reach. Host addresses come back as they are.
 * fault        Called by a kernel: its context is broken from now on.
 * device       Called by a kernel: the ordinal of its device; -1: not by one.
 * read, write  Memory of a device; -1: not all of it is.
 */
#define FAKECUDA_CONTROLS(X)                                                                       \
	X(uint64_t, calls, (const char *symbol))                                                   \
	X(int, fail_call, (const char *symbol, unsigned nth, int result))                          \
	X(void, hold, (int on))                                                                    \
	X(void, hold_device, (unsigned ordinal, int on))                                           \
	X(unsigned, queued, (void))                                                                \
	X(void, break_device, (unsigned ordinal, int result))                                      \
	X(void, deinit, (int on))                                                                  \
	X(unsigned, capture, (int on))                                                             \
	X(unsigned, live, (struct fakecuda_live * out))                                            \
	X(unsigned, settle, (unsigned live))                                                       \
	X(int, sm_take, (void))                                                                    \
	X(void, sm_give, (unsigned count))                                                         \
	X(int, kernel_add,                                                                         \
	  (const char *name, fakecuda_kernel fn, const size_t *param_bytes, unsigned params))      \
	X(void *, translate, (uint64_t ptr, size_t bytes))                                         \
	X(void, fault, (int result))                                                               \
	X(int, device, (void))                                                                     \
	X(int, read, (uint64_t ptr, void *buf, size_t bytes))                                      \
	X(int, write, (uint64_t ptr, const void *buf, size_t bytes))

#define FAKECUDA_DECLARE(result, name, params)                                                     \
	result fakecuda_##name params __attribute__((visibility("default")));
FAKECUDA_CONTROLS(FAKECUDA_DECLARE)
#undef FAKECUDA_DECLARE

/* The controls of a loaded copy. */
struct fakecuda {
#define FAKECUDA_MEMBER(result, name, params) result(*name) params;
	FAKECUDA_CONTROLS(FAKECUDA_MEMBER)
#undef FAKECUDA_MEMBER
	void *handle;
};

/* 0; -1: path is not this library. It is never closed. */
static inline int fakecuda_open(const char *path, struct fakecuda *out)
{
	void *handle = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
	void *symbol;

	if (!handle)
		return -1;
#define FAKECUDA_FIND(result, name, params)                                                        \
	symbol = dlsym(handle, "fakecuda_" #name);                                                 \
	if (!symbol)                                                                               \
		return -1;                                                                         \
	memcpy(&out->name, &symbol, sizeof(symbol));
	FAKECUDA_CONTROLS(FAKECUDA_FIND)
#undef FAKECUDA_FIND
	out->handle = handle;
	return 0;
}

#endif
