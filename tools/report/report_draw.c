/* SPDX-License-Identifier: Apache-2.0 */
/* The heat map, by gnuplot; alone, or in a page with findings, rates and the JSON. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "cli_output.h"
#include "report.h"

#define GIGA 1e9
#define TICS 64	   /* most labels of an axis */
#define FIGURES 16 /* most ends for which cells have room for numbers */
#define HOSTS 16   /* most ranks whose names fit into the title */
#define FRAMES 512
#define TABLE_ENDS 64 /* most ends for which a page has a table of rates */

extern char **environ;

static int ends_with(const char *path, const char *suffix)
{
	size_t len = strlen(path), tail = strlen(suffix);

	return len > tail && !strcmp(path + len - tail, suffix);
}

const char *report_draw_check(const char *path)
{
	if (ends_with(path, ".svg") || ends_with(path, ".png") || ends_with(path, ".html"))
		return NULL;
	return "a drawing is .svg, .png or .html";
}

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
		"1:2:(sprintf('%%.3g',$3)):($3 > %g ? 0x000000 : 0xffffff) with labels font ',8' "
		"textcolor rgb variable\n",
		f->most / GIGA / 2);
}

/* Writes the script. From the file it contains only numbers and the cleaned host names. */
static int put_script(const struct report *r, const struct report_findings *f, int png,
		      FILE *script)
{
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
		"set yrange [%u.5:-0.5]\nset cbrange [0:%g]\nunset key\n"
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

/* Runs gnuplot on the script and writes its output to out. Returns 0, or -1 after a line on
 * stderr. */
static int run_gnuplot(FILE *script, FILE *out)
{
	char *argv[] = {"gnuplot", NULL};
	posix_spawn_file_actions_t actions;
	int err, status = 0;
	pid_t pid;

	if (fflush(script) || fseek(script, 0, SEEK_SET)) {
		cli_error("a script for gnuplot: %s", strerror(errno));
		return -1;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fileno(script), STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
	err = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err) {
		cli_error("gnuplot: %s; it draws for us: install the package gnuplot-nox",
			  strerror(err));
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	cli_error("gnuplot failed; its words are above");
	return -1;
}

static int draw_to(const struct report *r, const struct report_findings *f, int png, FILE *out)
{
	FILE *script = tmpfile();
	int rc = script ? put_script(r, f, png, script) : -1;

	if (rc)
		cli_error("no room for a script of gnuplot");
	else
		rc = run_gnuplot(script, out);
	if (script)
		fclose(script);
	return rc;
}

/* Writes text of a page; JSON goes into a script element, which only '<' could end. */
static void report_draw_put_escaped(FILE *in, int json, FILE *out)
{
	int c;

	while ((c = fgetc(in)) != EOF) {
		if (c == '<')
			fputs(json ? "\\u003c" : "&lt;", out);
		else if (c == '&' && !json)
			fputs("&amp;", out);
		else if (c == '>' && !json)
			fputs("&gt;", out);
		else
			fputc(c, out);
	}
}

static int put_svg(const struct report *r, const struct report_findings *f, FILE *out)
{
	FILE *svg = tmpfile();
	int rc = svg ? draw_to(r, f, 0, svg) : -1, shown = 0;
	char line[4096];

	if (!rc)
		rewind(svg);
	while (!rc && fgets(line, sizeof(line), svg)) { /* what stands before it is of a file */
		const char *start = shown ? line : strstr(line, "<svg");

		if (start)
			fputs(start, out);
		shown |= start != NULL;
	}
	if (svg)
		fclose(svg);
	return rc;
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

static int put_page(const struct report *r, const struct report_findings *f, const char *json_path,
		    FILE *out)
{
	FILE *text = tmpfile(), *json = fopen(json_path, "re");
	int rc = text && json ? 0 : -1;

	if (rc)
		cli_error("%s: %s", json_path, strerror(errno));
	fprintf(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
		     "<title>tcpx mesh</title>\n<style>body{font-family:sans-serif}"
		     "td,th{padding:0 .6em;text-align:right}.slow{color:#b2182b}</style></head>"
		     "<body>\n<h1>tcpx mesh</h1>\n<pre>");
	if (!rc) {
		report_print(r, f, text);
		rewind(text);
		report_draw_put_escaped(text, 0, out);
		fprintf(out, "</pre>\n");
		rc = put_svg(r, f, out);
	}
	if (!rc) {
		put_rates(r, f, out);
		fprintf(out, "<script type=\"application/json\" id=\"mesh\">");
		report_draw_put_escaped(json, 1, out);
		fprintf(out, "</script>\n</body></html>\n");
	}
	if (text)
		fclose(text);
	if (json)
		fclose(json);
	return rc;
}

/* The mode of a newly created file. */
static mode_t file_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

int report_draw(const struct report *r, const struct report_findings *f, const char *json_path,
		const char *path)
{
	char *beside = NULL;
	FILE *out = NULL;
	int fd = -1, rc = -1, bad;

	if (asprintf(&beside, "%s.XXXXXX", path) > 0)
		fd = mkostemp(beside, O_CLOEXEC);
	if (fd >= 0)
		out = fdopen(fd, "w+");
	if (!out) {
		cli_error("%s: %s", path, strerror(errno));
		free(beside);
		return CLI_FAILED;
	}
	rc = ends_with(path, ".html") ? put_page(r, f, json_path, out)
				      : draw_to(r, f, ends_with(path, ".png"), out);
	bad = fflush(out) || ferror(out) || fchmod(fd, file_mode());
	bad |= fclose(out) != 0;
	if (!rc && (bad || rename(beside, path))) {
		cli_error("%s: %s", path, strerror(errno));
		rc = -1;
	}
	if (rc)
		(void)unlink(beside);
	free(beside);
	return rc ? CLI_FAILED : CLI_OK;
}
