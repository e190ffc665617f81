/* SPDX-License-Identifier: Apache-2.0 */
/* --perf-lines: the result lines that scripts of the predecessor grep. */
#ifndef TOOLS_PERF_LINES_H
#define TOOLS_PERF_LINES_H

#include <stdint.h>
#include <stdio.h>

/* Where they go; stdout when it was not called. */
void perf_lines_to(FILE *out);

/* "[PERF] Iter N time=Xms" for each transfer of a window, with its share of the window's time;
 * before is how many transfers the row had already. The first 100 of a row only. */
void perf_lines_window(uint64_t before, uint64_t transfers, uint64_t elapsed_ns);

/* "[PERF] Avg (N iter): ...", "[PERF] Avg: ..." and the lines that go with them. */
void perf_lines_row(uint64_t transfers, uint64_t bytes, uint64_t elapsed_ns);

#endif
