/* SPDX-License-Identifier: Apache-2.0 */
/* --perf-lines: result lines in the format of the predecessor, for scripts that search for them. */
#include "perf_lines.h"

#include <stdio.h>

#include "base/config.h"
#include "cli_output.h"

#define LINES_MAX 100

static FILE *to;

void perf_lines_to(FILE *out)
{
	to = out;
}

static FILE *lines(void)
{
	return to ? to : stdout;
}

void perf_lines_window(uint64_t before, uint64_t transfers, uint64_t elapsed_ns,
		       const uint64_t *each, double scale)
{
	static int share_said;
	FILE *out = lines();
	double share = transfers ? (double)elapsed_ns / (double)transfers / 1e6 : 0;

	if (!each && transfers > 1 && !share_said++)
		fprintf(out, "[PERF] note: iterations of a window have equal shares of its time\n");
	for (uint64_t i = 0; i < transfers && before + i < LINES_MAX; i++)
		fprintf(out, "[PERF] Iter %llu time=%.3fms\n", (unsigned long long)(before + i),
			each ? (double)each[i] / 1e6 * scale : share);
	cli_flush(out);
}

void perf_lines_row(uint64_t transfers, uint64_t bytes, uint64_t elapsed_ns)
{
	static int unit_said;
	FILE *out = lines();
	double total_ms = (double)elapsed_ns / 1e6;
	double ms = transfers ? total_ms / (double)transfers : 0;
	double rate = elapsed_ns ? (double)bytes / (double)elapsed_ns : 0;

	if (!unit_said++)
		fprintf(out,
			"[PERF] unit: 1 GB = 10^9 bytes (the predecessor mostly printed GiB/s)\n");
	fprintf(out, "[PERF] GPU: %s\n", config_text(CONFIG_LOCAL_DEVICE));
	fprintf(out, "Total time: %.3f ms\n", total_ms);
	fprintf(out, "[PERF] Avg (%llu iter): %.3f ms, BW: %.2f GB/s\n",
		(unsigned long long)transfers, ms, rate);
	fprintf(out, "[PERF] Avg: %.3f ms, BW: %.2f GB/s\n", ms, rate);
	fprintf(out, "[PERF] Bandwidth: %.2f GB/s (per GPU)\n", rate);
	cli_flush(out);
}
