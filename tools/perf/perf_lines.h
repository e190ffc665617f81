/* SPDX-License-Identifier: Apache-2.0 */
/* --perf-lines: result lines in the format of the predecessor, for scripts that search for them. */
#ifndef TOOLS_PERF_LINES_H
#define TOOLS_PERF_LINES_H

#include <stdint.h>
#include <stdio.h>

/* Sets the stream of the lines; stdout by default. */
void perf_lines_to(FILE *out);

/* Prints "[PERF] Iter N time=Xms" for each transfer of a window, for the first 100 of a row.
 * before: transfers of the row so far. each: times in ns, to be multiplied by scale; NULL: this
 * end does not see each transfer end, so all get equal shares of the time of the window, and a
 * line says so. */
void perf_lines_window(uint64_t before, uint64_t transfers, uint64_t elapsed_ns,
		       const uint64_t *each, double scale);

/* Prints "[PERF] Avg (N iter): ...", "[PERF] Avg: ..." and the lines that belong to them. */
void perf_lines_row(uint64_t transfers, uint64_t bytes, uint64_t elapsed_ns);

#endif
