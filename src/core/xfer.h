/* SPDX-License-Identifier: Apache-2.0 */
/* What the core works on: requests, pushes, notifications, SENDs that wait. */
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
	CORE_NOTIFYING,
	CORE_ENDING,
	CORE_FINAL
};

struct core_note;

/* One request. The engine owns the memory and fills the first block before each post. */
struct core_xfer {
	enum tcpx_op op;
	const struct core_prog *prog; /* also for SEND and RECV; nseg may be 0 */
	const void *notify;	      /* attached or alone; copied by the core's owner */
	uint32_t notify_bytes;
	bool has_notify;
	bool strict;	    /* a cancelled WRITE waits for the peer */
	bool remote_staged; /* some destination is staged at the peer */
	bool local_staged;  /* some local region is: of a source, all of it is filled */
	enum core_path
		path; /* of its chunks; nothing is staged beside a path that is not the stream.
			      * SEND, RECV: what both ends may agree on */
	bool by_lane; /* WRITE, READ: they go by the lane, whatever their size */
	int32_t priority;
	int64_t deadline_ns; /* absolute; 0: none */

	enum core_xfer_state state;
	tcpx_status status; /* decided end; TCPX_IN_PROGRESS before */
	uint64_t id;	    /* on the wire */
	uint64_t applied;   /* bytes */
	uint64_t arrived;   /* READ, RECV: bytes of chunks that came or are coming */
	bool matched;	    /* RECV: has its message; SEND: the peer said how it ended */
	struct core_send send;
	struct core_recv recv;
	uint64_t reserved; /* READ into staged memory: staging bytes not used yet */
	uint32_t refs;	   /* channel operations that use its local memory */
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

/* The responder's part of a READ: pushes one requested piece. Owned by the engine, which frees it
 * (and its region references) in ops->push_ended. */
struct core_push {
	struct core_job job;
	struct core_prog prog;
	struct list_node node; /* link->pushes */
	uint32_t refs;
	bool ended;
};

#endif
