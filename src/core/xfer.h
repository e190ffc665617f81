/* SPDX-License-Identifier: Apache-2.0 */
/* Requests, and the responses to READs of the peer. */
#ifndef CORE_XFER_H
#define CORE_XFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/job.h"
#include "core/prog.h"
#include "core/sendrecv.h"
#include <tcpx/types.h>

enum core_xfer_state {
	CORE_IDLE = 0, /* never posted */
	CORE_ACTIVE,
	CORE_NOTIFYING, /* all bytes are in place, the notification is not taken yet */
	CORE_ENDING,	/* the status is decided, the memory is still in use */
	CORE_FINAL
};

struct core_note;

/* One request. The engine owns the memory and fills the first block before each post. */
struct core_xfer {
	enum tcpx_op op;
	const struct core_prog *prog; /* also for SEND and RECV; nseg may be 0 */
	const void *notify;	      /* attached, or that of an OP_NOTIFY; the core copies it */
	uint32_t notify_bytes;
	bool has_notify;
	bool strict;	     /* a cancelled WRITE ends when no frame of it is in flight */
	bool remote_staged;  /* a destination is staged at the peer: all are treated so */
	bool local_staged;   /* a local region is; then the whole source is filled */
	enum core_path path; /* of its chunks, which are staged for STREAM alone; SEND, RECV: what
			      * both ends may agree on */
	bool by_lane;	     /* WRITE, READ: chunks of any size go by the priority channel */
	bool direct; /* WRITE, READ: the engine copies all bytes itself; core_xfer_moved() */
	int32_t priority;
	int64_t deadline_ns; /* absolute; 0: none */

	enum core_xfer_state state;
	tcpx_status status; /* TCPX_IN_PROGRESS until the end is decided */
	uint64_t id;	    /* on the wire */
	uint64_t applied;   /* bytes in place */
	uint64_t arrived;   /* READ, RECV: bytes of chunks that arrived or are arriving */
	struct core_send send;
	struct core_recv recv;
	uint64_t reserved; /* READ into staged memory: staging that no chunk used yet */
	uint32_t refs;	   /* calls and copies that use its local memory */
	bool matched;	   /* RECV: has its SEND; SEND: the peer said how it ended */
	struct core_job job;
	struct core_note *note;
	struct list_node node; /* link->active */
};

/* Requests by id. An id is a slot and its generation, so a late frame finds no later request. */
struct core_xfer_table {
	struct core_xfer **slots; /* NULL: free */
	uint32_t *generation;	  /* of each slot */
	uint32_t count, hint;	  /* of slots; where the search for a free one begins */
};

/* The response to one requested piece of the peer's READ. It belongs to the engine, which frees it
 * and its region references in ops->push_ended. */
struct core_push {
	struct core_job job;
	struct core_prog prog;
	struct list_node node; /* link->pushes */
	uint32_t refs;
	bool ended;
};

#endif
