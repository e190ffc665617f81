/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of perf as comma-separated values, in base units, one line each as soon as it is there. */
#ifndef TOOLS_PERF_CSV_H
#define TOOLS_PERF_CSV_H

#include <stdio.h>

#include "perf_plan.h"

/* The stream with the line of column names written; "-" is stdout. NULL after a line on stderr. */
FILE *perf_csv_open(const char *path);

/* ceiling may be NULL: its fields stay empty. */
void perf_csv_row(FILE *out, const struct perf_path *path, const struct perf_row_plan *plan,
		  const struct perf_result *result, const struct ceiling_result *ceiling);

/* -1 after a line on stderr: the file could not be written. stdout stays open. */
int perf_csv_close(FILE *out, const char *path);

#endif
