/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between two texts of lines "name: value" or "NAME=value". */
#ifndef TOOLS_DIAG_SUMMARY_H
#define TOOLS_DIAG_SUMMARY_H

#include <stdio.h>

#include "diag_snapshot.h"

/* Writes a line for each name that only one text has or whose values differ, for numbers with
 * the difference. separator: ": " or "=". Writes at most `most` lines; returns the number of
 * differences. */
unsigned diag_differences(const char *before, const char *after, const char *separator,
			  const char *names[2], unsigned most, FILE *out);

/* How busy each CPU was between two snapshots of DIAG_CPU: "cpu0 12 %". */
void diag_cpu_use(const char *before, const char *after, FILE *out);

#endif
