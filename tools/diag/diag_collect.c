/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a folder of diagnostics. */
#include "diag_collect.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/config.h"
#include "cli_output.h"
#include "diag_run.h"
#include "diag_summary.h"
#include "doctor_probe.h"
#include "doctor_rules.h"

#define FOLDER_MAX 3800
#define NAME_MAX_BYTES 100
#define LINES_SHOWN 60
#define TRIES 100

struct collection {
	const struct diag_options *options;
	char folder[FOLDER_MAX], when[32];
	struct diag_mask mask;
	struct diag_snapshot before, after;
	struct diag_run run;
	struct doctor_facts facts;
	unsigned files;
	int failed; /* a file could not be written */
};

static FILE *open_file(struct collection *c, const char *name)
{
	char path[FOLDER_MAX + 64];
	FILE *out;

	snprintf(path, sizeof(path), "%s/%s", c->folder, name);
	out = fopen(path, "we");
	if (!out)
		cli_error("%s: %s", path, strerror(errno));
	c->failed |= !out;
	c->files += out != NULL;
	return out;
}

static void close_file(struct collection *c, FILE *out, const char *name)
{
	int bad = out && (fflush(out) || ferror(out)), err = errno;

	if (out)
		bad |= fclose(out);
	if (bad)
		cli_error("%s/%s: %s", c->folder, name, strerror(err));
	c->failed |= bad;
}

/* Every file goes through the mask. */
static void diag_collect_put_text(struct collection *c, const char *name, const char *text)
{
	FILE *out = open_file(c, name);

	if (out)
		diag_mask_write(&c->mask, text, strlen(text), out);
	close_file(c, out, name);
}

static void put_owned(struct collection *c, const char *name, char *text)
{
	if (text)
		diag_collect_put_text(c, name, text);
	c->failed |= !text;
	free(text);
}

static void put_snapshot(struct collection *c, const struct diag_snapshot *snapshot,
			 const char *phase)
{
	char name[48];

	for (unsigned i = 0; i < DIAG_KINDS; i++) {
		snprintf(name, sizeof(name), "%s.%s.txt", diag_kind_name(i), phase);
		if (snapshot->texts[i])
			diag_collect_put_text(c, name, snapshot->texts[i]);
	}
}

/* Makes the parent folders as well. */
static int diag_collect_make_folder(const char *path)
{
	char part[FOLDER_MAX];

	snprintf(part, sizeof(part), "%s", path);
	for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(part, 0755) && errno != EEXIST)
			return -1;
		*slash = '/';
	}
	return mkdir(part, 0700); /* only the user may read the contents */
}

/* Of the user's state, as the XDG base directory specification has it; nothing is made in the
 * current folder unasked. */
static int default_folder(char out[FOLDER_MAX])
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	int by_state = state && *state == '/'; /* a relative one must be ignored */

	if (!by_state && !(home && *home == '/'))
		return cli_usage("neither XDG_STATE_HOME nor HOME names a folder; give --out DIR");
	snprintf(out, FOLDER_MAX, "%s%s/tcpx/diagnostics", by_state ? state : home,
		 by_state ? "" : "/.local/state");
	return CLI_OK;
}

/* DIR/NAME_20261123_100216, with a number where that is taken. */
static int open_folder(struct collection *c)
{
	const struct diag_options *o = c->options;
	const char *slash = *o->argv ? strrchr(*o->argv, '/') : NULL;
	const char *name = o->name ? o->name : slash ? slash + 1 : *o->argv ? *o->argv : "tcpx";
	char top[FOLDER_MAX];
	time_t now = time(NULL);
	struct tm local;
	char base[FOLDER_MAX - 8];

	if (!*name || strchr(name, '/') || *name == '.' || strlen(name) > NAME_MAX_BYTES)
		return cli_usage("--name '%.40s' cannot be the name of a folder", name);
	snprintf(top, sizeof(top), "%s", o->out ? o->out : "");
	if (!o->out && default_folder(top))
		return CLI_USAGE;
	localtime_r(&now, &local);
	strftime(c->when, sizeof(c->when), "%Y%m%d_%H%M%S", &local);
	if ((size_t)snprintf(base, sizeof(base), "%s/%s_%s", top, name, c->when) >= sizeof(base))
		return cli_usage("--out: the path is too long");
	snprintf(c->folder, sizeof(c->folder), "%s", base);
	for (unsigned i = 2; diag_collect_make_folder(c->folder); i++) {
		if (errno != EEXIST || i == TRIES) {
			cli_error("cannot make %s: %s", c->folder, strerror(errno));
			return CLI_FAILED;
		}
		snprintf(c->folder, sizeof(c->folder), "%s_%u", base, i);
	}
	return CLI_OK;
}

static void put_command(struct collection *c)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	for (char *const *arg = c->options->argv; *arg; arg++)
		fprintf(out, "%s%s", arg == c->options->argv ? "" : " ", *arg);
	fprintf(out, "%s\n", *c->options->argv ? "" : "(none)");
	if (*c->options->argv)
		fprintf(out, "exit code: %d\nseconds: %.3f\nsnapshots while it ran: %u\n",
			c->run.code, c->run.seconds, c->run.taken);
	fclose(out);
	put_owned(c, "command.txt", text);
}

/* Runs the probes of doctor. Only after the command, because they set the environment of a
 * plugin in this process. */
static void put_facts(struct collection *c)
{
	struct doctor_probe_opts probe = {.chosen = UINT64_MAX, .gpu = -1};
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	doctor_probe(&c->facts, &probe);
	doctor_facts_write(&c->facts, out);
	fclose(out);
	put_owned(c, "facts.txt", text);
}

static void sum_findings(struct collection *c, FILE *out)
{
	static struct doctor_report report;

	doctor_judge_all(&c->facts, UINT64_MAX, &report);
	fprintf(out, "\nDoctor: %u FAIL, %u WARN\n", report.verdicts[DOCTOR_FAIL],
		report.verdicts[DOCTOR_WARN]);
	for (unsigned i = 0; i < report.count; i++) {
		const struct doctor_result *r = &report.results[i];

		if (r->verdict == DOCTOR_FAIL || r->verdict == DOCTOR_WARN)
			fprintf(out, "  %s %s %s\n", doctor_verdict_name(r->verdict), r->id,
				r->evidence);
	}
}

static void sum_changes(struct collection *c, FILE *out)
{
	static const enum diag_kind changing[] = {DIAG_INTERFACES, DIAG_ROUTES, DIAG_SYSCTLS,
						  DIAG_IRQS, DIAG_COUNTERS};
	const char *names[2] = {"before", "after"};

	for (unsigned i = 0; i < sizeof(changing) / sizeof(changing[0]); i++) {
		enum diag_kind kind = changing[i];
		const char *a = c->before.texts[kind], *b = c->after.texts[kind];

		if (!a || !b)
			continue;
		fprintf(out, "\nChanged in %s:\n", diag_kind_name(kind));
		if (!diag_differences(a, b, ": ", names, LINES_SHOWN, out))
			fprintf(out, "  nothing\n");
	}
	if (c->before.texts[DIAG_CPU] && c->after.texts[DIAG_CPU]) {
		fprintf(out, "\nCPU use from before to after:\n");
		diag_cpu_use(c->before.texts[DIAG_CPU], c->after.texts[DIAG_CPU], out);
	}
}

static void put_summary(struct collection *c)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return;
	fprintf(out, "tcpx diag collect, %s\nCommand: ", c->when);
	for (char *const *arg = c->options->argv; *arg; arg++)
		fprintf(out, "%s ", *arg);
	if (*c->options->argv)
		fprintf(out, "\nExit code: %d after %.3f s\n", c->run.code, c->run.seconds);
	else
		fprintf(out, "none\n");
	fprintf(out, "Files: %u, this one among them%s\n", c->files + 1,
		c->options->mask ? "; addresses and names of hosts are masked" : "");
	sum_changes(c, out);
	sum_findings(c, out);
	fclose(out);
	put_owned(c, "SUMMARY.txt", text);
}

/* Runs the command. Commands of this tool write the variables that they set for themselves to a
 * file in the folder, which is removed afterwards. */
static void run_command(struct collection *c)
{
	const char *variable = config_row(CONFIG_RECIPE_FILE)->name;
	char recipe[PATH_MAX + 16], real[PATH_MAX];

	snprintf(recipe, sizeof(recipe), "%s/.recipe", realpath(c->folder, real) ? real : ".");
	setenv(variable, recipe, 1);
	c->run.argv = c->options->argv;
	c->run.mask = &c->mask;
	c->run.out_log = open_file(c, "stdout.log");
	c->run.err_log = open_file(c, "stderr.log");
	if (c->run.out_log && c->run.err_log && diag_run_command(&c->run))
		c->run.code = 127;
	close_file(c, c->run.out_log, "stdout.log");
	close_file(c, c->run.err_log, "stderr.log");
	put_snapshot(c, &c->run.during, "during");
	unsetenv(variable);
	put_owned(c, "environment.txt", diag_environment(recipe));
	unlink(recipe);
}

int diag_collect(const struct diag_options *options)
{
	static struct collection c;
	int rc;

	c = (struct collection){.options = options};
	diag_mask_init(&c.mask, options->mask);
	rc = open_folder(&c);
	if (rc)
		return rc;
	put_owned(&c, "topology.txt", diag_topology());
	put_owned(&c, "versions.txt", diag_versions());
	c.failed |= diag_snapshot_take(&c.before, getpid()) != 0;
	put_snapshot(&c, &c.before, "before");
	if (*options->argv)
		run_command(&c);
	else
		put_owned(&c, "environment.txt", diag_environment(NULL));
	c.failed |= diag_snapshot_take(&c.after, getpid()) != 0;
	put_snapshot(&c, &c.after, "after");
	put_facts(&c);
	put_command(&c);
	put_summary(&c);
	fprintf(stderr, "%s: %u files\n", c.folder, c.files);
	diag_snapshot_free(&c.before);
	diag_snapshot_free(&c.run.during);
	diag_snapshot_free(&c.after);
	doctor_facts_free(&c.facts);
	if (*options->argv && c.run.code)
		return c.run.code;
	return c.failed ? CLI_FAILED : CLI_OK;
}
