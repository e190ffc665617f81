/* SPDX-License-Identifier: Apache-2.0 */
/* --perf-lines: the result lines that scripts of the predecessor grep. */
#ifndef TOOLS_PERF_LINES_H
#define TOOLS_PERF_LINES_H

#include <stdint.h>
#include <stdio.h>

/* Where they go; stdout when it was not called. */
void perf_lines_to(FILE *out);

/* "[PERF] Iter N time=Xms" for each transfer of a window; before is how many transfers the row had
 * already. each: their times in ns, each of them times scale; NULL: this end sees none of them
 * end, so all have equal shares of the window's time, which a line says. The first 100 of a row. */
void perf_lines_window(uint64_t before, uint64_t transfers, uint64_t elapsed_ns,
		       const uint64_t *each, double scale);

/* "[PERF] Avg (N iter): ...", "[PERF] Avg: ..." and the lines that go with them. */
void perf_lines_row(uint64_t transfers, uint64_t bytes, uint64_t elapsed_ns);

#endif
