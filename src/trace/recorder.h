/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a process: a ring for each thread, one writer thread, one file. It begins once
 * and ends with the process; a forked child has none. Nothing here changes errno.
 */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/ticks.h"
#include "trace/ring.h"

struct trace_recorder_opts {
	const char *path;      /* "%p": the process id; if the file exists, a number is added */
	uint32_t ring_records; /* a power of two; 0: 16384 */
	int force_clock;       /* do not use the TSC */
	/* Optional: writes lines "key=value". Runs with TRACE_AT_START on the opening thread, with
	 * the other places on the writer. */
	void (*context)(FILE *out, enum trace_context_places place);
};

/* Opens the recorder once; later calls do nothing and return 0. -1 with errno: the file cannot be
 * created, or there is no memory or thread. */
int trace_recorder_open(const struct trace_recorder_opts *opts);

/* Writes the remaining records and closes the file; waits at most 2 s. Nothing is recorded after
 * it. Also runs at exit. */
void trace_recorder_close(void);

/* Adds a line to the next context block; any thread. Line feeds in the value become blanks. */
void trace_recorder_note(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Asks for a context block of TRACE_BETWEEN soon. */
void trace_recorder_context(void);

extern _Atomic int trace_recorder_on;
extern uint64_t trace_recorder_hz;
extern __thread struct trace_ring *trace_own_ring __attribute__((tls_model("initial-exec")));

struct trace_ring *trace_ring_make(void); /* makes this thread's ring; NULL: impossible */

/* This thread's ring; NULL: nothing is recorded. */
static inline struct trace_ring *trace_ring_own(void)
{
	if (!atomic_load_explicit(&trace_recorder_on, memory_order_relaxed))
		return NULL;
	return __builtin_expect(trace_own_ring != NULL, 1) ? trace_own_ring : trace_ring_make();
}

struct trace_recorder_counts {
	uint64_t written, dropped; /* records */
	uint64_t failed_writes;
	char path[1024]; /* path of the file */
};
void trace_recorder_counts(struct trace_recorder_counts *out_counts);

#endif
