/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a test asks the TCPX emulator beside the plugin's own table; found by dlsym in the loaded
 * copy. Any thread. The plugin's settings are environment variables, read at init: see
 * docs/design/tcpxemu-settings.md.
 */
#ifndef TCPXEMU_H
#define TCPXEMU_H

#include <stddef.h>
#include <stdint.h>

#define TCPXEMU_NICS_MAX 16
#define TCPXEMU_GPUS_MAX 32

/*
 * Everything that a right consumer never does, or never lets happen. X(id, name, fatal, meaning).
 * fatal: the real plugin ends the process there (exit, crash, broken heap); TCPXEMU_FATAL says what
 * the emulator does instead. The others are counted, and answered as the real plugin answers them.
 */
#define TCPXEMU_VIOLATIONS(X)                                                                      \
	X(LOGGER, "null-logger", 1, "init without a logger")                                       \
	X(INIT_TWICE, "init-twice", 0, "second init of one image")                                 \
	X(NO_INIT, "no-init", 1, "a call before init")                                             \
	X(BAD_DEV, "bad-dev", 0, "device index out of range")                                      \
	X(NULL_COMM, "null-comm", 0, "a call without its comm")                                    \
	X(DEAD_COMM, "dead-comm", 1, "a comm used after its close")                                \
	X(LISTEN_REUSED, "listen-reused", 1, "accept on a listen comm that has given its comm")    \
	X(HANDLE_REUSED, "handle-reused", 1, "connect with a handle that has given its comm")      \
	X(HANDLE_DIRTY, "handle-dirty", 1, "connect with a handle that is not listen's bytes")     \
	X(CLOSE_PENDING, "close-pending", 0, "closeListen while an accept is under way")           \
	X(DEVHANDLE_NULL, "devhandle-null", 1, "accept with a pointer to no device handle")        \
	X(NO_DEVHANDLE, "no-devhandle", 1, "first receive of a comm accepted without one")         \
	X(GPU_MISMATCH, "gpu-mismatch", 0, "another device current at accept than at listen")      \
	X(POOL_IMPORT, "pool-import", 1, "two accepts at once import the pages of one GPU")        \
	X(EARLY_DATA, "early-data", 1, "data sent before the receiver's accept returned")          \
	X(MR_TYPE, "mr-type", 0, "regMr of a type that is neither host nor CUDA")                  \
	X(MR_ALIGN, "mr-align", 0, "CUDA regMr of a pointer not on a page")                        \
	X(MR_SIZE, "mr-size", 0, "CUDA regMr of a size that is no pages, or 2 GiB and more")       \
	X(MR_OWNER, "mr-owner", 0, "CUDA regMr of memory of another device than the current")      \
	X(MR_NULL, "mr-null", 1, "isend or irecv without a memory handle")                         \
	X(MR_RANGE, "mr-range", 0, "isend outside its registration")                               \
	X(CHUNK_UNSET, "chunk-unset", 0, "a message while NCCL_DYNAMIC_CHUNK_SIZE is not set")     \
	X(CHUNK_DIFFERS, "chunk-differs", 1, "the sender's chunk is larger than the receiver's")   \
	X(MULTI_CHUNK, "multi-chunk", 0, "a CUDA message larger than a chunk: pages leak")         \
	X(IRECV_N, "irecv-n", 0, "irecv of other than one buffer")                                 \
	X(RING_FULL, "ring-full", 0, "a 17th request, unconsumed receives included")               \
	X(IFLUSH, "iflush", 1, "iflush")                                                           \
	X(TEST_NULL, "test-null", 0, "test of no request")                                         \
	X(TEST_ORDER, "test-order", 0, "test of a request that is not the oldest")                 \
	X(TEST_DONE, "test-done", 0, "test of a request that was done")                            \
	X(CONSUME_NULL, "consume-null", 0, "irecvConsumed of no request, or of other than one")    \
	X(CONSUME_SEND, "consume-send", 0, "irecvConsumed of a send")                              \
	X(CONSUME_ORDER, "consume-order", 0, "irecvConsumed out of order, early or twice")         \
	X(CONSUME_EMPTY, "consume-empty", 1, "the same of an empty message: breaks the ring")      \
	X(THREADS, "two-threads", 1, "two threads in one comm at once")                            \
	X(OVERRUN, "overrun", 0, "a message larger than its receive")                              \
	X(NO_CMSG, "no-cmsg", 1, "CUDA receive on a flow that is not steered")                     \
	X(HOST_STEERED, "host-steered", 0, "host receive on a steered flow: EFAULT, then silence") \
	X(CHUNK_FRAGMENTS, "chunk-fragments", 1, "2048 fragments in a chunk")                      \
	X(REQUEST_FRAGMENTS, "request-fragments", 1, "more than 2048 fragments in a message")      \
	X(UNCONSUMED, "unconsumed", 0,                                                             \
	  "close of a comm with receives that are done and not consumed")                          \
	X(POOL, "pool", 1, "a page given back that was not out: the emulator's own fault")         \
	X(CUDA, "cuda", 1, "a call of the driver failed")

enum tcpxemu_violation {
#define TCPXEMU_ID(id, name, fatal, meaning) TCPXEMU_##id,
	TCPXEMU_VIOLATIONS(TCPXEMU_ID)
#undef TCPXEMU_ID
		TCPXEMU_VIOLATION_COUNT,
};

struct tcpxemu_stats {
	uint64_t pages_total;  /* of all bounce pools that exist */
	uint64_t pages_in_use; /* filled or lost; 0 when all was consumed */
	uint64_t pages_lost;   /* of pages_in_use: their token is forgotten until the comm closes */
	uint64_t pages_peak;   /* the highest pages_in_use */
	uint64_t stalls;       /* a helper found its pool empty */
	/* Messages: without an empty one that begins a comm, which only shows that it is there. */
	uint64_t fragments, reads, sent_messages, received_messages, sent_bytes, received_bytes;
	uint64_t comms_open, comms_made;
	uint64_t inits;		 /* calls of init, good ones or not */
	uint64_t regs;		 /* of regMr, counted before they take their time */
	uint64_t in_flight_peak; /* the most requests of one comm, unconsumed ones included */
	uint64_t violations;	 /* of every code */
	uint64_t calls;		 /* of isend, irecv and test */
	uint64_t devmem_packets[TCPXEMU_NICS_MAX]; /* by device index */
	/* Imports of a GPU's pages, by index of the topology's GPUs; the last: of none of them. */
	uint64_t pool_imports[TCPXEMU_GPUS_MAX + 1];
};

#define TCPXEMU_API __attribute__((visibility("default")))

/*
 * set_gpu     The calling thread's device where no CUDA driver says it, as an index of the
 *             topology's GPUs; a thread that never set it has TCPXEMU_GPU.
 * get_gpu     The device that a call of this thread would see; -1: none of the topology.
 * stats       A snapshot.
 * stats_wait  Sleeps while sent_messages, received_messages, stalls and comms_open are what they
 *             are in *stats, then takes a snapshot: a caller that looks at each one misses no
 *             change that lasts. No limit of time.
 * violations  How often by name ("ring-full"); NULL: all together; an unknown name: UINT64_MAX.
 * write_stats Writes the statistics file now. 0; -1: there is none to write, errno.
 */
TCPXEMU_API void tcpxemu_set_gpu(int gpu);
TCPXEMU_API int tcpxemu_get_gpu(void);
TCPXEMU_API void tcpxemu_stats(struct tcpxemu_stats *out);
TCPXEMU_API void tcpxemu_stats_wait(struct tcpxemu_stats *stats);
TCPXEMU_API uint64_t tcpxemu_violations(const char *name);
TCPXEMU_API int tcpxemu_write_stats(void);

#endif
