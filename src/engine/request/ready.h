/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the application: completions, notifications, events. One eventfd and one wait
 * cover all three. */
#ifndef ENGINE_REQUEST_READY_H
#define ENGINE_REQUEST_READY_H

#include "engine/link/engine.h"

/* Called under queue.lock. Adds a node to one of session->queue's lists: completions, notes,
 * events. */
void ready_add(struct engine_session *session, struct list_node *list, struct list_node *node);
/* Called under queue.lock when something was taken. Clears the eventfd if nothing is left. */
void ready_taken(struct engine_session *session);

/* Called under link.lock: the request ended, and its completion enters the queue. */
void completion_enter(struct engine_request *request);
/* Removes the request's completion from the queue, if it is there. */
void completion_discard(struct engine_request *request);

#endif
