/* SPDX-License-Identifier: Apache-2.0 */
/* The listeners of a session: a TCP port on each of its rails, and a socket for peers on this
 * host. */
#ifndef ENGINE_SESSION_SESSION_LISTEN_H
#define ENGINE_SESSION_SESSION_LISTEN_H

#include "engine/link/engine.h"

/* Called by the control thread: opens the listener for peers on this host, unless it is open
 * already. Returns false if it could not be opened. */
bool session_local_open(struct engine_session *session);
/* Called by the control thread: closes all listeners. */
void session_listen_close(struct engine_session *session);

#endif
