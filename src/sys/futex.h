/* SPDX-License-Identifier: Apache-2.0 */
/* Sleeps on a word that threads of this process share, until a deadline of the monotonic clock. */
#ifndef SYS_FUTEX_H
#define SYS_FUTEX_H

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == expected, at most until deadline_ns (< 0: no deadline). Returns -1 if the
 * deadline has passed. Returns 0 after a wake-up or a signal, or if *word has another value; the
 * caller must then check *word again. Keeps errno. */
static inline int sys_futex_wait(_Atomic uint32_t *word, uint32_t expected, int64_t deadline_ns)
{
	struct timespec ts = {.tv_sec = deadline_ns / 1000000000,
			      .tv_nsec = deadline_ns % 1000000000};
	int saved = errno;
	long rc;

	/* Only the bitset form takes an absolute time. */
	rc = syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
		     deadline_ns < 0 ? NULL : &ts, NULL, FUTEX_BITSET_MATCH_ANY);
	rc = rc < 0 && errno == ETIMEDOUT ? -1 : 0;
	errno = saved;
	return (int)rc;
}

/* Wakes at most `count` threads that sleep on *word; INT_MAX wakes all. */
static inline void sys_futex_wake(_Atomic uint32_t *word, int count)
{
	int saved = errno;

	syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
	errno = saved;
}

#endif
