/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the application: completions, notifications, events. One eventfd and one wait
 * cover all three. */
#ifndef ENGINE_REQUEST_READY_H
#define ENGINE_REQUEST_READY_H

#include "engine/link/engine.h"

/* queue.lock held. list is one of session->queue's completions, notes, events. */
void ready_add(struct engine_session *session, struct list_node *list, struct list_node *node);
/* queue.lock held: something was taken. Clears the eventfd when nothing is left. */
void ready_taken(struct engine_session *session);

/* link.lock held: the request ended and its completion enters the queue. */
void completion_enter(struct engine_request *request);
/* Removes its completion from the queue, if it is there. */
void completion_discard(struct engine_request *request);

#endif
