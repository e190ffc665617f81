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
	struct mem_region **at; /* regions of this session, by their index in the segment list */
	uint32_t count;
	bool held;	/* under link.lock: an io reference is held on each, so none can go */
	uint64_t *keys; /* keys of the peer's regions, by their index in the segment list */
	uint64_t *ends; /* of each of these regions, the end of what the segment list uses */
};

/* What all the memory of a request on one side allows. */
struct request_side {
	bool staged;	 /* a part of it is staged */
	bool shares;	 /* all of it can go by reference */
	bool messages;	 /* all of it can go over plugin channels */
	uint32_t rights; /* remote side: the access rights that all of it has */
};

/* Local memory that no longer existed when the transfer came to it. Under link.lock. */
struct request_gone {
	uint64_t base, offset; /* base of the region and the offset in it; base 0: none */
};

/* How a request is sent. Under link.lock, during the post. */
struct request_way {
	bool sends; /* the posting thread sends the first part of it itself */
	struct engine_stage
		*direct; /* the copies of one that goes direct, path/direct.h; or NULL */
};

struct engine_request {
	struct handle_slot slot;
	struct engine_session *session;
	/* the peer; another one once the link ended and was made again (reconnect.h) */
	_Atomic(struct engine_peer *) peer;
	uint64_t peer_id; /* the peer's handle at prepare */
	struct core_xfer xfer;
	struct core_segs segs;
	struct core_seg one[2]; /* the segments of a request with one piece */
	struct core_seg *many;	/* the segments of a request with more pieces; or NULL */
	struct request_regions regions;
	struct request_side local, remote;
	void *notify;
	int64_t deadline_ns; /* time allowed from the post on; 0: no limit */
	void *user;
	_Atomic uint32_t state; /* futex */
	_Atomic uint32_t waiters;
	/* its end arrives on the priority channel, so a thread that waits may receive there
	 * itself */
	_Atomic bool leads;
	struct engine_lead *lead; /* under link.lock */
	bool wants_queue;	  /* its completion enters session->queue */
	/* it is in the queue: set under both locks, cleared under queue.lock */
	_Atomic bool queued;
	struct list_node done; /* entry in queue.completions, or in a list of its peer */
	/* under link.lock: it waits in peer->pending; in peer->goodbye_wait */
	bool pending, awaits_goodbye;
	int64_t goodbye_ns; /* when it leaves peer->goodbye_wait */
	/* under link.lock: the application released it while it was active */
	bool detached;
	struct request_way way;
	uint64_t post_seq; /* under link.lock: the value of peer->post_seq at its post */
	struct request_gone gone;
	int64_t posted_ns;
	tcpx_completion completion;
};

#endif
