/* SPDX-License-Identifier: Apache-2.0 */
/* The memory account of a session. Allocated memory and memory that is set aside for peers'
 * notifications together never exceed the budget. A share is set aside for each link when the link
 * begins. Beyond their shares, all links together may get up to half of the budget, in the order in
 * which they ask. */
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
	uint64_t budget, share; /* in bytes; `share` is set aside for each link when it begins */
	_Atomic uint64_t committed; /* bytes set aside for notifications, or allocated otherwise */
	/* bytes of notifications that have arrived; `committed` counts their memory as set aside */
	_Atomic uint64_t notes;
	/* true: the last failed allocation would have exceeded the budget; false: malloc()
	 * failed */
	_Atomic bool over_budget;
	_Atomic uint32_t nwaiting; /* number of peers in `waiting` */
	_Atomic int posted;	   /* `post` is queued for the control thread */
	_Atomic uint64_t ended;	   /* number of peers ended because of the memory they held */
	struct sys_post post;
	pthread_mutex_t lock; /* leaf lock; guards aside, extra and waiting */
	/* bytes set aside for all links together; `extra` counts only those beyond the links'
	 * shares */
	uint64_t aside, extra;
	/* list of the waiting peers (peer_account), longest waiting first */
	struct list_node waiting;
	/* control thread: since when peers have waited, 0 if none waits; time of the last check by
	 * account_look() */
	int64_t short_ns, looked_ns;
};

struct peer_account {
	uint64_t aside;		  /* bytes set aside for this link; under account.lock */
	struct list_node waiting; /* entry in session_account.waiting; under account.lock */
	/* under link.lock: account_serve() has given the peer the turn to take memory */
	bool turn;
	uint64_t moves; /* control thread: core_note_moves() at the last account_look() */
	/* control thread: since when account_held() has not been 0 and no byte of the peer's
	 * notifications has arrived */
	int64_t moved_ns;
};

void account_init(struct engine_session *session);
void account_fini(struct engine_session *session);
/* Sets the budget, the share of each link (half of the budget divided by `peers`, within limits)
 * and the notification budget from the session's options. */
void account_open(struct engine_session *session, uint64_t memory, uint64_t notify, uint32_t peers);
/* Returns the bytes in use: those allocated, and those of notifications that have arrived. */
uint64_t account_bytes(struct engine_session *session);

/* Called when a link begins: sets the link's share aside. Returns false if the budget has too
 * little left. The share is returned later by core_ops.note_give. */
bool account_begin(struct engine_peer *peer);
/* account_take() sets memory aside for the peer's notifications, and returns its size: `want`,
 * `least` or 0 bytes. account_give() returns such memory to the budget. Both are called under
 * link.lock by the core, as core_ops.note_take and core_ops.note_give; after the core has ended,
 * request/notes.c calls account_give(). */
uint64_t account_take(struct engine_peer *peer, uint64_t want, uint64_t least);
void account_give(struct engine_peer *peer, uint64_t bytes);

/* Allocate, account and free the memory of an arriving notification. The memory is set aside
 * already, so the budget is not charged. `there` and `more` are bytes that have arrived; only these
 * count as in use. */
void *account_note_alloc(struct engine_session *session, size_t bytes, size_t there);
void account_note_grew(struct engine_session *session, size_t more);
void account_note_free(struct engine_session *session, void *ptr, size_t there);

/* Called by the control thread at each heartbeat of a peer. Offers memory to the peers that wait.
 * Returns NULL, or with a reference a peer that the caller must end; the last error then says why.
 * A peer must end if other peers have waited for memory for tuning.silent_ns, and it has sent
 * nothing of its unfinished notifications for that long. Of several such peers, the one that holds
 * most memory is returned. */
struct engine_peer *account_look(struct engine_session *session, int64_t now_ns);

/* session_alloc() and session_free() are like malloc() and free(), but count the bytes against the
 * budget. session_memory_error() sets the last error to why the last session_alloc() failed, and
 * returns that error's status. */
void *session_alloc(struct engine_session *session, size_t bytes);
tcpx_status session_memory_error(struct engine_session *session);
void session_free(struct engine_session *session, void *ptr, size_t bytes);
/* Subtracts from the account `bytes` of session_alloc() that were freed without session_free(). */
void session_uncharge(struct engine_session *session, size_t bytes);

#endif
