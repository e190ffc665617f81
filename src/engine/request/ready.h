/* SPDX-License-Identifier: Apache-2.0 */
/* What waits for the application: completions, notifications, events. One eventfd and one wait tell
 * of all three. */
#ifndef ENGINE_REQUEST_READY_H
#define ENGINE_REQUEST_READY_H

#include "engine/engine.h"

/* queue_lock held. queue is one of session->completions, ->notes, ->events. */
void ready_add(struct engine_session *session, struct list_node *queue, struct list_node *node);
/* queue_lock held: something was taken. The last one clears the eventfd. */
void ready_taken(struct engine_session *session);

/* peer.lock held: the request ended and its completion enters the queue. */
void completion_enter(struct engine_request *request);
/* Its completion leaves the queue unseen, if it is there. */
void completion_discard(struct engine_request *request);

#endif
