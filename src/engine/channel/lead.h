/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting threads that poll the priority channels themselves; see lead.c. */
#ifndef ENGINE_CHANNEL_LEAD_H
#define ENGINE_CHANNEL_LEAD_H

#include "engine/channel/chan_calls.h"

/* Waits until done(arg) or the deadline, and polls the priority channel of peer, or those of the
 * session's peers if peer is NULL. *where names this thread's leader meanwhile; where_lock guards
 * it. False: the thread could not lead, or a channel failed, so the caller must wait in another
 * way. */
bool lead_wait(struct engine_session *session, struct engine_peer *peer, struct engine_lead **where,
	       pthread_mutex_t *where_lock, bool (*done)(void *arg), void *arg,
	       int64_t deadline_ns);
void lead_wake(struct engine_lead *lead);
void leads_free(struct engine_session *session);

#endif
