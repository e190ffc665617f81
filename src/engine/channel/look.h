/* SPDX-License-Identifier: Apache-2.0 */
/* Applications that poll, and receive on the priority channels themselves; see look.c. */
#ifndef ENGINE_CHANNEL_LOOK_H
#define ENGINE_CHANNEL_LOOK_H

#include "engine/link/engine.h"

/* The application polled and found nothing. peer NULL: what it waits for may come from any peer.
 * The caller holds no lock. */
void look_missed(struct engine_session *session, struct engine_peer *peer);
bool look_is_now(void); /* the calling thread receives because its application polls */
/* The application polled and found something, so it may do other work now. */
void look_found(struct engine_session *session, struct engine_peer *peer);

#endif
