/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures by gnuplot: svg, png, or an html page with the picture in it. */
#ifndef TOOLS_REPORT_PLOT_H
#define TOOLS_REPORT_PLOT_H

#include <stdio.h>

struct report_plot {
	/* Writes a script for gnuplot with the terminal in it. Returns 0, or -1 without memory. */
	int (*put_script)(const void *arg, int png, FILE *script);
	/* Writes a page. Returns 0, or -1 after a line on stderr. */
	int (*put_page)(const struct report_plot *plot, FILE *out);
	const void *arg;
};

/* NULL, or why path cannot be drawn to: its suffix says what is drawn. */
const char *report_draw_check(const char *path);

/* Draws to a file, which is replaced as a whole. Returns an exit code. */
int report_plot_file(const struct report_plot *plot, const char *path);

/* Draws to a stream, or as an <svg> element of a page. Returns 0, or -1 after a line on stderr. */
int report_plot(const struct report_plot *plot, int png, FILE *out);
int report_plot_svg(const struct report_plot *plot, FILE *out);

/* Copies text into a page; json: into a script element, which only '<' could end. */
void report_plot_escaped(FILE *in, int json, FILE *out);

#endif
