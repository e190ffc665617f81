/* SPDX-License-Identifier: Apache-2.0 */
/* A request, from its preparation to its release. */
#ifndef ENGINE_LINK_ENGINE_REQUEST_H
#define ENGINE_LINK_ENGINE_REQUEST_H

#include "base/list.h"
#include "core/link.h"
#include "engine/link/account.h"
#include "engine/runtime/handles.h"
#include "mem/region.h"

#include <tcpx/tcpx.h>

struct engine_lead;
struct engine_peer;
struct engine_session;

enum engine_request_state { REQUEST_IDLE = 0, REQUEST_ACTIVE = 1, REQUEST_FINAL = 2 };

/* The memory that a request uses. */
struct request_regions {
	struct mem_region **at; /* regions of this session; core_seg.local is an index into it */
	uint32_t count;
	bool held;	/* under link.lock: each region is held by an io reference */
	uint64_t *keys; /* keys of the peer's regions; core_seg.remote is an index into it */
	uint64_t *ends; /* for each key: end of the range that the segment list uses */
};

/* Properties of all memory of a request on one side, local or remote. */
struct request_side {
	bool staged;	 /* some of the memory is staged */
	bool shares;	 /* all of the memory can go by reference */
	bool messages;	 /* all of the memory can go over plugin channels */
	uint32_t rights; /* remote side: the access rights that all of the memory has */
};

/* The place of local memory that had vanished when the transfer came to it. Under link.lock. */
struct request_gone {
	/* base of the region, and offset in it; base 0: nothing has vanished */
	uint64_t base, offset;
};

/* How a request is sent. Used during the post, under link.lock, except `plan`. */
struct request_way {
	bool sends; /* the posting thread sends the first part of the request itself */
	/* the copies, if this end copies the bytes itself (path/direct.h); else NULL */
	struct engine_stage *direct;
	struct direct_plan *plan; /* made when the request is prepared (path/direct.h); or NULL */
};

struct engine_request {
	struct handle_slot slot;
	struct engine_session *session;
	/* the peer; replaced when its link has ended and the request moves to another link
	 * (request/reconnect.h) */
	_Atomic(struct engine_peer *) peer;
	uint64_t peer_id; /* the peer handle that was passed to prepare */
	struct core_xfer xfer;
	struct core_segs segs;
	struct core_seg one[2]; /* the segment list, if the request has one segment */
	struct core_seg *many;	/* the segment list, if the request has more segments; or NULL */
	struct request_regions regions;
	struct request_side local, remote;
	void *notify;
	int64_t deadline_ns; /* time allowed for the request, counted from the post; 0: no limit */
	void *user;
	_Atomic uint32_t state; /* enum engine_request_state; a futex */
	_Atomic uint32_t waiters;
	/* the end of the request arrives on the priority channel, so a waiting thread may receive
	 * there itself */
	_Atomic bool leads;
	struct engine_lead *lead; /* under link.lock: the waiting thread; or NULL */
	bool wants_queue;	  /* the completion must enter session->queue */
	/* the completion is in the queue: set under link.lock and queue.lock, cleared under
	 * queue.lock */
	_Atomic bool queued;
	struct list_node done; /* entry in queue.completions, or in a list of the peer */
	/* under link.lock: the request waits in peer->pending; in peer->goodbye_wait */
	bool pending, awaits_goodbye;
	int64_t goodbye_ns; /* when the request leaves peer->goodbye_wait */
	/* under link.lock: the application released the request while it was active */
	bool detached;
	struct request_way way;
	uint64_t post_seq; /* under link.lock: peer->post_seq at the post */
	struct request_gone gone;
	int64_t posted_ns;
	tcpx_completion completion;
};

#endif
