/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting threads that receive on the lanes themselves; lead.c. */
#ifndef ENGINE_CHANNEL_LEAD_H
#define ENGINE_CHANNEL_LEAD_H

#include "engine/engine.h"

/* Waits until done(arg) or the deadline; drives the peers' lanes meanwhile when it may. */
bool lead_wait(struct engine_session *session, struct engine_peer *peer, struct engine_lead **where,
	       pthread_mutex_t *where_lock, bool (*done)(void *arg), void *arg,
	       int64_t deadline_ns);
void lead_wake(struct engine_lead *lead);
void leads_free(struct engine_session *session);

#endif
