/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock in nanoseconds. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLOCK_MS_NS 1000000LL
#define CLOCK_S_NS 1000000000LL

static inline int64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * CLOCK_S_NS + ts.tv_nsec;
}

/* Returns the time after_ns (>= 0) from now. A huge after_ns means "never": the result is then
 * INT64_MAX / 2, to which a margin may be added without overflow. */
static inline int64_t clock_after(int64_t after_ns)
{
	const int64_t never_ns = INT64_MAX / 2;
	int64_t now_ns = clock_now_ns();

	return after_ns < never_ns - now_ns ? now_ns + after_ns : never_ns;
}

#endif
