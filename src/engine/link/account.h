/* SPDX-License-Identifier: Apache-2.0 */
/* The memory account of a session. What is allocated and what is set aside for peers'
 * notifications together never exceed the budget. A share is set aside for each link when it
 * begins. Beyond the shares at most half of the budget is set aside, in the order in which links
 * asked for it. */
#ifndef ENGINE_LINK_ACCOUNT_H
#define ENGINE_LINK_ACCOUNT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "sys/loop.h"

struct core_notify_in;
struct engine_peer;
struct engine_session;

struct session_account {
	uint64_t budget, share;
	_Atomic uint64_t committed; /* set aside for notifications, or allocated otherwise */
	_Atomic uint64_t notes;	    /* of what is set aside: memory of notifications that arrived */
	/* the session_alloc() that failed last would have exceeded the budget */
	_Atomic bool over_budget;
	_Atomic uint32_t nwaiting;
	_Atomic int posted;
	_Atomic uint64_t ended; /* how many peers were ended because of the memory they held */
	struct sys_post post;
	pthread_mutex_t lock;	  /* a leaf lock; guards the next three fields */
	uint64_t aside, extra;	  /* set aside for all links; the part of it beyond the shares */
	struct list_node waiting; /* peer_account, oldest first */
	/* control thread: since when a peer waits (0: none does); when it looked last */
	int64_t short_ns, looked_ns;
};

struct peer_account {
	uint64_t aside;		  /* bytes set aside for this link, under account.lock */
	struct list_node waiting; /* in session_account.waiting, under account.lock */
	/* under link.lock: the peer is the first that waits, and may take memory */
	bool turn;
	uint64_t moves; /* control thread: core_note_moves() at moved_ns */
	int64_t moved_ns;
};

void account_init(struct engine_session *session);
void account_fini(struct engine_session *session);
/* Sets the budget from the session's options. */
void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers);
uint64_t account_bytes(struct engine_session *session); /* in use */

/* A link begins: sets its share aside. False: there is no memory for it. core_ops.note_give
 * returns the share later. */
bool account_begin(struct engine_peer *peer);
/* Called under link.lock. As note_take and note_give of core_ops. */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least);
void account_give(struct engine_peer *peer, uint64_t bytes);

/* Memory for an arriving notification. It is set aside already; only the bytes that have arrived
 * count as in use. */
void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there);
void account_note_grew(struct engine_session *session, size_t more);
void account_note_free(struct engine_session *session, void *ptr, size_t there);

/* Control thread, each heartbeat. Serves the peers that wait. While one waits: returns, with a
 * reference, the peer that holds most among those that hold memory and have sent nothing for the
 * limit of silence, and the last error says why it is to end; else NULL. */
struct engine_peer *account_look(struct engine_session *session, int64_t now_ns);

/* malloc() and free() that are counted against the budget. */
void *session_alloc(struct engine_session *session, size_t bytes);
tcpx_status session_memory_error(struct engine_session *session);
void session_free(struct engine_session *session, void *ptr, size_t bytes);
/* Takes bytes off the account whose memory was freed by other means. */
void session_uncharge(struct engine_session *session, size_t bytes);

#endif
