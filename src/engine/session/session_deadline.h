/* SPDX-License-Identifier: Apache-2.0 */
/* The deadlines of a session's requests. One timer serves them all. */
#ifndef ENGINE_SESSION_SESSION_DEADLINE_H
#define ENGINE_SESSION_SESSION_DEADLINE_H

#include "engine/link/engine.h"

void session_deadline_init(struct session_deadline *deadline);
/* Stops the timer. Called by the control thread. */
void session_deadline_stop(struct session_deadline *deadline);

#endif
