/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving on priority channels by an application that polls; see app_poll.c. */
#ifndef ENGINE_CHANNEL_APP_POLL_H
#define ENGINE_CHANNEL_APP_POLL_H

#include "engine/link/engine.h"

/* Called when the application polled and found nothing. If the application polls in a loop,
 * `receives` is true, and TCPX_SESSION_NO_INLINE is not set, receives from time to time on the
 * priority channel of `peer`. If `peer` is NULL, receives on the priority channels of the session's
 * first peers, because what the application polls for may come from any peer. Returns true if bytes
 * have arrived: the caller then looks again. The caller holds no lock. */
bool app_poll_missed(struct engine_session *session, struct engine_peer *peer, bool receives);
/* Whether the calling thread is inside a receive that app_poll_missed() makes. */
bool app_poll_receives(void);
/* Called when the application polled and found something. If this thread has received since it last
 * gave the priority channels back, gives those of the session's first peers back to their worker.
 * Where cores are few, an application that polls again soon after each find keeps them. The caller
 * holds no lock. */
void app_poll_found(struct engine_session *session);
/* The same, but in any case: called before this thread sleeps. */
void app_poll_ends(struct engine_session *session);

#endif
