/* SPDX-License-Identifier: Apache-2.0 */
/* The deadlines of a session's requests. One timer serves them all. */
#ifndef ENGINE_SESSION_SESSION_DEADLINE_H
#define ENGINE_SESSION_SESSION_DEADLINE_H

#include "sys/loop.h"

struct engine_session;

struct session_deadline {
	struct sys_timer timer; /* control thread: at the next deadline */
	struct sys_post post;	/* a request with a deadline was posted */
	_Atomic int posted;
};

void session_deadline_init(struct session_deadline *deadline);
/* Control thread. */
void session_deadline_stop(struct session_deadline *deadline);
/* link/engine_link.c, any thread: the timer may be due earlier than it is set to. */
void session_timer_kick(struct engine_session *session);

#endif
