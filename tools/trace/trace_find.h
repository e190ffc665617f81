/* SPDX-License-Identifier: Apache-2.0 */
/* Findings: what the rules of lint say about a trace, or about the traces of both ends. */
#ifndef TOOLS_TRACE_FIND_H
#define TOOLS_TRACE_FIND_H

#include "trace_load.h"

struct trace_finding {
	const char *rule;   /* "T01" */
	const char *doctor; /* the doctor's rule for it; "" */
	char where[64];	    /* "recv#0" */
	char text[320];
	int64_t time_ns; /* of the first case */
	uint64_t cases;
};

#define TRACE_FINDINGS_MAX 512

struct trace_findings {
	struct trace_finding list[TRACE_FINDINGS_MAX];
	unsigned count, left_out;
};

struct trace_rule {
	const char *id, *title;
};
const struct trace_rule *trace_rule(unsigned index); /* NULL past the end */

/* A finding of the rule; a later one of the same rule and place only counts. */
void trace_find(struct trace_findings *f, const char *rule, const char *doctor, const char *where,
		int64_t time_ns, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* T03, if a message of so many bytes cannot have been copied before it was consumed. */
void trace_find_early(struct trace_findings *f, const char *where, int64_t time_ns,
		      int64_t since_ns, uint64_t number, uint64_t bytes);

/* All rules over one trace. older_ns: a request that waits longer is a finding. */
void trace_lint(const struct trace_file *file, int64_t older_ns, struct trace_findings *f);

#endif
