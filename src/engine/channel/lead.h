/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting threads that poll the priority channels themselves; see lead.c. */
#ifndef ENGINE_CHANNEL_LEAD_H
#define ENGINE_CHANNEL_LEAD_H

#include "engine/channel/chan_calls.h"

/*
 * Waits until done(arg) is true or the deadline has passed, and receives meanwhile on the priority
 * channel of `peer`, or on those of the session's first peers if `peer` is NULL. During the wait
 * *where is this thread's leader object, which other threads signal by lead_wake(); where_lock
 * guards *where.
 *
 * Returns true if done(arg) is true or the deadline has passed. Returns false if this thread could
 * not receive on any channel, another leader is in *where, memory or descriptors are short, or a
 * channel failed; the caller must then wait in another way.
 */
bool lead_wait(struct engine_session *session, struct engine_peer *peer, struct engine_lead **where,
	       pthread_mutex_t *where_lock, bool (*done)(void *arg), void *arg,
	       int64_t deadline_ns);
/* Wakes the thread that waits with this leader. */
void lead_wake(struct engine_lead *lead);
void leads_free(struct engine_session *session);

#endif
