/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of this side, and the responses to READs of the peer. */
#ifndef CORE_XFER_H
#define CORE_XFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "core/job.h"
#include "core/segs.h"
#include "core/sendrecv.h"
#include <tcpx/types.h>

enum core_xfer_state {
	CORE_IDLE = 0, /* never posted */
	CORE_ACTIVE,   /* posted, and not all bytes are in place */
	/* all bytes are in place, and the peer has not acknowledged the notification yet */
	CORE_NOTIFYING,
	CORE_ENDING, /* the status is decided, and the memory is still in use */
	CORE_FINAL   /* ended: ops->ended() was called */
};

struct core_note;

/* One request. The engine owns the memory and fills in the first group of fields before each
 * post. */
struct core_xfer {
	enum tcpx_op op;
	const struct core_segs *segs; /* the segment list, also of a SEND or RECV; nseg may be 0 */
	/* bytes of an attached notification or of an OP_NOTIFY; the core copies them */
	const void *notify;
	uint32_t notify_bytes;
	bool has_notify;
	bool strict; /* a WRITE that ends early waits until none of its frames is in flight */
	/* a destination region is staged at the peer; all of them are then treated as staged */
	bool remote_staged;
	bool local_staged; /* a local region is staged; all are then treated as staged */
	/* The path of its chunks. Staging is used only with STREAM. RECV: the path to offer to the
	 * peer; SEND: the path to take if the peer offers it. */
	enum core_path path;
	/* WRITE, READ: for the priority channel, whatever the size */
	bool by_prio;
	/* WRITE, READ: no frames are sent; the engine copies the bytes itself and calls
	 * core_xfer_moved() */
	bool direct;
	int32_t priority;
	int64_t deadline_ns; /* absolute; 0: none */

	enum core_xfer_state state;
	tcpx_status status; /* TCPX_IN_PROGRESS until the end is decided */
	uint64_t id;	    /* the number that names it in frames */
	uint64_t applied;   /* bytes in place at the destination */
	uint64_t arrived;   /* READ, RECV: bytes of chunks that have arrived or are arriving */
	struct core_send send;
	struct core_recv recv;
	/* READ into staged memory: bytes of staging that were taken for it and that no chunk has
	 * used yet */
	uint64_t reserved;
	uint32_t refs; /* frames under way and copies that use its local memory */
	bool matched;  /* RECV: its SEND is known; SEND: the peer has said how it ended */
	struct core_job job;
	struct core_note *note;
	struct list_node node; /* in link->active */
};

/* Requests by id. An id consists of an index and a generation. A late frame for a request that has
 * ended therefore does not find the request that uses the entry now. */
struct core_xfer_table {
	struct core_xfer **slots; /* NULL: free entry */
	uint32_t *generation;	  /* generation of each entry */
	/* count: number of entries; hint: where the search for a free one begins */
	uint32_t count, hint;
};

/* The response to one requested piece of a peer's READ. The engine owns it. ops->resp_ended() frees
 * it and its references to regions. */
struct core_resp {
	struct core_job job;
	struct core_segs segs;
	struct list_node node; /* in link->resps */
	uint32_t refs;
	bool ended;
};

#endif
