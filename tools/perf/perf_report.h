/* SPDX-License-Identifier: Apache-2.0 */
/* What perf shows: the table while it runs, the JSON document at the end. */
#ifndef TOOLS_PERF_REPORT_H
#define TOOLS_PERF_REPORT_H

#include <stdio.h>

#include "perf_plan.h"

struct perf_report;

/* The table goes to stdout, or to stderr where JSON or CSV takes stdout; their files are made now.
 * NULL after a line on stderr. */
struct perf_report *perf_report_open(const struct perf_options *options);

/* A new path: header lines. */
void perf_report_path(struct perf_report *report, const struct perf_path *path,
		      const struct ceiling_result *ceiling);

/* A row of it; ceiling may be NULL. */
void perf_report_row(struct perf_report *report, const struct perf_row_plan *plan,
		     const struct perf_result *result, const struct ceiling_result *ceiling);

/* What a part of the row that runs came to; before the row itself. */
struct perf_interval {
	double start, end; /* seconds since the row began */
	double bytes_per_second;
};
void perf_report_interval(struct perf_report *report, uint64_t size,
			  const struct perf_interval *interval);

/* Behind the rows of a path over a plugin: what became of the messages. */
void perf_report_channels(struct perf_report *report, tcpx_session *session, tcpx_peer peer);

/* The last line and the JSON, by the exit code. The code, or CLI_FAILED when writing failed. */
int perf_report_end(struct perf_report *report, int code);
void perf_report_close(struct perf_report *report);

#endif
