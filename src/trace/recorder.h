/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a process: a ring for each thread, one writer thread, one file. It starts once
 * and ends with the process; a forked child has none. No function changes errno, except
 * trace_recorder_open.
 */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/ticks.h"
#include "trace/ring.h"

struct trace_recorder_opts {
	/* "%p" becomes the process id; if the file exists, a number is appended */
	const char *path;
	uint32_t ring_records; /* records of a ring, a power of two; 0: 16384 */
	int force_clock;       /* 1: do not use the TSC */
	/* Writes lines "key=value" of the context; or NULL. Called with TRACE_AT_START by the
	 * thread that opens the recorder, with the other places by the writer. */
	void (*context)(FILE *out, enum trace_context_places place);
};

/* Opens the recorder. Returns 0, or -1 with errno: the file cannot be created or written, or there
 * is no memory or thread. Only the first call does this; later calls return 0, even if it
 * failed. */
int trace_recorder_open(const struct trace_recorder_opts *opts);

/* Makes the writer write the remaining records and close the file; waits for that at most 2 s.
 * Nothing is recorded afterwards. Called at exit too. */
void trace_recorder_close(void);

/* Adds a line "key=value" to the next context block. Line feeds become blanks. Any thread. */
void trace_recorder_note(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes the writer write a context block (TRACE_BETWEEN) soon. Any thread. */
void trace_recorder_context(void);

extern _Atomic int trace_recorder_on; /* 1: calls are recorded */
extern uint64_t trace_recorder_hz;    /* ticks per second */
/* this thread's ring; NULL: it has none */
extern __thread struct trace_ring *trace_own_ring __attribute__((tls_model("initial-exec")));

struct trace_ring *trace_ring_make(void); /* makes this thread's ring; NULL: that is impossible */

/* Returns this thread's ring, made on the first call; NULL: nothing is recorded. */
static inline struct trace_ring *trace_ring_own(void)
{
	if (!atomic_load_explicit(&trace_recorder_on, memory_order_relaxed))
		return NULL;
	return __builtin_expect(trace_own_ring != NULL, 1) ? trace_own_ring : trace_ring_make();
}

struct trace_recorder_counts {
	uint64_t written, dropped; /* records in the file; records lost */
	uint64_t failed_writes;
	char path[1024]; /* the file */
};
void trace_recorder_counts(struct trace_recorder_counts *out_counts);

#endif
