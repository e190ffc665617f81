/* SPDX-License-Identifier: Apache-2.0 */
/* What 'tcpx mesh --json' wrote, read again, judged and drawn. */
#ifndef TOOLS_REPORT_H
#define TOOLS_REPORT_H

#include <stdint.h>
#include <stdio.h>

#define REPORT_HOST_MAX 64
#define REPORT_ENDS_MAX 4096

/* A GPU of a rank. */
struct report_end {
	uint32_t rank, gpu; /* gpu: as the user counts them */
	const char *host;   /* of the rank; nothing but printable characters */
};

struct report_cell {
	uint32_t from, to;	  /* positions among the ends */
	double rate, least, most; /* B/s */
	uint64_t wrong;		  /* bytes */
};

struct report {
	char op[16];
	uint64_t size, iters;
	char (*hosts)[REPORT_HOST_MAX]; /* by rank */
	struct report_end *ends;	/* by rank, in the order of the file */
	struct report_cell *cells;	/* that were measured */
	uint32_t nranks, nends, ncells;
};

/* report_read.c: 0; -1: no such file, or not what mesh writes, said on stderr. */
int report_read(const char *path, struct report *out);
void report_free(struct report *report);

enum report_slow {
	REPORT_WELL,
	REPORT_SLOW,	  /* the link */
	REPORT_EXPLAINED, /* one of its ends is a straggler */
};

/* Directions in which an end, or all ends of a rank, are slow with most of their links. */
enum { REPORT_SENDS = 1, REPORT_RECEIVES = 2 };

struct report_findings {
	double median, least, most;  /* B/s, of all cells */
	uint64_t wrong;		     /* bytes */
	unsigned char *slow;	     /* of each cell: enum report_slow */
	unsigned char *ends, *ranks; /* of each: directions; an end of a slow rank has none */
	uint32_t nslow, nstragglers; /* links that nothing explains; ends and ranks */
};

/* report_judge.c: slow is a link below (100 - percent) % of the median. 0; -1: no memory. */
int report_judge(const struct report *report, double percent, struct report_findings *out);
void report_findings_free(struct report_findings *findings);
/* The median of what an end, or a rank, sends or receives; B/s. *out_slow of *out_all are slow. */
double report_rate(const struct report *report, const struct report_findings *findings, int rank,
		   uint32_t index, int direction, uint32_t *out_slow, uint32_t *out_all);

/* report_text.c */
void report_print(const struct report *report, const struct report_findings *findings, FILE *out);

/* report_draw.c: a heat map by the suffix of path, svg, png or html. An exit code. */
int report_draw(const struct report *report, const struct report_findings *findings,
		const char *json_path, const char *path);
/* NULL; or why path cannot be drawn to. */
const char *report_draw_check(const char *path);

#endif
