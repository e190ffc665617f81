/* SPDX-License-Identifier: Apache-2.0 */
/* A request, from its preparation to its release. */
#ifndef ENGINE_REQUEST_ENGINE_REQUEST_H
#define ENGINE_REQUEST_ENGINE_REQUEST_H

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
	bool held;	/* peer.lock: none of them can go, mem_region_io_get() */
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

/* Local memory that was gone when the transfer came to it. peer.lock. */
struct request_gone {
	uint64_t base, offset; /* of its region, in the region; base 0: none */
};

/* How a post goes. peer.lock, during the post. */
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
	struct engine_lead *lead; /* peer.lock */
	bool wants_queue;	  /* its completion enters session->queue */
	_Atomic bool queued;	  /* it is there: set under both locks, cleared under queue.lock */
	struct list_node done;	  /* queue.completions, or a list of its peer */
	bool pending, awaits_goodbye; /* peer.lock: waits in peer->pending, peer->goodbye_wait */
	int64_t goodbye_ns;	      /* until when it waits there */
	bool detached;		      /* peer.lock: released while active */
	struct request_way way;
	uint64_t post_seq; /* peer.lock */
	struct request_gone gone;
	int64_t posted_ns;
	tcpx_completion completion;
};

/* request_life.c */
void request_ended(struct engine_request *request);
/* peer.lock: its memory is no longer used. */
void request_quiet(struct engine_request *request);
/* peer.lock: it is no longer active. Wakes the threads that wait. */
void request_set_state(struct engine_request *request, uint32_t state);
/* request_opts.c: checks the options and takes them over. */
tcpx_status request_take_options(struct engine_request *request, const tcpx_request_opts *opts);
/* request_life.c, peer.lock: gives an active request to the core, whose status it returns. On an
 * error the caller gives the regions back. */
tcpx_status request_hand_over(struct engine_request *request);
void request_io_put(struct engine_request *request);
void request_free(void *object);
/* The request of a handle, with a reference, or NULL and ERR_STALE as the last error. Another
 * thread may release it meanwhile: compare slot.id under the lock. request_put: no lock held. */
struct engine_request *request_get(struct engine_session *session, uint64_t id);
void request_put(struct engine_request *request);
tcpx_status request_stale(void);	/* sets the error ERR_STALE */
tcpx_status request_still_active(void); /* sets the error ERR_STATE */
/* A request's peer with a reference; request_lock() also locks it. */
struct engine_peer *request_peer(struct engine_request *request);
struct engine_peer *request_lock(struct engine_request *request);
void request_unlock(struct engine_peer *peer);

/* notes.c */
void note_published(struct engine_peer *peer, struct core_notify_in *msg);
void notes_drop_all(struct engine_session *session);

#endif
