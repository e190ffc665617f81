/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock laws (docs/design/threads.md), asserted in builds with a sanitizer: while a link's or a
 * session's lock is held, no system call except a wake-up, no log, and no call of a transport, a
 * driver or a plugin.
 */
#ifndef BASE_LAW_H
#define BASE_LAW_H

#ifdef TCPX_LAW
/* Counts the locks of this kind that this thread holds: one more, one less. */
void law_enter(void);
void law_leave(void);
/* Aborts the process if this thread holds such a lock, and prints who. */
void law_free(const char *who);
#else
#define law_enter() ((void)0)
#define law_leave() ((void)0)
#define law_free(who) ((void)0)
#endif

#endif
