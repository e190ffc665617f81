/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock laws (docs/design/threads.md), asserted in builds with a sanitizer: while a thread holds
 * a link's or a session's lock, it makes no system call except a wake-up, logs nothing, and calls
 * no transport, driver or plugin.
 */
#ifndef BASE_LAW_H
#define BASE_LAW_H

#ifdef TCPX_LAW
/* law_enter reports that this thread has taken such a lock, law_leave that it has released one. */
void law_enter(void);
void law_leave(void);
/* Aborts the process, with `who` in the message, if this thread holds such a lock. */
void law_free(const char *who);
#else
#define law_enter() ((void)0)
#define law_leave() ((void)0)
#define law_free(who) ((void)0)
#endif

#endif
