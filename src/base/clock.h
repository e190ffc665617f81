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

#endif
