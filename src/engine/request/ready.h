/* SPDX-License-Identifier: Apache-2.0 */
/* The queues of what the application can take: completions, notifications, events. One eventfd and
 * one wait are for all three. */
#ifndef ENGINE_REQUEST_READY_H
#define ENGINE_REQUEST_READY_H

#include "engine/link/engine.h"

/* Adds a node to one of session->queue's lists (completions, notes, events), and wakes the
 * threads that wait for any of them. Threads that wait for notifications alone are woken by
 * note_published(). The caller holds queue.lock. */
void ready_add(struct engine_session *session, struct list_node *list, struct list_node *node);
/* Called with queue.lock held after something was taken. If nothing is left, makes the eventfd
 * unreadable. */
void ready_taken(struct engine_session *session);

/* Called under link.lock when the request has ended: adds its completion to the queue. */
void completion_enter(struct engine_request *request);
/* Removes the request's completion from the queue, if it is there. */
void completion_discard(struct engine_request *request);

#endif
