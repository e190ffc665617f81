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
	uint64_t budget, share; /* bytes; share: what is set aside for each link when it begins */
	_Atomic uint64_t committed; /* set aside for notifications, or allocated otherwise */
	/* memory of notifications that have arrived; `committed` includes it in what is set
	 * aside */
	_Atomic uint64_t notes;
	/* the allocation that failed last would have exceeded the budget; false: malloc() failed */
	_Atomic bool over_budget;
	_Atomic uint32_t nwaiting; /* number of peers in `waiting` */
	_Atomic int posted;	   /* `post` is on its way to the control thread */
	_Atomic uint64_t ended;	   /* how many peers were ended because of the memory they held */
	struct sys_post post;
	pthread_mutex_t lock;	  /* a leaf lock; guards the next three fields */
	uint64_t aside, extra;	  /* set aside for all links; the part of it beyond the shares */
	struct list_node waiting; /* peer_account, oldest first */
	/* control thread: since when peers wait (0: none does); when account_look() last looked at
	 * them */
	int64_t short_ns, looked_ns;
};

struct peer_account {
	uint64_t aside;		  /* bytes set aside for this link, under account.lock */
	struct list_node waiting; /* in session_account.waiting, under account.lock */
	/* under link.lock: the peer is the first that waits, and may take memory */
	bool turn;
	uint64_t moves; /* control thread: core_note_moves() when account_look() last looked */
	/* control thread: since when nothing has arrived of the peer's notifications */
	int64_t moved_ns;
};

void account_init(struct engine_session *session);
void account_fini(struct engine_session *session);
/* Sets the budget, the share of a link (half of the budget divided by `peers`, within limits) and
 * the notification budget from the session's options. */
void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers);
/* bytes in use: allocated, or occupied by notifications that arrived */
uint64_t account_bytes(struct engine_session *session);

/* A link begins: sets its share aside. False: the budget has no memory for it. The share is
 * returned by core_ops.note_give later. */
bool account_begin(struct engine_peer *peer);
/* note_take and note_give of core_ops. Called under link.lock. */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least);
void account_give(struct engine_peer *peer, uint64_t bytes);

/* Memory for an arriving notification. It is set aside already; only the bytes that have arrived
 * count as in use. */
void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there);
void account_note_grew(struct engine_session *session, size_t more);
void account_note_free(struct engine_session *session, void *ptr, size_t there);

/* Control thread, each heartbeat: offers memory to the peers that wait. If peers have waited for
 * the limit of silence, returns the one to end for them, with a reference: of the
 * peers that hold memory and have sent nothing for that long, the one that holds most. The last
 * error says why. NULL: none has to end. */
struct engine_peer *account_look(struct engine_session *session, int64_t now_ns);

/* malloc() and free() that are counted against the budget. */
void *session_alloc(struct engine_session *session, size_t bytes);
tcpx_status session_memory_error(struct engine_session *session);
void session_free(struct engine_session *session, void *ptr, size_t bytes);
/* Takes bytes off the account whose memory was freed by other means. */
void session_uncharge(struct engine_session *session, size_t bytes);

#endif
