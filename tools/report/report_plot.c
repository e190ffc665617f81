/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures by gnuplot. */
#include "report_plot.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli_output.h"

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
		cli_error("gnuplot: %s; install the package gnuplot-nox", strerror(err));
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	cli_error("gnuplot failed; see its output above");
	return -1;
}

int report_plot(const struct report_plot *plot, int png, FILE *out)
{
	FILE *script = tmpfile();
	int rc = script ? plot->put_script(plot->arg, png, script) : -1;

	if (rc)
		cli_error("no room for a script of gnuplot");
	else
		rc = run_gnuplot(script, out);
	if (script)
		fclose(script);
	return rc;
}

void report_plot_escaped(FILE *in, int json, FILE *out)
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

int report_plot_svg(const struct report_plot *plot, FILE *out)
{
	FILE *svg = tmpfile();
	int rc = svg ? report_plot(plot, 0, svg) : -1, shown = 0, styled = 0;
	char line[4096];

	if (!rc)
		rewind(svg);
	/* without the XML header, which a page must not have and a file need not */
	while (!rc && fgets(line, sizeof(line), svg)) {
		const char *start = shown ? line : strstr(line, "<svg");

		if (start)
			fputs(start, out);
		if (start && !styled && strstr(start, "</title>")) {
			fputs(CLI_SVG_DARK, out);
			styled = 1;
		}
		shown |= start != NULL;
	}
	if (svg)
		fclose(svg);
	return rc;
}

/* The mode of a newly created file. */
static mode_t file_mode(void)
{
	mode_t mask = umask(0);

	umask(mask);
	return 0666 & ~mask;
}

int report_plot_file(const struct report_plot *plot, const char *path)
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
	if (ends_with(path, ".html"))
		rc = plot->put_page(plot, out);
	else if (ends_with(path, ".svg"))
		rc = report_plot_svg(plot, out);
	else
		rc = report_plot(plot, 1, out);
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
