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

/* The memory of a request. */
struct request_regions {
	struct mem_region **at; /* local ones, by their index in the program */
	uint32_t count;
	bool held;	/* link.lock: none of them can go, mem_region_io_get() */
	uint64_t *keys; /* of the peer's, by their index in the program */
	uint64_t *ends; /* of each, the end of what the program uses */
};

/* What the memory of one side is. */
struct request_side {
	bool staged;	 /* some of it is staged */
	bool shares;	 /* all of it can go by reference */
	bool messages;	 /* all of it can go over plugin channels */
	uint32_t rights; /* remote: those that all of it has */
};

/* Local memory that was gone when the transfer came to it. link.lock. */
struct request_gone {
	uint64_t base, offset; /* of its region, in the region; base 0: none */
};

/* How a post goes. link.lock, during the post. */
struct request_way {
	bool sends; /* the thread that posts it sends the first part of it */
	struct engine_stage
		*direct; /* the copies of one that goes direct, path/direct.h; or NULL */
};

struct engine_request {
	struct handle_slot slot;
	struct engine_session *session;
	_Atomic(struct engine_peer *) peer; /* reconnect.h: another one after its link ended */
	uint64_t peer_id;		    /* the handle that it was prepared with */
	struct core_xfer xfer;
	struct core_prog prog;
	struct core_seg one[2]; /* program of a single piece */
	struct core_seg *segs;	/* of more pieces; or NULL */
	struct request_regions regions;
	struct request_side local, remote;
	void *notify;
	int64_t deadline_ns; /* from the post on; 0: none */
	void *user;
	_Atomic uint32_t state; /* futex */
	_Atomic uint32_t waiters;
	_Atomic bool leads;	  /* its end comes over the lane: a thread that waits may lead */
	struct engine_lead *lead; /* link.lock */
	bool wants_queue;	  /* its completion enters session->queue */
	_Atomic bool queued;	  /* it is there: set under both locks, cleared under queue.lock */
	struct list_node done;	  /* queue.completions, or a list of its peer */
	bool pending, awaits_goodbye; /* link.lock: waits in peer->pending, peer->goodbye_wait */
	int64_t goodbye_ns;	      /* until when it waits there */
	bool detached;		      /* link.lock: released while active */
	struct request_way way;
	uint64_t post_seq; /* link.lock */
	struct request_gone gone;
	int64_t posted_ns;
	tcpx_completion completion;
};

#endif
