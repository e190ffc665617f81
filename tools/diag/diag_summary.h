/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between two texts of lines "name: value" or "NAME=value". */
#ifndef TOOLS_DIAG_SUMMARY_H
#define TOOLS_DIAG_SUMMARY_H

#include <stdio.h>

#include "diag_snapshot.h"

/* Writes a line for each name that is in one of them alone or has another value; of two numbers,
 * by how much. separator: ": " or "=". Returns how many, at most so many are written. */
unsigned diag_differences(const char *before, const char *after, const char *separator,
			  const char *names[2], unsigned most, FILE *out);

/* How busy each CPU was between two snapshots of DIAG_CPU: "cpu0 12 %". */
void diag_cpu_use(const char *before, const char *after, FILE *out);

#endif
