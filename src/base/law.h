/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the lock rules of docs/design/threads.md in builds with a sanitizer. While a thread holds
 * the lock of a link or session, it makes no system call except a wake-up, logs at the levels
 * debug and trace only, and calls no transport, driver or plugin.
 */
#ifndef BASE_LAW_H
#define BASE_LAW_H

#ifdef TCPX_LAW
/* law_enter is called after the thread has taken the lock of a link or session, law_leave after it
 * has released the lock. */
void law_enter(void);
void law_leave(void);
/* Aborts the process, with `who` in the message, if this thread holds the lock of a link or
 * session. */
void law_free(const char *who);
#else
#define law_enter() ((void)0)
#define law_leave() ((void)0)
#define law_free(who) ((void)0)
#endif

#endif
