/* SPDX-License-Identifier: Apache-2.0 */
/* Reads, judges and draws a result of 'tcpx mesh --json'. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdint.h>
#include <stdio.h>

#define REPORT_HOST_MAX 64
#define REPORT_ENDS_MAX 4096

/* A GPU of a rank. */
struct report_end {
	uint32_t rank, gpu; /* gpu: as the user counts them */
	const char *host;   /* host of the rank; printable characters only */
};

struct report_cell {
	uint32_t from, to;	  /* indices of ends */
	double rate, least, most; /* B/s */
	uint64_t wrong;		  /* bytes */
};

struct report {
	char op[16];
	uint64_t size, iters;
	char (*hosts)[REPORT_HOST_MAX]; /* by rank */
	struct report_end *ends;	/* by rank, in the order of the file */
	struct report_cell *cells;	/* measured cells */
	uint32_t nranks, nends, ncells;
};

/* report_read.c: returns 0, or -1 after a line on stderr: no such file, or not a result of mesh. */
int report_read(const char *path, struct report *out);
void report_free(struct report *report);

enum report_slow {
	REPORT_WELL,
	REPORT_SLOW,	  /* the link */
	REPORT_EXPLAINED, /* slow, but one of its ends is a straggler */
};

/* Directions in which most links of an end, or of all ends of a rank, are slow. */
enum { REPORT_SENDS = 1, REPORT_RECEIVES = 2 };

struct report_findings {
	double median, least, most;  /* B/s, of all cells */
	uint64_t wrong;		     /* bytes */
	unsigned char *slow;	     /* of each cell: enum report_slow */
	unsigned char *ends, *ranks; /* slow directions; 0 for an end of a slow rank */
	uint32_t nslow, nstragglers; /* slow links without a straggler; straggling ends and ranks */
};

/* report_judge.c: a link is slow below (100 - percent) % of the median. Returns 0, or -1 without
 * memory. */
int report_judge(const struct report *report, double percent, struct report_findings *out);
void report_findings_free(struct report_findings *findings);
/* The median rate, in B/s, at which an end or a rank sends or receives; *out_slow of *out_all
 * cells are slow. */
double report_rate(const struct report *report, const struct report_findings *findings, int rank,
		   uint32_t index, int direction, uint32_t *out_slow, uint32_t *out_all);

/* report_text.c */
void report_print(const struct report *report, const struct report_findings *findings, FILE *out);

/* report_draw.c: draws a heat map, as svg, png or html by the suffix of path. Returns an exit
 * code. */
int report_draw(const struct report *report, const struct report_findings *findings,
		const char *json_path, const char *path);
#endif
