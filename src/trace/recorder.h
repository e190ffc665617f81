/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a process: rings of its threads, one writer thread, one file. It begins once and
 * ends with the process; a forked child has none. Nothing here changes errno.
 */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/ticks.h"
#include "trace/ring.h"

struct trace_recorder_opts {
	const char *path;      /* "%p" is the process id; an existing file gets a number */
	uint32_t ring_records; /* a power of two; 0: 16384 */
	int force_clock;       /* do not use the TSC */
	/* Optional: writes lines "key=value". TRACE_AT_START on the opening thread, the others on
	 * the writer's. */
	void (*context)(FILE *out, enum trace_context_places place);
};

/* 0; -1 with errno: the file cannot be created, or no memory or thread. Also 0 if it is open. */
int trace_recorder_open(const struct trace_recorder_opts *opts);

/* Writes what is left and closes the file; waits at most 2 s. Later records are not taken. Called
 * by itself at exit. */
void trace_recorder_close(void);

/* Remembers a line of context; any thread. Values lose their line feeds. */
void trace_recorder_note(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Asks for a context block of TRACE_BETWEEN soon. */
void trace_recorder_context(void);

extern _Atomic int trace_recorder_on;
extern uint64_t trace_recorder_hz;
extern __thread struct trace_ring *trace_own_ring __attribute__((tls_model("initial-exec")));

struct trace_ring *trace_ring_make(void); /* of this thread; NULL: none can be had */

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
	char path[1024]; /* of the file */
};
void trace_recorder_counts(struct trace_recorder_counts *out_counts);

#endif
