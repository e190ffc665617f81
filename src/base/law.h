/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock laws (docs/design/threads.md), asserted in builds with a sanitizer: under a link's or a
 * session's lock no system call but a wake-up, no log, and no call of a transport, a driver or a
 * plugin.
 */
#ifndef BASE_LAW_H
#define BASE_LAW_H

#ifdef TCPX_LAW
/* This thread holds one more of those locks, or one less. */
void law_enter(void);
void law_leave(void);
/* Ends the process, and names the function who, if this thread holds one of those locks. */
void law_free(const char *who);
#else
#define law_enter() ((void)0)
#define law_leave() ((void)0)
#define law_free(who) ((void)0)
#endif

#endif
