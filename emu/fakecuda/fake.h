/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of the stand-in: one lock over all tables, one thread a stream. Work runs without the
 * lock; what it touches is held by counters (range.uses, device.launches).
 */
#ifndef FAKE_H
#define FAKE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "sys/cuda.h"

#include "fakecuda.h"

#define FAKE_DEVICES_MAX 16
#define FAKE_SMS 132 /* of a device */
#define FAKE_STACK_MAX 64
#define FAKE_GRAIN ((size_t)2 << 20)  /* of addresses and of VMM allocations */
#define FAKE_ARENA ((size_t)64 << 30) /* its last grain is not used: the first is aligned */

enum fake_call {
#define FAKE_ID(name, symbol, since, params) FAKE_##name,
	SYS_CUDA_LIST(FAKE_ID)
#undef FAKE_ID
		FAKE_ctx_set,
	FAKE_ctx_device,
	FAKE_CALLS,
};

/* Every exported function has the prototype of the list and the symbol's name. */
#define FAKE_PROTOTYPE(name, symbol, since, params)                                                \
	cuda_result fake_##name params __asm__(symbol) __attribute__((visibility("default")));
SYS_CUDA_LIST(FAKE_PROTOTYPE)
#undef FAKE_PROTOTYPE
cuda_result fake_ctx_set(cuda_ctx ctx) __asm__("cuCtxSetCurrent")
	__attribute__((visibility("default")));
cuda_result fake_ctx_device(cuda_device *out) __asm__("cuCtxGetDevice")
	__attribute__((visibility("default")));

struct cuda_stream_st;

struct cuda_ctx_st {
	struct cuda_ctx_st *next;
	int device, primary;
	unsigned refs; /* retains; 1 of a created one; 0: destroyed */
	cuda_result sticky;
	uint32_t peers; /* devices it may access */
	struct cuda_stream_st *null_stream;
};

struct fake_device {
	int physical;
	struct cuda_ctx_st primary;
	uint64_t used;
	unsigned launches; /* kernels queued or running: they may touch anything */
	unsigned running;
	int held;
	_Atomic unsigned sms_taken; /* by kernels that run, each a whole SM */
};

enum fake_kind {
	FAKE_MEMORY,  /* cuMemAlloc */
	FAKE_MANAGED, /* the CPU may touch it as well */
	FAKE_POOL,
	FAKE_IPC,      /* of another process */
	FAKE_POOL_IPC, /* of another process's pool */
	FAKE_VMM,      /* a mapping */
	FAKE_HOST,
	FAKE_REGISTERED,
};

/* One allocation, mapping or registration. */
struct fake_range {
	struct fake_range *next;
	enum fake_kind kind;
	uint64_t base;
	size_t bytes;
	uint32_t begin; /* of base in its first page */
	int device;
	cuda_ctx ctx; /* NULL of pool and VMM memory */
	uint64_t id;
	int fd;		     /* of its memory; -1: host memory */
	unsigned uses;	     /* by queued work */
	unsigned opens;	     /* of an IPC mapping */
	uint64_t inode;	     /* of an IPC mapping's memory */
	cuda_pool pool;	     /* of memory of a pool */
	uint32_t access;     /* VMM: devices that may read and write it */
	unsigned host_flags; /* of pinned memory */
	int going;	     /* being freed: nobody finds it any more */
	struct fake_handle *handle;
};

struct fake_state {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* work ended, or a hold did */
	_Atomic int forked, gone, initialised;
	int version, no_peer, capture, cover_strict;
	unsigned refused; /* by a capture */
	int devices;
	struct fake_device device[FAKE_DEVICES_MAX];
	struct cuda_ctx_st *contexts; /* created ones, destroyed ones too */
	struct fake_range *ranges;
	uint64_t next_id, seed, device_bytes;
	unsigned delay_us, pending;
	uint8_t *arena, *shadow; /* the same pages: given out, and touched by us */
	struct fakecuda_live live;
};
extern struct fake_state fake;

/* fake_fail.c: counts the call; what it fails with. Every exported function begins with it. */
cuda_result fake_enter(enum fake_call call);
/* As fake_enter, and a capture in progress may forbid it. */
cuda_result fake_enter_unsafe(enum fake_call call);
void fake_fail_environment(void);
/* The environment, once, by whoever comes first. */
void fake_once(void);
void fake_kernels_load(void); /* fake_work.c: this project's, and what FAKECUDA_KERNELS names */
void fake_start(void);
#define FAKE_ENTER(name)                                                                           \
	do {                                                                                       \
		cuda_result fake_rc = fake_enter(FAKE_##name);                                     \
		if (fake_rc)                                                                       \
			return fake_rc;                                                            \
	} while (0)
#define FAKE_ENTER_UNSAFE(name)                                                                    \
	do {                                                                                       \
		cuda_result fake_rc = fake_enter_unsafe(FAKE_##name);                              \
		if (fake_rc)                                                                       \
			return fake_rc;                                                            \
	} while (0)
/* A call that lets go does so and tells an injected failure behind it; but not at the end of the
 * process, in a forked child, or before cuInit. */
#define FAKE_ENTER_LATE(name, out_late)                                                            \
	do {                                                                                       \
		*(out_late) = fake_enter(FAKE_##name);                                             \
		if (fake_dead(*(out_late)))                                                        \
			return *(out_late);                                                        \
	} while (0)
int fake_dead(cuda_result rc);

/* fake_ctx.c; under the lock. */
void fake_gone(unsigned *live);		  /* one of them */
cuda_result fake_ctx_here(cuda_ctx *out); /* current, alive and not broken */
/* Of a call that lets go: in a broken context it does so too, and tells the fault behind it. */
cuda_result fake_ctx_leaving(cuda_result *inout_late);
int fake_ctx_valid(cuda_ctx ctx);			   /* one of ours, alive */
cuda_result fake_ctx_state(const struct cuda_ctx_st *ctx); /* its sticky fault */
int *fake_thread_capture(void);
cuda_ctx fake_thread_ctx(void);

/* fake_range.c; under the lock. */
struct fake_range *fake_range_find(uint64_t addr);
struct fake_range *fake_range_overlap(uint64_t addr, size_t bytes);
int fake_in_arena(uint64_t addr);
void *fake_shadow(uint64_t addr);
uint64_t fake_arena_take(size_t bytes, size_t alignment); /* 0: full */
void fake_arena_give(uint64_t addr, size_t bytes);
/* The fd's bytes at addr of the arena; cpu: also where the address was given out. -1 */
int fake_arena_map(uint64_t addr, size_t bytes, int fd, int cpu);
void fake_arena_unmap(uint64_t addr, size_t bytes);
struct fake_range *fake_range_add(enum fake_kind kind, uint64_t base, size_t bytes, cuda_ctx ctx,
				  int device);
/* Waits for the work that uses it, unlinks and frees it; its memory stays. */
void fake_range_remove(struct fake_range *range);
/* The same without waiting: -1: queued work uses it; it is nobody's any more, and never goes. */
int fake_range_remove_now(struct fake_range *range);
/* May device touch all of it? Pinned and unregistered host memory counts. FAKE_SPAN_... */
enum fake_span { FAKE_SPAN_BAD, FAKE_SPAN_KNOWN, FAKE_SPAN_PAGEABLE };
enum fake_span fake_span(uint64_t addr, size_t bytes, int device);
/* Whether the bytes begin in an allocation of cuMemAlloc and end in another one: the driver refuses
 * such copies. */
int fake_span_crosses(uint64_t addr, size_t bytes);
/* May kernels of the device touch it? device < 0: nobody in particular asks. (fake_query.c) */
int fake_reachable(const struct fake_range *range, int device);
void fake_span_use(uint64_t addr, size_t bytes, int by);
int fake_memory_file(const char *what, int device, size_t bytes); /* -1 */

/* fake_vmm.c */
int fake_device_of(int physical); /* the visible device of a physical one; -1 */
/* Returns the visible device whose memory the descriptor is. Returns -1 if fake_memory_file() has
 * not made it, or for another `what`. */
int fake_file_device(const char *what, int fd);
/* Returns the device on which an allocation is asked for, or -1 if the request is invalid. */
int fake_prop_device(int type, struct cuda_location location);

/* fake_mem.c; under the lock. Allocates memory, from the pool if `pool` is not NULL. */
cuda_result fake_memory_make(enum fake_kind kind, cuda_ctx owner, int device, size_t bytes,
			     cuda_pool pool, cuda_ptr *out);

/* fake_pool.c; under the lock. */
cuda_pool fake_pool_default(int device);
int fake_pool_reachable(cuda_pool pool, int device);
/* Whether the pool belongs to another process and is open here. *out_inode identifies it. */
int fake_pool_opened(cuda_pool pool, uint64_t *out_inode);
/* Returns the inode that identifies the pool to other processes, or 0 if it cannot be exported. */
uint64_t fake_pool_inode(cuda_pool pool);
/* Adds `by` to the pool's number of allocations. A destroyed pool is freed with the last one. */
void fake_pool_used(cuda_pool pool, int by);

/* fake_ipc.c; under the lock. Unmaps memory of another process, without waiting for its users. */
void fake_ipc_unmap(struct fake_range *range);

/* fake_stream.c */
struct fake_work {
	struct fake_work *next;
	uint64_t number;		     /* in the order of all pushes of the process */
	void (*run)(struct fake_work *work); /* without the lock; NULL: nothing */
	void (*end)(struct fake_work *work); /* under the lock, also of dropped work */
	cuda_event wait;		     /* and its count that must be reached */
	uint64_t count;
	cuda_event record;
	cuda_ctx ctx;
	cuda_result fault; /* breaks the context instead of running */
	uint64_t addr, from;
	void *to_cpu, *from_cpu;
	size_t bytes;
	int within; /* a copy within one device's memory */
	uint32_t value;
	cuda_function kernel;
	void **params;
	unsigned grid_x, block_x;
};
struct fake_work *fake_work_new(cuda_stream stream);
/* The stream, or the context's default one; its context must be alive and whole. Under the lock. */
cuda_result fake_stream_here(cuda_stream stream, cuda_stream *out);
/* Takes the work; returns its number. wait: until it ended (or the context broke). */
cuda_result fake_stream_push(cuda_stream stream, struct fake_work *work, int wait);
cuda_ctx fake_stream_ctx(cuda_stream stream);
/* Until all work ended that the device's streams have now; work in a broken context ends. */
void fake_device_wait(int device);
/* The device whose work runs on this thread; -1. */
int fake_stream_device(void);
/* fake_event.c; under the lock. count 0: a wait for it ended, else that record was reached. */
void fake_event_done(cuda_event event, uint64_t count);
int fake_event_reached(const struct cuda_event_st *event, uint64_t count);
/* Workers look again: an event, a hold or a context changed. */
void fake_streams_wake(void);

#endif
