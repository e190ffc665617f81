/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory account of a session. The sum of what is allocated and what is set aside for peers'
 * notifications never exceeds the budget. A link begins with a share that is set aside for it. All
 * that is set aside beyond the shares gets at most half of the budget, in the order of the
 * requests.
 */
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
	_Atomic uint64_t notes;	    /* out of what is set aside: of notifications that arrived */
	_Atomic bool over_budget;   /* the last session_alloc() to fail exceeded the budget */
	_Atomic uint32_t nwaiting;
	_Atomic int posted;
	_Atomic uint64_t ended; /* peers that were ended for the memory they held */
	struct sys_post post;
	pthread_mutex_t lock;	     /* a leaf; guards the three below */
	uint64_t aside, extra;	     /* aside: of all links; extra: beyond the shares */
	struct list_node waiting;    /* peer_account, oldest first */
	int64_t short_ns, looked_ns; /* control thread: since when a peer waits, or 0 */
};

struct peer_account {
	uint64_t aside;		  /* account.lock */
	struct list_node waiting; /* account.lock */
	bool turn;		  /* link.lock: it is this peer's turn, as the first that waits */
	uint64_t moves;		  /* control thread: core_note_moves() at moved_ns */
	int64_t moved_ns;
};

void account_init(struct engine_session *session);
void account_fini(struct engine_session *session);
/* Sets the budget from the session's options. */
void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers);
uint64_t account_bytes(struct engine_session *session); /* in use */

/* A link begins; false: there is no memory for its share, which note_give of core_ops returns
 * later. */
bool account_begin(struct engine_peer *peer);
/* link.lock: as note_take and note_give of core_ops. */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least);
void account_give(struct engine_peer *peer, uint64_t bytes);

/* Memory of notifications, which is set aside already; only what has arrived counts as in use. */
void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there);
void account_note_grew(struct engine_session *session, size_t more);
void account_note_free(struct engine_session *session, void *ptr, size_t there);

/* Control thread, each heartbeat. Serves the peers that wait. While one waits: returns, with a
 * reference, the peer that holds most among those that hold memory and have sent nothing for the
 * limit of silence, and the last error says why it is to end; else NULL. */
struct engine_peer *account_look(struct engine_session *session, int64_t now_ns);

/* Counted against the budget. */
void *session_alloc(struct engine_session *session, size_t bytes);
tcpx_status session_memory_error(struct engine_session *session);
void session_free(struct engine_session *session, void *ptr, size_t bytes);
/* Refunds bytes that were freed in another way. */
void session_uncharge(struct engine_session *session, size_t bytes);

#endif
