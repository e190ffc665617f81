/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a session. */
#ifndef ENGINE_SESSION_SESSION_OPTS_H
#define ENGINE_SESSION_SESSION_OPTS_H

#include "engine/link/engine.h"

/* Checks the caller's options and stores them. The environment provides those that the caller
 * does not set. */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);

#endif
