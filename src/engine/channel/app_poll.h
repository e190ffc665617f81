/* SPDX-License-Identifier: Apache-2.0 */
/* Applications that poll, and receive on the priority channels themselves; see app_poll.c. */
#ifndef ENGINE_CHANNEL_APP_POLL_H
#define ENGINE_CHANNEL_APP_POLL_H

#include "engine/link/engine.h"

/* Called when the application polled and found nothing. If it does so in a loop, receives on the
 * priority channel of peer, or on those of the session's first peers if peer is NULL, because
 * what the application polls for may come from any of them. The caller holds no lock. */
void app_poll_missed(struct engine_session *session, struct engine_peer *peer);
bool app_poll_receives(
	void); /* whether the calling thread receives now because its application polls */
/* Called when the application polled and found something. It may do other work now, so the
 * channels that its loop kept go back to their worker. */
void app_poll_found(struct engine_session *session, struct engine_peer *peer);

#endif
