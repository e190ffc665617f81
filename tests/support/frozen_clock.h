/* SPDX-License-Identifier: Apache-2.0 */
/* Stops the monotonic clock for a while, so that a busy machine does not make a test late. For
 * tests that are linked with -Wl,--wrap=clock_gettime. */
#ifndef TCPX_TESTS_FROZEN_CLOCK_H
#define TCPX_TESTS_FROZEN_CLOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"

static _Atomic int64_t frozen_ns; /* what the clock says, if not 0 */

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

static void freeze_clock(bool on)
{
	atomic_store(&frozen_ns, 0);
	if (on)
		atomic_store(&frozen_ns, clock_now_ns());
}

#endif
