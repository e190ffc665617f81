/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the application: completions, notifications, events. One eventfd and one wait
 * cover all three. */
#ifndef ENGINE_REQUEST_READY_H
#define ENGINE_REQUEST_READY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct engine_lead;
struct engine_request;
struct engine_session;

/* Of one session. The lock is a leaf. It also guards session_staging, session_counters.gone,
 * link_quota and engine_peer.unread. */
struct session_queue {
	pthread_mutex_t lock;
	struct list_node notes;	      /* core_notify_in with a header */
	struct list_node taken;	      /* the same, not released yet */
	struct list_node completions; /* of requests that ended */
	struct list_node events, accepts;
	uint32_t nevents;
	int eventfd;
	bool fd_used;					       /* the application has the eventfd */
	bool signalled;					       /* the eventfd is readable */
	_Atomic uint32_t note_word, note_waiters, accept_word; /* words: futexes */
	_Atomic uint32_t ready_word, ready_waiters;
	struct engine_lead *note_lead, *ready_lead;
	struct engine_lead *leads; /* unused ones */
};

/* queue.lock held. list is one of session->queue's completions, notes, events. */
void ready_add(struct engine_session *session, struct list_node *list, struct list_node *node);
/* queue.lock held: something was taken. Clears the eventfd when nothing is left. */
void ready_taken(struct engine_session *session);

/* peer.lock held: the request ended and its completion enters the queue. */
void completion_enter(struct engine_request *request);
/* Removes its completion from the queue, if it is there. */
void completion_discard(struct engine_request *request);

#endif
