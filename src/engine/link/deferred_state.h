/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred work of a link: work for the control thread, callers that wait, workers to rouse, and
 * staging memory that the link waits for. */
#ifndef ENGINE_LINK_DEFERRED_STATE_H
#define ENGINE_LINK_DEFERRED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/link.h"
#include "sys/loop.h"

/* Work for the control thread, which `post` wakes. */
struct link_wake {
	struct sys_post post;
	_Atomic int posted;
	/* under link.lock, bit masks by channel index: channels that may be dialled again; channels
	 * that must be closed */
	uint64_t free_mask, close_mask;
	bool failed; /* under link.lock: the core cannot go on; failed_status says why */
	tcpx_status failed_status;
	struct fence_out *fences; /* under link.lock: fences to send */
	/* under link.lock: requests to free, which were released while active and have ended */
	struct list_node buried;
};

/* A FENCE that must be sent for a lost channel: the arguments of core_ops.fence. */
struct fence_out {
	struct fence_out *next;
	uint32_t channel, epoch, count;
	uint64_t applied;
	struct core_nack nacks[];
};

/* Workers that are woken before their work is there (rouse.h). */
struct link_rouse {
	int64_t read_ns; /* under link.lock: when a READ that needs bulk channels was last posted */
	_Atomic bool due; /* rouse_receivers() has something to do */
};

/* Callers that wait in tcpx_peer_flush(). */
struct link_flush {
	/* word: futex, changed when a transfer, a notification or the peer ends; waiters: number of
	 * callers that wait */
	_Atomic uint32_t word, waiters;
};

/* The staging memory that a session may use. Guarded by session.queue.lock. */
struct session_staging {
	/* in bytes: size of the pool; the part that no link has taken; grants that peers may keep
	 * unused (core_ops.stage_ahead) */
	uint64_t pool, free, ahead;
	uint32_t hungry; /* number of links that got less staging memory than they asked for */
	/* memory was returned while links wait for it, so stage_offer() has work */
	bool returned;
};

/* The link's part of the session's staging memory. Guarded by session.queue.lock. */
struct link_quota {
	/* in bytes: taken from the pool; grants that the peer may keep unused */
	uint64_t held, ahead;
	bool hungry; /* the link got less memory than it asked for */
};

#endif
