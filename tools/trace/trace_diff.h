/* SPDX-License-Identifier: Apache-2.0 */
/* Two traces of the same program: where they diverge, and what else differs. */
#ifndef TOOLS_TRACE_DIFF_H
#define TOOLS_TRACE_DIFF_H

#include "trace_find.h"

enum diff_sections {
	DIFF_GAP,	 /* what is not compared */
	DIFF_DIVERGENCE, /* the earliest one first */
	DIFF_CONTEXT,	 /* devices and owners */
	DIFF_LINT,	 /* findings that one of the two has */
	DIFF_ENVIRONMENT,
	DIFF_LIBRARY,
	DIFF_TIMING,
	DIFF_COUNTER,
	DIFF_REMARK,
	DIFF_SECTIONS,
};

struct diff_item {
	enum diff_sections section;
	char where[48]; /* "recv#0" */
	char what[160]; /* "test of message 3", or a variable's name */
	char a[240], b[240];
	const char *doctor; /* "D01"; "" */
	int64_t time_ns;    /* in the trace that has the call */
};

struct trace_diff {
	struct diff_item *items; /* by section, then time */
	unsigned count, counts[DIFF_SECTIONS];
	uint64_t same_calls; /* compared and equal before the first divergence */
	int diverged;	     /* calls or devices do */
};

/* Both with their records. 0, or -1: no memory. */
int trace_diff_make(const struct trace_file *a, const struct trace_file *b, struct trace_diff *out);
void trace_diff_free(struct trace_diff *diff);

const char *trace_diff_section(unsigned section);

#endif
