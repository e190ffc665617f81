/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One account for the memory of a session. What is allocated and what is set aside for peers'
 * notifications is never more than the budget together. A link begins with a share set aside, and
 * all that goes beyond the shares has half of the budget, in the order in which it was asked for.
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
	_Atomic uint64_t committed; /* allocated, but for notifications, or set aside for those */
	_Atomic uint64_t notes;	    /* of what is set aside: what has arrived */
	_Atomic bool over_budget;   /* what the last failed session_alloc failed of */
	_Atomic uint32_t nwaiting;
	_Atomic int posted;
	_Atomic uint64_t ended; /* peers that others waited for */
	struct sys_post post;
	pthread_mutex_t lock;	     /* a leaf; guards the three below */
	uint64_t aside, extra;	     /* extra: beyond the shares */
	struct list_node waiting;    /* peer_account, oldest first */
	int64_t short_ns, looked_ns; /* control thread: since when somebody waits, or 0 */
};

struct peer_account {
	uint64_t aside;		  /* account.lock */
	struct list_node waiting; /* account.lock */
	bool turn;		  /* peer.lock: it is first in line */
	uint64_t moves;		  /* control thread: as it was at moved_ns */
	int64_t moved_ns;
};

void account_init(struct engine_session *session);
void account_fini(struct engine_session *session);
/* The budget's options. */
void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers);
uint64_t account_bytes(struct engine_session *session); /* in use */

/* A link begins: false, without memory for its share. It ends by note_give of core_ops. */
bool account_begin(struct engine_peer *peer);
/* peer.lock: as note_take, note_give of core_ops. */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least);
void account_give(struct engine_peer *peer, uint64_t bytes);

/* Memory of notifications, which is set aside already: what arrived of it is counted. */
void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there);
void account_note_grew(struct engine_session *session, size_t more);
void account_note_free(struct engine_session *session, void *ptr, size_t there);

/* Control thread, each beat. Who waits goes on. While somebody does: a peer that holds memory and
 * sends nothing for the limit of silence, the one that holds most, with a reference, and the last
 * error says why it is to end; else NULL. */
struct engine_peer *account_look(struct engine_session *session, int64_t now_ns);

/* Counted against the budget. */
void *session_alloc(struct engine_session *session, size_t bytes);
tcpx_status session_memory_error(struct engine_session *session);
void session_free(struct engine_session *session, void *ptr, size_t bytes);
/* Memory that was given back otherwise. */
void session_uncharge(struct engine_session *session, size_t bytes);

#endif
