/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait and poll the lanes meanwhile; see lead.c. */
#ifndef ENGINE_CHANNEL_LEAD_H
#define ENGINE_CHANNEL_LEAD_H

#include "engine/channel/chan_calls.h"

/* Waits until done(arg) or the deadline, and polls the lane of peer, or those of all peers if peer
 * is NULL. False: it could not lead, or a lane failed; the caller waits otherwise. */
bool lead_wait(struct engine_session *session, struct engine_peer *peer, struct engine_lead **where,
	       pthread_mutex_t *where_lock, bool (*done)(void *arg), void *arg,
	       int64_t deadline_ns);
void lead_wake(struct engine_lead *lead);
void leads_free(struct engine_session *session);

#endif
