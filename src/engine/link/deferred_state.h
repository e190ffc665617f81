/* SPDX-License-Identifier: Apache-2.0 */
/* Work of a link that waits: for the control thread, for callers, or for memory. */
#ifndef ENGINE_LINK_DEFERRED_STATE_H
#define ENGINE_LINK_DEFERRED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/link.h"
#include "sys/loop.h"

/* Work for the control thread; `post` wakes it. `lock` is link.lock. */
struct link_wake {
	struct sys_post post;
	_Atomic int posted;
	/* under lock: masks of channels (bit: index) that may be dialled again; that must be
	 * closed */
	uint64_t free_mask, close_mask;
	bool failed; /* under lock: the core cannot go on, because of failed_status */
	tcpx_status failed_status;
	struct fence_out *fences; /* under lock: fences to send */
	struct list_node
		buried; /* under lock: requests that were released while active and have ended */
};

/* A FENCE that must be sent for a lost channel: the arguments of core_ops.fence. */
struct fence_out {
	struct fence_out *next;
	uint32_t channel, epoch, count;
	uint64_t applied;
	struct core_nack nacks[];
};

/* Callers of tcpx_peer_flush(). */
struct link_flush {
	/* word: a futex that counts ended transfers; waiters: how many callers wait */
	_Atomic uint32_t word, waiters;
};

/* The staging memory that a session may use. session.queue.lock. */
struct session_staging {
	/* bytes: all; not taken by links; what all peers may keep without a request */
	uint64_t pool, free, ahead;
	uint32_t hungry; /* number of links that got less staging than they asked for */
	bool returned;	 /* staging came back, and links wait for it: stage_offer() has work */
};

/* The link's part of the session's staging memory. session.queue.lock. */
struct link_quota {
	/* bytes taken from the pool; what the peer may keep without a request */
	uint64_t held, ahead;
	bool hungry; /* the link got less than it asked for */
};

#endif
