/* SPDX-License-Identifier: Apache-2.0 */
/* Where peers reach a session: a TCP port on each of its rails, and a local socket on this host. */
#ifndef ENGINE_SESSION_SESSION_LISTEN_H
#define ENGINE_SESSION_SESSION_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/peer/rail_state.h"
#include "net/local/local.h"

struct ctl_listener;
struct engine_session;

struct session_listen {
	bool begun; /* session.lock: the session listens, or a call is about to make it listen */
	uint16_t port;
	struct ctl_listener *at[ENGINE_RAILS_MAX]; /* by rail */
	uint32_t count;
	struct transport_listener *local; /* or NULL */
	char local_name[LOCAL_NAME_MAX];
};

/* Control thread: opens the local listener unless it is open. False: that is not possible. */
bool session_local_open(struct engine_session *session);
/* Control thread: closes all listeners. */
void session_listen_close(struct engine_session *session);

#endif
