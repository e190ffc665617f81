/* SPDX-License-Identifier: Apache-2.0 */
/* What of a link waits for another thread or for other links. */
#ifndef ENGINE_LINK_DEFERRED_STATE_H
#define ENGINE_LINK_DEFERRED_STATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "core/link.h"
#include "sys/loop.h"

/* What other threads leave to the control thread, which the post wakes. */
struct link_wake {
	struct sys_post post;
	_Atomic int posted;
	uint64_t free_mask, close_mask; /* lock: channels, by index */
	bool failed;			/* lock: the core cannot go on, */
	tcpx_status failed_status;	/* why */
	struct fence_out *fences;	/* lock: to be sent */
	struct list_node buried;	/* lock: requests released while active, now over */
};

struct fence_out {
	struct fence_out *next;
	uint32_t channel, epoch, count;
	uint64_t applied;
	struct core_nack nacks[];
};

/* Callers of tcpx_peer_flush(). */
struct link_flush {
	_Atomic uint32_t word, waiters; /* word: futex, counts what ended */
};

/* The staging memory that a session may use. session.queue.lock. */
struct session_staging {
	uint64_t pool, free, ahead;
	uint32_t hungry; /* links that are */
	bool returned;	 /* some came back that other links wait for */
};

/* A link's part of it. session.queue.lock. */
struct link_quota {
	uint64_t held, ahead;
	bool hungry; /* got less than it asked for */
};

#endif
