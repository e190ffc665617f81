/* SPDX-License-Identifier: Apache-2.0 */
/* Lets a test stop the monotonic clock, so that no deadline passes while the test prepares a state.
 * Waits of the kernel still use the real clock. The test must be linked with
 * -Wl,--wrap=clock_gettime. */
#ifndef TCPX_TESTS_FROZEN_CLOCK_H
#define TCPX_TESTS_FROZEN_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

static _Atomic int64_t frozen_ns; /* the time that the clock shows; 0: the real time */

int __real_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now);
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
	int64_t ns = atomic_load(&frozen_ns);

	if (!ns || id != CLOCK_MONOTONIC)
		return __real_clock_gettime(id, now);
	*now = (struct timespec){ns / CLOCK_S_NS, ns % CLOCK_S_NS};
	return 0;
}

/* Stops the clock at the current time, or lets it go on. */
static void freeze_clock(bool on)
{
	atomic_store(&frozen_ns, 0);
	if (on)
		atomic_store(&frozen_ns, clock_now_ns());
}

/* Moves the stopped clock forward. */
static inline void advance_clock(int64_t ns)
{
	atomic_fetch_add(&frozen_ns, ns);
}

#endif
