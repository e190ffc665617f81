/* SPDX-License-Identifier: Apache-2.0 */
/* Applications that poll, and receive on the lanes meanwhile; see look.c. */
#ifndef ENGINE_CHANNEL_LOOK_H
#define ENGINE_CHANNEL_LOOK_H

#include "engine/link/engine.h"

/* The application polled and found nothing. peer NULL: what it waits for may come from any. No
 * lock. */
void look_missed(struct engine_session *session, struct engine_peer *peer);
bool look_is_now(void); /* the calling thread receives because its application polls */
/* It found something, and may do something else now. */
void look_found(struct engine_session *session, struct engine_peer *peer);

#endif
