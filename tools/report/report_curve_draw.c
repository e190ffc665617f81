/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of perf as a table, a picture and a page. */
#include <string.h>

#include "base/bytes.h"
#include "cli_output.h"
#include "report_curve.h"
#include "report_plot.h"

#define GIGA 1e9
#define WIDTH 1100
#define HEIGHT 480
#define KEY_LINE 22

static const char *const colours[] = {"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
				      "#ff7f0e", "#17becf", "#8c564b", "#e377c2"};
#define COLOURS (sizeof(colours) / sizeof(colours[0]))

/* The same point of the first run, or NULL. */
static const struct report_point *point_before(const struct report_curves *all,
					       const struct report_curve *curve, uint64_t size)
{
	for (uint32_t i = 0; curve->run && i < all->ncurves; i++) {
		const struct report_curve *first = &all->curves[i];

		if (first->run || strcmp(first->label, curve->label) != 0)
			continue;
		for (uint32_t k = 0; k < first->npoints; k++)
			if (first->points[k].size == size)
				return &first->points[k];
	}
	return NULL;
}

void report_curves_print(const struct report_curves *all, FILE *out)
{
	for (uint32_t i = 0; i < all->ncurves; i++) {
		const struct report_curve *c = &all->curves[i];

		fprintf(out, "%s%s: %s\n", i ? "\n" : "", all->paths[c->run], c->label);
		fprintf(out, "%10s %8s %10s %10s %7s%s\n", "size", "GB/s", "p50(us)", "p99(us)",
			"%ceil", c->run ? "  of the first run" : "");
		for (uint32_t k = 0; k < c->npoints; k++) {
			const struct report_point *p = &c->points[k],
						  *first = point_before(all, c, p->size);
			char size[BYTES_TEXT_MAX], share[16] = "-", ratio[40] = "";

			if (p->ceiling > 0)
				snprintf(share, sizeof(share), "%.1f", 100 * p->rate / p->ceiling);
			if (p->ceiling_p50 > 0)
				snprintf(share, sizeof(share), "%.1f",
					 100 * p->ceiling_p50 / p->p50);
			if (first && c->one_way)
				snprintf(ratio, sizeof(ratio), "  %.0f %% of the time",
					 100 * p->p50 / first->p50);
			else if (first)
				snprintf(ratio, sizeof(ratio), "  %.0f %% of the rate",
					 100 * p->rate / first->rate);
			fprintf(out, "%10s %8.3f %10.2f %10.2f %7s%s%s\n",
				bytes_compact(p->size, size, sizeof(size)), p->rate / GIGA,
				p->p50 * 1e6, p->p99 * 1e6, share, ratio,
				p->wrong ? "  WRONG BYTES" : "");
		}
	}
}

/* The name of a run without its folders, as a string of gnuplot may have it. */
static void put_name(const char *path, FILE *script)
{
	const char *name = strrchr(path, '/');

	for (name = name ? name + 1 : path; *name; name++)
		fputc(*name < ' ' || *name > '~' || strchr("'\"\\{}^_@&<>", *name) ? '?' : *name,
		      script);
}

static void put_data(const struct report_curves *all, FILE *script)
{
	for (uint32_t i = 0; i < all->ncurves; i++) {
		fprintf(script, "$curve%u << EOD\n", i);
		for (uint32_t k = 0; k < all->curves[i].npoints; k++) {
			const struct report_point *p = &all->curves[i].points[k];

			fprintf(script, "%llu %.9g %.9g %.9g", (unsigned long long)p->size,
				p->rate / GIGA, p->p50 * 1e6, p->p99 * 1e6);
			if (p->ceiling > 0)
				fprintf(script, " %.9g", p->ceiling / GIGA);
			else
				fprintf(script, " NaN");
			if (p->ceiling_p50 > 0)
				fprintf(script, " %.9g\n", p->ceiling_p50 * 1e6);
			else
				fprintf(script, " NaN\n");
		}
		fprintf(script, "EOD\n");
	}
}

/* Labels of the sizes that were measured, at most a dozen. */
static void put_sizes(const struct report_curves *all, FILE *script)
{
	const struct report_curve *most = &all->curves[0];
	uint64_t least = UINT64_MAX, largest = 0;
	uint32_t step;

	for (uint32_t i = 0; i < all->ncurves; i++) {
		const struct report_curve *c = &all->curves[i];

		if (c->npoints > most->npoints)
			most = c;
		if (c->points[0].size < least)
			least = c->points[0].size;
		if (c->points[c->npoints - 1].size > largest)
			largest = c->points[c->npoints - 1].size;
	}
	step = (most->npoints + 11) / 12;
	fprintf(script, "set xtics nomirror (");
	for (uint32_t k = 0; k < most->npoints; k += step) {
		char size[BYTES_TEXT_MAX];

		fprintf(script, "%s'%s' %llu", k ? ", " : "",
			bytes_compact(most->points[k].size, size, sizeof(size)),
			(unsigned long long)most->points[k].size);
	}
	/* a label at the very end of an axis may be lost to rounding */
	fprintf(script, ")\nset xrange [%g:%g]\n", 0.9 * (double)least, 1.1 * (double)largest);
}

static int has_ceiling(const struct report_curve *c, int latency)
{
	for (uint32_t k = 0; k < c->npoints; k++)
		if ((latency ? c->points[k].ceiling_p50 : c->points[k].ceiling) > 0)
			return 1;
	return 0;
}

/* Rates have no band; latency has one from p50 to p99. Ceilings are dashed. */
static void put_plot(const struct report_curves *all, int latency, FILE *script)
{
	const char *comma = "";

	fprintf(script, "plot ");
	for (uint32_t i = 0; latency && i < all->ncurves; i++, comma = ", ")
		fprintf(script,
			"%s$curve%u using 1:3:4 with filledcurves fillcolor rgb '%s' "
			"fillstyle transparent solid 0.15 notitle",
			comma, i, colours[i % COLOURS]);
	for (uint32_t i = 0; i < all->ncurves; i++) {
		const struct report_curve *c = &all->curves[i];

		if (c->one_way && !latency)
			continue;
		fprintf(script,
			"%s$curve%u using 1:%d with linespoints pointtype 7 pointsize 0.6 "
			"linewidth 2 linecolor rgb '%s' title '",
			comma, i, latency ? 3 : 2, colours[i % COLOURS]);
		if (all->nruns > 1) {
			put_name(all->paths[c->run], script);
			fprintf(script, ": ");
		}
		fprintf(script, "%s'", c->label);
		if (has_ceiling(c, latency))
			fprintf(script,
				", $curve%u using 1:%d with lines dashtype 2 linewidth 1.5 "
				"linecolor rgb '%s' title 'its ceiling: plain sockets'",
				i, latency ? 6 : 5, colours[i % COLOURS]);
		comma = ", ";
	}
	fprintf(script, "\n");
}

static int put_curves(const void *arg, int png, FILE *script)
{
	const struct report_curves *all = arg;
	unsigned lines = 0, rates = 0; /* rates: curves whose bandwidth means something */

	for (uint32_t i = 0; i < all->ncurves; i++)
		rates += !all->curves[i].one_way;
	for (uint32_t i = 0; i < all->ncurves; i++)
		lines += 1 + (unsigned)(has_ceiling(&all->curves[i], 0) ||
					has_ceiling(&all->curves[i], 1));
	fprintf(script, "set terminal %s size %d,%u font 'sans,11' background '#ffffff'\n",
		png ? "pngcairo" : "svg", rates ? WIDTH : WIDTH / 2, HEIGHT + lines * KEY_LINE);
	put_data(all, script);
	fprintf(script,
		"set border 3\nset grid linecolor rgb '#dddddd'\nset logscale x 2\n"
		"set xlabel 'size of a transfer' offset 0,0.5\nset key below vertical "
		"maxcols 1 left Left height 2 "
		"reverse samplen 2\nset multiplot layout 1,%d\n",
		rates ? 2 : 1);
	put_sizes(all, script);
	fprintf(script, "set ytics nomirror\n");
	if (rates) {
		fprintf(script, "set title 'bandwidth'\nset ylabel 'GB/s'\nset yrange [0:*]\n");
		put_plot(all, 0, script);
	}
	fprintf(script, "set title 'time of a transfer: p50, up to p99'\nset ylabel 'us'\n"
			"set logscale y\nset yrange [*:*]\n");
	put_plot(all, 1, script);
	fprintf(script, "unset multiplot\n");
	return ferror(script) ? -1 : 0;
}

static int put_curves_page(const struct report_plot *plot, FILE *out)
{
	const struct report_curves *all = plot->arg;
	FILE *text = tmpfile();
	int rc;

	if (!text) {
		cli_error("no room for a page");
		return -1;
	}
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		"<title>tcpx perf</title>\n<style>" CLI_HTML_DARK "body{font-family:sans-serif}"
		"svg{max-width:100%%;height:auto}</style></head>"
		"<body>\n<h1>tcpx perf</h1>\n");
	rc = report_plot_svg(plot, out);
	if (!rc) {
		fprintf(out, "<pre>");
		report_curves_print(all, text);
		rewind(text);
		report_plot_escaped(text, 0, out);
		fprintf(out, "</pre>\n</body></html>\n");
	}
	fclose(text);
	return rc;
}

int report_curves_draw(const struct report_curves *curves, const char *path)
{
	const struct report_plot plot = {put_curves, put_curves_page, curves};

	return report_plot_file(&plot, path);
}
