/* SPDX-License-Identifier: Apache-2.0 */
/* The heat map, by gnuplot; alone, or in a page with findings, rates and the JSON. */
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "cli_output.h"
#include "report.h"
#include "report_plot.h"

#define GIGA 1e9
#define TICS 64	   /* most labels of an axis */
#define FIGURES 16 /* most ends for which cells have room for numbers */
#define HOSTS 16   /* most ranks whose names fit into the title */
#define FRAMES 512
#define TABLE_ENDS 64 /* most ends for which a page has a table of rates */

struct heat {
	const struct report *report;
	const struct report_findings *findings;
	const char *json_path;
};

/* Whether the end, or its whole rank, is a straggler in that direction. */
static bool straggles(const struct report *r, const struct report_findings *f, uint32_t end,
		      unsigned direction)
{
	return (f->ends[end] | f->ranks[r->ends[end].rank]) & direction;
}

static void put_tics(const struct report *r, const struct report_findings *f, const char *axis,
		     FILE *script)
{
	uint32_t step = (r->nends + TICS - 1) / TICS;
	unsigned direction = *axis == 'x' ? REPORT_RECEIVES : REPORT_SENDS;

	fprintf(script, "set %stics out nomirror scale 0 (", axis);
	for (uint32_t i = 0; i < r->nends; i += step)
		fprintf(script, "%s'%sr%u g%u' %u", i ? ", " : "",
			straggles(r, f, i, direction) ? "*" : "", r->ends[i].rank, r->ends[i].gpu,
			i);
	fprintf(script, ")%s\n", *axis == 'x' ? " rotate by 90 right" : "");
}

/* Writes a name from the file without characters that could end a string of gnuplot. */
static void put_host(const char *host, FILE *script)
{
	for (; *host; host++)
		if (isalnum((unsigned char)*host) || strchr(".-", *host))
			fputc(*host, script);
}

static void put_title(const struct report *r, const struct report_findings *f, FILE *script)
{
	char size[BYTES_TEXT_MAX];

	fprintf(script, "set title \"tcpx mesh: %s of %s, GB/s, %u links", r->op,
		bytes_format(r->size, size, sizeof(size)), r->ncells);
	for (uint32_t rank = 0; rank < r->nranks && r->nranks <= HOSTS; rank++) {
		fprintf(script, "%s r%u ", rank % 4 ? " " : "\\n", rank);
		put_host(r->hosts[rank], script);
	}
	fprintf(script, "%s%s\" noenhanced\n", f->nstragglers ? "\\n*: a straggler" : "",
		f->nslow ? "\\nred: a slow link" : "");
}

/* Draws lines between ranks, and a frame around each link that is slow by itself. */
static void put_marks(const struct report *r, const struct report_findings *f, FILE *script)
{
	unsigned frames = 0;

	for (uint32_t i = 1; i < r->nends && r->nranks <= TICS; i++) {
		if (r->ends[i].rank == r->ends[i - 1].rank)
			continue;
		fprintf(script,
			"set arrow from %u.5,-0.5 to %u.5,%u.5 nohead front lw 2 lc rgb '#ffffff'\n"
			"set arrow from -0.5,%u.5 to %u.5,%u.5 nohead front lw 2 lc rgb "
			"'#ffffff'\n",
			i - 1, i - 1, r->nends - 1, i - 1, r->nends - 1, i - 1);
	}
	for (uint32_t i = 0; i < r->ncells && frames < FRAMES; i++)
		if (f->slow[i] == REPORT_SLOW || r->cells[i].wrong)
			fprintf(script,
				"set object %u rectangle center %u,%u size 0.9,0.9 front fillstyle "
				"empty border rgb '#e31a1c' linewidth 2\n",
				2 + frames++, r->cells[i].to, r->cells[i].from);
}

/* Writes numbers into the cells of a small mesh, light ones on the dark half of the palette. */
static void put_figures(const struct report *r, const struct report_findings *f, FILE *script)
{
	fprintf(script, "$figures << EOD\n");
	for (uint32_t i = 0; i < r->ncells; i++)
		fprintf(script, "%u %u %.6f\n", r->cells[i].to, r->cells[i].from,
			r->cells[i].rate / GIGA);
	fprintf(script,
		"EOD\nplot $rates using 1:2:3 with image pixels, $figures using "
		"1:2:(sprintf('%%.%df',$3)):($3 > %g ? 0x000000 : 0xffffff) with labels font ',8' "
		"textcolor rgb variable\n",
		f->most < GIGA	       ? 3
		: f->most < 10 * GIGA  ? 2
		: f->most < 100 * GIGA ? 1
				       : 0,
		f->most / GIGA / 2);
}

/* Writes the script. From the file it contains only numbers and the cleaned host names. */
static int put_script(const void *arg, int png, FILE *script)
{
	const struct heat *heat = arg;
	const struct report *r = heat->report;
	const struct report_findings *f = heat->findings;
	double *rates = calloc((size_t)r->nends * r->nends, sizeof(*rates));
	unsigned side = 300 + (r->nends < 60 ? r->nends * (r->nends <= FIGURES ? 36 : 12) : 720);

	if (!rates)
		return -1;
	for (uint32_t i = 0; i < r->ncells; i++)
		rates[(size_t)r->cells[i].from * r->nends + r->cells[i].to] = r->cells[i].rate;
	fprintf(script, "set terminal %s size %u,%u font 'sans,10' background '#ffffff'\n",
		png ? "pngcairo" : "svg", side + 120, side);
	put_title(r, f, script);
	fprintf(script,
		"set xlabel 'to'\nset ylabel 'from'\nset xrange [-0.5:%u.5]\n"
		"set yrange [%u.5:-0.5]\nset cbrange [0:%g]\nset cblabel 'GB/s'\nunset key\n"
		"set palette defined (0 '#440154', 1 '#3b528b', 2 '#21918c', 3 '#5ec962', "
		"4 '#fde725')\n"
		"set object 1 rectangle from graph 0,0 to graph 1,1 fillcolor rgb '#dddddd' "
		"fillstyle solid noborder behind\n",
		r->nends - 1, r->nends - 1, f->most > 0 ? f->most / GIGA : 1);
	put_tics(r, f, "x", script);
	put_tics(r, f, "y", script);
	put_marks(r, f, script);
	fprintf(script, "$rates << EOD\n");
	for (uint32_t from = 0; from < r->nends; from++)
		for (uint32_t to = 0; to < r->nends; to++) {
			double rate = rates[(size_t)from * r->nends + to];

			if (rate > 0)
				fprintf(script, "%u %u %.6f\n", to, from, rate / GIGA);
			else
				fprintf(script, "%u %u NaN\n", to, from);
		}
	fprintf(script, "EOD\n");
	if (r->nends <= FIGURES)
		put_figures(r, f, script);
	else
		fprintf(script, "plot $rates using 1:2:3 with image pixels\n");
	free(rates);
	return ferror(script) ? -1 : 0;
}

static void put_rates(const struct report *r, const struct report_findings *f, FILE *out)
{
	fprintf(out, "<table><tr><th>from</th><th>to</th><th>GB/s</th><th>least</th><th>most</th>"
		     "<th>wrong bytes</th></tr>\n");
	for (uint32_t i = 0; i < r->ncells && r->nends <= TABLE_ENDS; i++) {
		const struct report_cell *c = &r->cells[i];

		fprintf(out,
			"<tr%s><td>r%u g%u</td><td>r%u g%u</td><td>%.3f</td><td>%.3f</td>"
			"<td>%.3f</td><td>%llu</td></tr>\n",
			f->slow[i] || c->wrong ? " class=\"slow\"" : "", r->ends[c->from].rank,
			r->ends[c->from].gpu, r->ends[c->to].rank, r->ends[c->to].gpu,
			c->rate / GIGA, c->least / GIGA, c->most / GIGA,
			(unsigned long long)c->wrong);
	}
	fprintf(out, "</table>\n");
}

static int put_page(const struct report_plot *plot, FILE *out)
{
	const struct heat *heat = plot->arg;
	const struct report *r = heat->report;
	const struct report_findings *f = heat->findings;
	FILE *text = tmpfile(), *json = fopen(heat->json_path, "re");
	int rc = text && json ? 0 : -1;

	if (rc)
		cli_error("%s: %s", heat->json_path, strerror(errno));
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<title>tcpx mesh</title>\n<style>" CLI_HTML_DARK "body{font-family:sans-serif}"
		"td,th{padding:0 .6em;text-align:right}.slow{color:#b2182b}</style></head>"
		"<body>\n<h1>tcpx mesh</h1>\n<pre>");
	if (!rc) {
		report_print(r, f, text);
		rewind(text);
		report_plot_escaped(text, 0, out);
		fprintf(out, "</pre>\n");
		rc = report_plot_svg(plot, out);
	}
	if (!rc) {
		put_rates(r, f, out);
		fprintf(out, "<script type=\"application/json\" id=\"mesh\">");
		report_plot_escaped(json, 1, out);
		fprintf(out, "</script>\n</body></html>\n");
	}
	if (text)
		fclose(text);
	if (json)
		fclose(json);
	return rc;
}

int report_draw(const struct report *r, const struct report_findings *f, const char *json_path,
		const char *path)
{
	const struct heat heat = {r, f, json_path};
	const struct report_plot plot = {put_script, put_page, &heat};

	return report_plot_file(&plot, path);
}
