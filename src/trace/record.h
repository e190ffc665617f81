/* SPDX-License-Identifier: Apache-2.0 */
/* The record of a trace, and the numbers in its file; tcpx-trace(5) documents the format. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stdint.h>

#define TRACE_MAGIC "TCPXTRAC"
#define TRACE_VERSION 1
#define TRACE_HEADER_BYTES 64
#define TRACE_BLOCK_BYTES 32
#define TRACE_BLOCK_MAGIC 0x4b4c4254u /* "TBLK" */
#define TRACE_RECORD_BYTES 64

/* The numbers of calls in the file: new ones are only appended. */
#define TRACE_CALLS(X)                                                                             \
	X(GAP, "gap")                                                                              \
	X(INIT, "init")                                                                            \
	X(DEVICES, "devices")                                                                      \
	X(PROPERTIES, "getProperties")                                                             \
	X(LISTEN, "listen")                                                                        \
	X(CONNECT, "connect")                                                                      \
	X(ACCEPT, "accept")                                                                        \
	X(REG, "regMr")                                                                            \
	X(REG_DMABUF, "regMrDmaBuf")                                                               \
	X(DEREG, "deregMr")                                                                        \
	X(ISEND, "isend")                                                                          \
	X(IRECV, "irecv")                                                                          \
	X(IFLUSH, "iflush")                                                                        \
	X(TEST, "test")                                                                            \
	X(CLOSE_SEND, "closeSend")                                                                 \
	X(CLOSE_RECV, "closeRecv")                                                                 \
	X(CLOSE_LISTEN, "closeListen")                                                             \
	X(DEVICE_MR, "getDeviceMr")                                                                \
	X(CONSUMED, "irecvConsumed")                                                               \
	X(VIRTUAL, "makeVDevice")                                                                  \
	X(FINALIZE, "finalize")                                                                    \
	X(ATTR, "setNetAttr")                                                                      \
	X(STREAM_SEND, "send")                                                                     \
	X(STREAM_RECV, "recv")

enum trace_call {
#define TRACE_ENUM(id, name) TRACE_##id,
	TRACE_CALLS(TRACE_ENUM)
#undef TRACE_ENUM
		TRACE_CALL_COUNT,
};

enum trace_flags {
	TRACE_EMPTY = 1,      /* answered "not yet" so far; repeats counts the calls */
	TRACE_DONE = 2,	      /* a test that ended its request, or a setup that returned a comm */
	TRACE_NOT_HEAD = 4,   /* an older request of the comm was not done */
	TRACE_UNFINISHED = 8, /* the call had not returned when the process ended */
	TRACE_EARLY = 16,     /* irecv: the caller of the plugin accepts an early completion */
	TRACE_UNKNOWN = 32,   /* comm or request was not seen before */
	TRACE_GPU = 64,	      /* registered as GPU memory */
	TRACE_RETRIED = 128,  /* earlier calls answered "not yet": repeats counts them */
};

/* The tag of a test's record: the kind of its request. */
enum trace_kinds { TRACE_KIND_SEND, TRACE_KIND_RECEIVE, TRACE_KIND_FLUSH };

#define TRACE_NONE UINT32_MAX	  /* no comm, no registration */
#define TRACE_DEV_UNKNOWN (-1)	  /* nic, owner or gpu is not known */
#define TRACE_DEV_NOT_LISTED (-2) /* the owner is no device of the plugin */

struct trace_record {
	uint64_t time; /* ticks at which the call began */
	/* The number of the request in its comm; for listen and connect, a hash of the handle; for
	 * GAP, how many records of the thread are missing here. */
	uint64_t number;
	uint64_t bytes;	   /* bytes posted, received or registered */
	uint64_t duration; /* ticks in the call; with repeats: since the first of these calls */
	uint32_t comm;
	uint16_t thread;
	uint8_t call, flags;
	int32_t result, tag;
	uint32_t repeats; /* earlier calls for the same purpose that answered "not yet" */
	uint32_t memory;  /* number of the registration */
	int16_t nic, owner, gpu;
	uint8_t part, parts; /* index and number of the parts of a grouped receive */
};

_Static_assert(sizeof(struct trace_record) == TRACE_RECORD_BYTES, "record");

enum trace_block_types {
	TRACE_BLOCK_RECORDS = 1,
	TRACE_BLOCK_CONTEXT = 2,
	TRACE_BLOCK_CLOCK = 3,
	TRACE_BLOCK_THREAD = 4,
	TRACE_BLOCK_END = 5,
};

enum trace_context_places { TRACE_AT_START, TRACE_AT_END, TRACE_BETWEEN };

enum trace_header_flags { TRACE_CLOCK_TSC = 1 };

/* One moment on three clocks. */
struct trace_moment {
	uint64_t ticks, mono_ns, wall_ns;
};

struct trace_header {
	uint16_t version;
	uint32_t flags, pid;
	struct trace_moment start;
	uint64_t hz; /* estimated ticks per second */
};

struct trace_block {
	uint16_t type;
	uint16_t thread;  /* RECORDS: the thread's number; CONTEXT: enum trace_context_places */
	uint64_t first;	  /* position of the first record among all records of the thread */
	uint64_t dropped; /* records of the thread that were dropped before it */
	const uint8_t *payload;
	uint32_t bytes;
};

#endif
