/* SPDX-License-Identifier: Apache-2.0 */
/* The table of perf: header of a path, rows, what limited the sender. */
#ifndef TOOLS_PERF_TABLE_H
#define TOOLS_PERF_TABLE_H

#include <stdio.h>

#include "perf_plan.h"

/* "5.12 GB/s, 40.96 Gbit/s", by --units. Returns buf. */
#define PERF_RATE_TEXT 64
const char *perf_rate_text(const struct perf_options *options, double bytes_per_second,
			   char buf[PERF_RATE_TEXT]);

void perf_table_path(FILE *out, const struct perf_options *options, const struct perf_path *path,
		     const struct ceiling_result *ceiling);
void perf_table_row(FILE *out, const struct perf_options *options, const struct perf_row_plan *plan,
		    const struct perf_result *result, const struct ceiling_result *ceiling);
void perf_table_interval(FILE *out, const struct perf_options *options, uint64_t size, double start,
			 double end, double bytes_per_second);
void perf_table_limits(FILE *out, const struct perf_options *options,
		       const struct perf_meter *sender);

#endif
