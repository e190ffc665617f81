/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of a trace. It counts ticks of the TSC if the TSC is invariant (always runs at a
 * constant rate) and force_clock is 0, else nanoseconds. */
#ifndef TRACE_TICKS_H
#define TRACE_TICKS_H

#include <stdint.h>

#include "base/clock.h"
#include "trace/record.h"

/* 1 if trace_ticks() reads the TSC. Does not change after trace_clock_start(). */
extern int trace_clock_tsc;

/* Chooses the clock and estimates the rate of the TSC, which takes about half a millisecond. Does
 * not use the TSC if force_clock is 1. Returns the number of ticks per second. */
uint64_t trace_clock_start(int force_clock);

static inline uint64_t trace_ticks(void)
{
#if defined(__x86_64__)
	if (__builtin_expect(trace_clock_tsc, 1))
		return __builtin_ia32_rdtsc();
#endif
	return (uint64_t)clock_now_ns();
}

/* Reads the three clocks of a struct trace_moment, one right after the other. */
void trace_moment_now(struct trace_moment *out_moment);

#endif
