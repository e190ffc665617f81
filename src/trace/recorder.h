/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder of a process: a ring for each thread that records, one writer thread, one file. It
 * starts once, and ends at trace_recorder_close() or at exit; a forked child has none. No function
 * except trace_recorder_open changes errno.
 */
#ifndef TRACE_RECORDER_H
#define TRACE_RECORDER_H

#include <stdbool.h>
#include <stdio.h>

#include "trace/ticks.h"
#include "trace/ring.h"

struct trace_recorder_opts {
	/* "%p" becomes the process id; a number is appended if the file exists */
	const char *path;
	uint32_t ring_records; /* number of records of a ring, a power of two; 0 means 16384 */
	int force_clock;       /* 1 if the TSC must not be used */
	/* Writes the context as lines "key=value"; may be NULL. Called with TRACE_AT_START by the
	 * thread that opens the recorder, and with the other places by the writer thread. */
	void (*context)(FILE *out, enum trace_context_places place);
};

/* Opens the recorder. Returns 0, or -1 with errno if the file cannot be created or written, or
 * there is no memory or thread. Only the first call opens the recorder; later calls return 0 even
 * if the first one failed. */
int trace_recorder_open(const struct trace_recorder_opts *opts);

/* Makes the writer write the remaining records and close the file; waits at most 2 s for that.
 * Nothing is recorded afterwards. Also called at exit. */
void trace_recorder_close(void);

/* Adds a line "key=value" to the next context block. Line feeds become blanks. May be called by any
 * thread. */
void trace_recorder_note(const char *key, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Makes the writer write a context block (TRACE_BETWEEN) soon. May be called by any thread. */
void trace_recorder_context(void);

extern _Atomic int trace_recorder_on; /* 1 while calls are recorded */
extern uint64_t trace_recorder_hz;    /* ticks per second */
/* this thread's ring, or NULL */
extern __thread struct trace_ring *trace_own_ring __attribute__((tls_model("initial-exec")));

struct trace_ring *trace_ring_make(void); /* makes this thread's ring; NULL if that is impossible */

/* Returns this thread's ring, which the first call makes. Returns NULL if nothing is recorded or
 * this thread cannot have a ring. */
static inline struct trace_ring *trace_ring_own(void)
{
	if (!atomic_load_explicit(&trace_recorder_on, memory_order_relaxed))
		return NULL;
	return __builtin_expect(trace_own_ring != NULL, 1) ? trace_own_ring : trace_ring_make();
}

struct trace_recorder_counts {
	uint64_t written, dropped; /* records in the file; records lost */
	uint64_t failed_writes;
	char path[1024]; /* name of the file */
};
void trace_recorder_counts(struct trace_recorder_counts *out_counts);

#endif
