/* SPDX-License-Identifier: Apache-2.0 */
/* Output of doctor. */
#include "doctor_print.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli_json.h"
#include "cli_output.h"

#define INDENT "         "
#define CAUSE_COLUMN 16u
#define LINE_COLUMNS 80u /* of a terminal; a file or a pipe gets whole lines */

/* Ends a line with text, which begins in that column. Further lines are indented as far as `indent`
 * says. */
static void print_wrapped(const char *text, size_t len, unsigned column, unsigned indent)
{
	const char *end = text + len;

	if (isatty(STDOUT_FILENO))
		while ((size_t)(end - text) > LINE_COLUMNS - column) {
			const char *at = text + LINE_COLUMNS - column;

			while (at > text && *at != ' ')
				at--;
			if (at == text)
				break; /* a word as long as a line */
			printf("%.*s\n%*s", (int)(at - text), text, (int)indent, "");
			text = at + 1;
			column = indent;
		}
	printf("%.*s\n", (int)(end - text), text);
}

/* Prints the lines of text below a result; the first one with the name. Lines of a fix are copied
 * into a shell and stay whole. */
static void print_lines(const char *name, const char *text)
{
	bool whole = !strcmp(name, "fix:");
	size_t len;

	for (int first = 1; *text; text += len + (text[len] == '\n'), first = 0) {
		len = strcspn(text, "\n");
		printf(INDENT "%-7s", first ? name : "");
		if (whole)
			printf("%.*s\n", (int)len, text);
		else
			print_wrapped(text, len, CAUSE_COLUMN, CAUSE_COLUMN);
	}
}

static const char *colour_of(enum doctor_verdict verdict)
{
	if (verdict == DOCTOR_FAIL)
		return cli_red();
	return verdict == DOCTOR_PASS ? cli_green() : "";
}

void doctor_print_text(const struct doctor_report *report, int all)
{
	const unsigned *n = report->verdicts;

	for (unsigned i = 0; i < report->count; i++) {
		const struct doctor_result *r = &report->results[i];
		const struct doctor_rule *rule = doctor_rule_named(r->id, strlen(r->id));
		const char *colour = colour_of(r->verdict);

		if (r->verdict == DOCTOR_SKIP && !all)
			continue;
		printf("%s%s%s %s %s: ", colour, doctor_verdict_name(r->verdict),
		       *colour ? cli_plain() : "", r->id, rule->name);
		print_wrapped(r->evidence, strlen(r->evidence),
			      (unsigned)(strlen("PASS D01 : ") + strlen(rule->name)),
			      (unsigned)strlen(INDENT));
		if (r->verdict == DOCTOR_SKIP)
			print_lines("check:", rule->title);
		print_lines("cause:", r->cause);
		print_lines("fix:", r->fix);
	}
	if (report->left_out)
		printf("%u more are left out\n", report->left_out);
	if (n[DOCTOR_SKIP] && !all)
		printf("%u check%s skipped; --all shows %s\n", n[DOCTOR_SKIP],
		       n[DOCTOR_SKIP] == 1 ? "" : "s", n[DOCTOR_SKIP] == 1 ? "it" : "them");
	printf("%u FAIL, %u WARN, %u PASS, %u SKIP\n", n[DOCTOR_FAIL], n[DOCTOR_WARN],
	       n[DOCTOR_PASS], n[DOCTOR_SKIP]);
}

void doctor_print_fixes(const struct doctor_report *report)
{
	for (unsigned i = 0; i < report->count; i++)
		if (*report->results[i].fix)
			printf("%s\n", report->results[i].fix);
}

static void put_check(struct cli_json *list, const struct doctor_result *r)
{
	struct cli_json *o = list ? cli_json_object(list, NULL) : NULL;

	if (!o)
		return;
	cli_json_text(o, "id", r->id);
	cli_json_text(o, "name", doctor_rule_named(r->id, strlen(r->id))->name);
	cli_json_text(o, "verdict", doctor_verdict_name(r->verdict));
	cli_json_text(o, "evidence", r->evidence);
	cli_json_text(o, "cause", r->cause);
	cli_json_text(o, "fix", r->fix);
}

int doctor_print_json(const struct doctor_report *report, const struct doctor_facts *facts,
		      const char *path)
{
	const char *tool = doctor_text(facts, "tool"), *host = doctor_text(facts, "host");
	struct cli_json *json, *list, *counts;
	FILE *out;
	int rc = cli_json_check();

	if (rc)
		return rc;
	out = cli_json_open(path);
	json = out ? cli_json_new() : NULL;
	if (!json)
		return CLI_FAILED;
	cli_json_integer(json, "schema", 1);
	cli_json_text(json, "tool", "doctor");
	cli_json_text(json, "version", tool ? tool : "");
	cli_json_text(json, "host", host ? host : "");
	list = cli_json_array(json, "checks");
	for (unsigned i = 0; i < report->count; i++)
		put_check(list, &report->results[i]);
	counts = cli_json_object(json, "counts");
	for (unsigned i = 0; counts && i < DOCTOR_VERDICTS; i++)
		cli_json_integer(counts, doctor_verdict_name(i), report->verdicts[i]);
	rc = cli_json_write(json, out, path) ? CLI_FAILED : CLI_OK;
	cli_json_free(json);
	return rc;
}
