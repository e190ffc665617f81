/* SPDX-License-Identifier: Apache-2.0 */
/* Output of perf: the table while it runs, the JSON document at the end. */
#ifndef TOOLS_PERF_REPORT_H
#define TOOLS_PERF_REPORT_H

#include <stdio.h>

#include "perf_plan.h"

struct perf_report;

/* Opens the outputs. The table goes to stdout, or to stderr if JSON or CSV takes stdout; their
 * files are created now. NULL after a line on stderr. */
struct perf_report *perf_report_open(const struct perf_options *options);

/* Prints the header of a new path. */
void perf_report_path(struct perf_report *report, const struct perf_path *path,
		      const struct ceiling_result *ceiling);

/* Prints a row; ceiling may be NULL. */
void perf_report_row(struct perf_report *report, const struct perf_row_plan *plan,
		     const struct perf_result *result, const struct ceiling_result *ceiling);

/* The rate in a part of the current row; reported before the row itself. */
struct perf_interval {
	double start, end; /* seconds since the row began */
	double bytes_per_second;
};
void perf_report_interval(struct perf_report *report, uint64_t size,
			  const struct perf_interval *interval);

/* After the rows of a path over a plugin: the message counters. */
void perf_report_channels(struct perf_report *report, tcpx_session *session, tcpx_peer peer);

/* Prints the last line and writes the JSON. Returns code, or CLI_FAILED if writing failed. */
int perf_report_end(struct perf_report *report, int code);
void perf_report_close(struct perf_report *report);

#endif
