/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses and reads the clock of a trace. */
#include "trace/ticks.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define CALIBRATE_NS 400000 /* how long the rate of the TSC is measured */

int trace_clock_tsc;

/* Whether the TSC is invariant, that is, always runs at a constant rate. */
static int tsc_is_invariant(void)
{
#if defined(__x86_64__)
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
#else
	return 0;
#endif
}

uint64_t trace_clock_start(int force_clock)
{
	struct trace_moment from, to;

	trace_clock_tsc = !force_clock && tsc_is_invariant();
	if (!trace_clock_tsc)
		return CLOCK_S_NS;
	trace_moment_now(&from);
	do
		trace_moment_now(&to);
	while (to.mono_ns - from.mono_ns < CALIBRATE_NS);
	return (uint64_t)((double)(to.ticks - from.ticks) * 1e9 /
			  (double)(to.mono_ns - from.mono_ns));
}

void trace_moment_now(struct trace_moment *out_moment)
{
	struct timespec wall;

	clock_gettime(CLOCK_REALTIME, &wall);
	out_moment->mono_ns = (uint64_t)clock_now_ns();
	out_moment->ticks = trace_ticks();
	out_moment->wall_ns = (uint64_t)wall.tv_sec * CLOCK_S_NS + (uint64_t)wall.tv_nsec;
}
