/* SPDX-License-Identifier: Apache-2.0 */
/* Results of 'tcpx perf --json': curves over the size of transfers, of one run or several. */
#ifndef TOOLS_REPORT_CURVE_H
#define TOOLS_REPORT_CURVE_H

#include <stdint.h>
#include <stdio.h>

#define REPORT_RUNS_MAX 8
#define REPORT_CURVES_MAX 32
#define REPORT_LABEL_MAX 96

struct report_point {
	uint64_t size;	    /* bytes */
	double rate;	    /* B/s */
	double p50, p99;    /* seconds */
	double ceiling;	    /* B/s; 0: not measured */
	double ceiling_p50; /* seconds; 0: not measured */
	uint64_t wrong;	    /* bytes */
};

/* Rows of one operation over one path of one run, by size. */
struct report_curve {
	char label[REPORT_LABEL_MAX]; /* printable characters without quotes */
	uint32_t run;
	int one_way; /* latency is what counts */
	struct report_point *points;
	uint32_t npoints;
};

struct report_curves {
	const char *paths[REPORT_RUNS_MAX];
	uint32_t nruns;
	struct report_curve curves[REPORT_CURVES_MAX];
	uint32_t ncurves;
	uint64_t wrong; /* bytes, of all rows */
};

/* Whether the file says that it is a result of perf. Prints nothing. */
int report_is_perf(const char *path);

/* Adds the rows of a file. Returns 0, or -1 after a line on stderr. */
int report_curves_read(struct report_curves *curves, const char *path);
void report_curves_free(struct report_curves *curves);

/* A table of rates, or of latencies; further runs are compared with the first. */
void report_curves_print(const struct report_curves *curves, FILE *out);

/* Draws bandwidth and latency over size. Returns an exit code. */
int report_curves_draw(const struct report_curves *curves, const char *path);

#endif
