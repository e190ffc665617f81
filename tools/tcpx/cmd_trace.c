/* SPDX-License-Identifier: Apache-2.0 */
/* tcpx trace: records the calls into a plugin, shows them, compares runs, names known faults. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli_output.h"
#include "commands.h"
#include "trace_view.h"

struct trace_options {
	const char *output, *json, *comm, *call, *plugin, *host;
	uint64_t events, table;
	double from, to, older;
	int anonymize, quiet;
};

#define AT(member) offsetof(struct trace_options, member)
#define SECONDS_MAX 1000000

static const struct cli_option options[] = {
	{"output", "FILE", CLI_RULE_TEXT, AT(output), NULL, 0,
	 "also -o; run: folder; show: .svg; export: file [-]"},
	{"json", "FILE|-", CLI_RULE_TEXT, AT(json), NULL, 0, "show, diff, lint: write JSON"},
	{"events",
	 "N",
	 {CLI_COUNT, 0, UINT32_MAX},
	 AT(events),
	 NULL,
	 0,
	 "show: list so many calls [0; 100 with a filter]"},
	{"comm", "NAME", CLI_RULE_TEXT, AT(comm), NULL, 0, "show, export: of this comm, as recv#0"},
	{"call", "NAME", CLI_RULE_TEXT, AT(call), NULL, 0, "show, export: this call, as isend"},
	{"from",
	 "S",
	 {CLI_SECONDS, 0, SECONDS_MAX},
	 AT(from),
	 NULL,
	 0,
	 "show, export: from this second on"},
	{"to", "S", {CLI_SECONDS, 0, SECONDS_MAX}, AT(to), NULL, 0, "show, export: up to it"},
	{"older",
	 "S",
	 {CLI_SECONDS, 0, SECONDS_MAX},
	 AT(older),
	 "1",
	 0,
	 "lint: requests that wait longer"},
	{"anonymize", NULL, CLI_RULE_FLAG, AT(anonymize), NULL, 0,
	 "hide addresses and home folders"},
	{"plugin", "FILE", CLI_RULE_TEXT, AT(plugin), NULL, 0,
	 "run: the real plugin [NCCL_NET_PLUGIN]"},
	{"table",
	 "N",
	 {CLI_COUNT, 6, 12},
	 AT(table),
	 NULL,
	 0,
	 "run: version of the table [newest common]"},
	{"host", "FILE", CLI_RULE_TEXT, AT(host), NULL, 0,
	 "run: library that loads the plugin [libnccl]"},
	{"quiet", NULL, CLI_RULE_FLAG, AT(quiet), NULL, 0, "run: say nothing of its own"},
};

/* One or two files with their records. */
struct loaded {
	struct trace_file files[2];
	unsigned count;
};

static int load(struct loaded *l, char **paths, unsigned count)
{
	int rc = CLI_OK;

	memset(l, 0, sizeof(*l));
	for (; l->count < count && rc == CLI_OK; l->count++) {
		rc = trace_file_open(paths[l->count], &l->files[l->count]);
		if (rc == CLI_OK)
			rc = trace_file_records(&l->files[l->count]);
	}
	return rc;
}

static void unload(struct loaded *l)
{
	for (unsigned i = 0; i < l->count; i++)
		trace_file_close(&l->files[i]);
}

static int to_json(const char *path, void (*put)(void *arg, struct cli_json *json), void *arg)
{
	FILE *out = cli_json_open(path);
	struct cli_json *json = out ? cli_json_new() : NULL;
	int rc;

	if (!json)
		return CLI_FAILED;
	put(arg, json);
	rc = cli_json_write(json, out, path) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}

/* "-" and NULL are stdout. */
static int to_file(const char *path, void (*put)(void *arg, FILE *out), void *arg)
{
	int here = !path || !strcmp(path, "-"), bad;
	FILE *out = here ? stdout : fopen(path, "we");

	if (!out) {
		cli_error("--output %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	put(arg, out);
	if (here)
		return cli_flush(out) ? CLI_FAILED : CLI_OK;
	bad = fflush(out) || ferror(out);
	if (fclose(out) || bad) {
		cli_error("--output %s: %s", path, strerror(errno));
		return CLI_FAILED;
	}
	return CLI_OK;
}

/* ---- show ---- */

struct view {
	struct loaded *l;
	struct trace_links links;
	struct trace_filter filter;
};

static void put_show(void *arg, struct cli_json *json)
{
	struct view *v = arg;

	trace_show_json(&v->l->files[0], json);
	trace_links_json(&v->links, json);
}

static void put_drawing(void *arg, FILE *out)
{
	struct view *v = arg;

	trace_draw(&v->l->files[0], out);
}

static void put_chrome(void *arg, FILE *out)
{
	struct view *v = arg;

	trace_export_chrome(&v->links, &v->filter, out);
}

static int filter_set(const struct trace_options *o, struct trace_filter *filter)
{
	*filter = (struct trace_filter){
		.comm = o->comm,
		.call = -1,
		.from_ns = (int64_t)(o->from * 1e9),
		.to_ns = o->to > 0 ? (int64_t)(o->to * 1e9) : INT64_MAX,
		.lines = o->events,
	};
	for (int i = 0; o->call && i < TRACE_CALL_COUNT; i++)
		if (!strcmp(trace_call_name((unsigned)i), o->call))
			filter->call = i;
	if (o->call && filter->call < 0)
		return cli_usage("--call '%s': no such call; as isend, irecv, test, irecvConsumed",
				 o->call);
	if (!o->events && (o->comm || o->call || o->from > 0 || o->to > 0))
		filter->lines = 100;
	return CLI_OK;
}

static int show_loaded(const struct trace_options *o, struct view *v)
{
	if (o->output)
		return to_file(o->output, put_drawing, v);
	if (o->json)
		return to_json(o->json, put_show, v);
	for (unsigned i = 0; i < v->l->count; i++)
		trace_show_text(&v->l->files[i], stdout);
	if (v->l->count == 2 || v->links.count) {
		printf("\n");
		trace_links_text(&v->links, stdout);
	}
	if (v->filter.lines) {
		printf("\n");
		trace_events_text(&v->l->files[0], &v->filter, stdout);
	}
	return CLI_OK;
}

static int with_links(const struct trace_options *o, char **paths, unsigned count,
		      int (*then)(const struct trace_options *o, struct view *v))
{
	struct loaded l;
	struct view v = {.l = &l};
	int rc = filter_set(o, &v.filter);

	if (rc != CLI_OK)
		return rc;
	rc = load(&l, paths, count);
	if (rc == CLI_OK &&
	    trace_links_find(&l.files[0], count > 1 ? &l.files[1] : NULL, &v.links)) {
		cli_error("no memory");
		rc = CLI_FAILED;
	}
	if (rc == CLI_OK)
		rc = then(o, &v);
	trace_links_free(&v.links);
	unload(&l);
	return rc;
}

static int run_show(const struct trace_options *o, char **paths, unsigned count)
{
	const char *dot = o->output ? strrchr(o->output, '.') : NULL;

	if (o->output && (!dot || strcmp(dot, ".svg") != 0))
		return cli_usage("--output '%s': a drawing is .svg", o->output);
	return with_links(o, paths, count, show_loaded);
}

static int export_loaded(const struct trace_options *o, struct view *v)
{
	return to_file(o->output, put_chrome, v);
}

static int run_export(const struct trace_options *o, char **paths, unsigned count)
{
	return with_links(o, paths, count, export_loaded);
}

/* ---- lint ---- */

static void put_lint(void *arg, struct cli_json *json)
{
	trace_lint_json(arg, json);
}

/* Prints the findings of each file, and of two files together. */
static int lint_loaded(const struct trace_options *o, struct view *v)
{
	struct trace_findings *all = calloc(1, sizeof(*all)), *one = calloc(1, sizeof(*one));
	int rc = CLI_FAILED;

	if (!all || !one) {
		cli_error("no memory");
		goto out;
	}
	for (unsigned i = 0; i < v->l->count; i++) {
		trace_lint(&v->l->files[i], (int64_t)(o->older * 1e9), one);
		for (unsigned k = 0; k < one->count && all->count < TRACE_FINDINGS_MAX; k++) {
			struct trace_finding *found = &all->list[all->count++];
			char where[sizeof(found->where)];

			*found = one->list[k];
			if (v->l->count == 1)
				continue;
			snprintf(where, sizeof(where), "%c.%.60s", 'A' + (char)i, found->where);
			memcpy(found->where, where, sizeof(where));
		}
	}
	trace_links_lint(&v->links, all);
	rc = CLI_OK;
	if (o->json)
		rc = to_json(o->json, put_lint, all);
	else
		trace_lint_text(all, stdout);
	if (rc == CLI_OK && all->count)
		rc = CLI_FOUND;
out:
	free(all);
	free(one);
	return rc;
}

static int run_lint(const struct trace_options *o, char **paths, unsigned count)
{
	return with_links(o, paths, count, lint_loaded);
}

/* ---- diff ---- */

static void put_diff(void *arg, struct cli_json *json)
{
	trace_diff_json(arg, json);
}

static int run_diff(const struct trace_options *o, char **paths, unsigned count)
{
	struct trace_diff diff = {0};
	struct loaded l;
	int rc = load(&l, paths, count);

	if (rc == CLI_OK && trace_diff_make(&l.files[0], &l.files[1], &diff)) {
		cli_error("no memory");
		rc = CLI_FAILED;
	}
	if (rc == CLI_OK) {
		if (o->json)
			rc = to_json(o->json, put_diff, &diff);
		else
			trace_diff_text(&l.files[0], &l.files[1], &diff, stdout);
	}
	if (rc == CLI_OK && diff.diverged)
		rc = CLI_FOUND;
	trace_diff_free(&diff);
	unload(&l);
	return rc;
}

/* ---- the verbs ---- */

static const struct {
	const char *name, *args;
	unsigned min, max; /* files */
	int (*run)(const struct trace_options *o, char **paths, unsigned count);
} verbs[] = {
	{"show", "FILE [FILE of the other end]", 1, 2, run_show},
	{"diff", "A B", 2, 2, run_diff},
	{"lint", "FILE [FILE of the other end]", 1, 2, run_lint},
	{"export", "FILE [FILE of the other end]", 1, 2, run_export},
};
#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

static int run_verb(const struct trace_options *o, const char *word, char **args, unsigned count)
{
	struct trace_run run = {o->plugin, o->output, o->host, o->table, o->quiet};

	if (!strcmp(word, "run"))
		return count ? trace_run(&run, args)
			     : cli_usage("usage: tcpx trace run [options] -- COMMAND");
	if (o->json && cli_json_check())
		return CLI_USAGE;
	trace_anonymous = o->anonymize;
	for (unsigned i = 0; i < VERBS; i++) {
		if (strcmp(verbs[i].name, word) != 0)
			continue;
		if (count < verbs[i].min || count > verbs[i].max)
			return cli_usage("usage: tcpx trace %s %s", word, verbs[i].args);
		return verbs[i].run(o, args, count);
	}
	return cli_usage("'%s' is none of run, show, diff, lint, export", word);
}

static int run(const struct cli_command *command, int argc, char **argv)
{
	static char output[] = "--output";
	struct trace_options o = {NULL};
	int first, rc;

	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "-o"))
			argv[i] = output;
	rc = cli_parse(command, argc, argv, &o, &first);
	if (rc != CLI_GO)
		return rc;
	return run_verb(&o, argv[first], argv + first + 1, (unsigned)(argc - first - 1));
}

const struct cli_command command_trace = {
	.name = "trace",
	.args = "run|show|diff|lint|export [options] FILE... | -- COMMAND",
	.summary = "Records calls into an ncclNet plugin, shows and compares them",
	COMMAND_OPTIONS(options),
	.min_args = 1,
	.max_args = 4096,
	.run = run,
};
