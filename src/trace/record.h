/* SPDX-License-Identifier: Apache-2.0 */
/* The structs and numbers of a trace file; tcpx-trace(5) documents the format. */
#ifndef TRACE_RECORD_H
#define TRACE_RECORD_H

#include <stdint.h>

#define TRACE_MAGIC "TCPXTRAC"
#define TRACE_VERSION 1
#define TRACE_HEADER_BYTES 64
#define TRACE_BLOCK_BYTES 32
#define TRACE_BLOCK_MAGIC 0x4b4c4254u /* "TBLK" */
#define TRACE_RECORD_BYTES 64

/* Calls and their names. The number of a call in the file is its index in this list, so a new call
 * must be added at the end. */
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
	/* the call answered "not yet"; `repeats` is the number of such calls, including this one */
	TRACE_EMPTY = 1,
	/* a test that ended its request; a listen, connect or accept that returned a comm; the
	 * opening of a stream channel */
	TRACE_DONE = 2,
	/* an older request of the comm was not done at this test or at an earlier test of the same
	 * request */
	TRACE_OUT_OF_ORDER = 4,
	TRACE_UNFINISHED = 8, /* the call had not returned when the trace ended */
	TRACE_EARLY = 16,     /* irecv: the caller of the plugin accepts an early completion */
	TRACE_UNKNOWN = 32,   /* the comm or request has no entry in a table */
	TRACE_GPU = 64,	      /* the memory is registered as GPU memory */
	TRACE_RETRIED = 128,  /* earlier calls answered "not yet"; `repeats` is their number */
};

/* Values of `tag` in the record of a test: the kind of the tested request. */
enum trace_kinds { TRACE_KIND_SEND, TRACE_KIND_RECEIVE, TRACE_KIND_FLUSH };

#define TRACE_NONE UINT32_MAX	  /* value of `comm` and `memory` for a call without them */
#define TRACE_DEV_UNKNOWN (-1)	  /* value of `nic`, `owner` and `gpu` if not known */
#define TRACE_DEV_NOT_LISTED (-2) /* value of `owner` if the NIC is not a device of the plugin */

struct trace_record {
	/* Ticks at which the call began. If `repeats` is not 0: at which the first counted call
	 * began. */
	uint64_t time;
	/* Number of the request in its comm; for a stream, of the send or receive. For listen,
	 * connect and accept: a hash of the listener's handle. For GAP: the number of records of
	 * the thread that were dropped at this place. */
	uint64_t number;
	uint64_t bytes; /* bytes posted, sent, received or registered */
	/* Ticks that the call took. If `repeats` is not 0: ticks since the first counted call
	 * began. */
	uint64_t duration;
	uint32_t comm;	     /* number of the comm, or TRACE_NONE */
	uint16_t thread;     /* number of the thread */
	uint8_t call, flags; /* enum trace_call; enum trace_flags */
	int32_t result, tag;
	uint32_t repeats;	 /* calls that answered "not yet" (TRACE_EMPTY, TRACE_RETRIED) */
	uint32_t memory;	 /* number of the registration, or TRACE_NONE */
	int16_t nic, owner, gpu; /* device numbers of NIC and owner NIC; GPU ordinal */
	/* index of the part; number of parts (more than 1 for a grouped receive) */
	uint8_t part, parts;
};

_Static_assert(sizeof(struct trace_record) == TRACE_RECORD_BYTES, "record");

enum trace_block_types {
	TRACE_BLOCK_RECORDS = 1,
	TRACE_BLOCK_CONTEXT = 2,
	TRACE_BLOCK_CLOCK = 3,
	TRACE_BLOCK_THREAD = 4,
	TRACE_BLOCK_END = 5,
};

/* When a context block was written. */
enum trace_context_places { TRACE_AT_START, TRACE_AT_END, TRACE_BETWEEN };

/* Bits of trace_header.flags. TRACE_CLOCK_TSC: the ticks are those of the TSC. */
enum trace_header_flags { TRACE_CLOCK_TSC = 1 };

/* One moment, read on three clocks. */
struct trace_moment {
	uint64_t ticks, mono_ns, wall_ns;
};

/* The header of a file. */
struct trace_header {
	uint16_t version;
	uint32_t flags, pid;
	struct trace_moment start; /* when the trace began */
	uint64_t hz;		   /* estimated ticks per second */
};

/* The head of a block, and its payload. */
struct trace_block {
	uint16_t type; /* enum trace_block_types */
	/* for RECORDS and THREAD: the thread's number; for CONTEXT: enum trace_context_places */
	uint16_t thread;
	/* for RECORDS: number of earlier records of the thread, except those dropped by a full
	 * ring */
	uint64_t first;
	/* for RECORDS: records of the thread dropped by a full ring so far; for END: all dropped
	 * records */
	uint64_t dropped;
	const uint8_t *payload;
	uint32_t bytes; /* size of the payload */
};

#endif
