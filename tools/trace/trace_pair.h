/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of connections: which send end belongs to which receive end, and the clocks' offset. */
#ifndef TOOLS_TRACE_PAIR_H
#define TOOLS_TRACE_PAIR_H

#include "trace_find.h"

struct trace_link {
	const struct trace_end *send, *receive;
	unsigned from, to;   /* files: 0 is the first */
	uint64_t sent, seen; /* posted by the sender, done at the receiver */
};

struct trace_links {
	const struct trace_file *files[2];
	struct trace_link *list;
	unsigned count;
	/* The second file's wall clock is that of the first plus the offset. low, high: what the
	 * matched calls allow; bounded: 1 low, 2 high. */
	int64_t offset_ns, low_ns, high_ns;
	unsigned bounded;
	int contradiction; /* no offset suits all calls */
};

/* second may be NULL: both ends are in one file. 0, or -1: no memory. */
int trace_links_find(const struct trace_file *first, const struct trace_file *second,
		     struct trace_links *out);
void trace_links_free(struct trace_links *links);

/* T05, and messages that the receiver never saw. */
void trace_links_lint(const struct trace_links *links, struct trace_findings *f);

/* Wall time of a moment of a file on the first file's clock. */
int64_t trace_links_ns(const struct trace_links *links, unsigned file, uint64_t ticks);

#endif
