/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, differences and matched ends as text and as JSON. */
#include <inttypes.h>
#include <string.h>

#include "trace_view.h"

static const char *rule_title(const char *id)
{
	const struct trace_rule *rule;

	for (unsigned i = 0; (rule = trace_rule(i)); i++)
		if (!strcmp(rule->id, id))
			return rule->title;
	return "";
}

void trace_lint_text(const struct trace_findings *f, FILE *out)
{
	for (unsigned i = 0; i < f->count; i++) {
		const struct trace_finding *found = &f->list[i];

		fprintf(out, "%s%s%s  %s, %.3f ms: %s", found->rule, *found->doctor ? " " : "",
			found->doctor, found->where, (double)found->time_ns / 1e6, found->text);
		if (found->cases > 1)
			fprintf(out, " (%" PRIu64 " cases)", found->cases);
		fputc('\n', out);
		if (*found->doctor)
			fprintf(out, "     see 'tcpx doctor', rule %s\n", found->doctor);
	}
	if (f->left_out)
		fprintf(out, "... %u more findings\n", f->left_out);
	if (!f->count)
		fprintf(out, "no finding\n");
}

void trace_lint_json(const struct trace_findings *f, struct cli_json *json)
{
	struct cli_json *list = cli_json_array(json, "findings");

	for (unsigned i = 0; i < f->count; i++) {
		const struct trace_finding *found = &f->list[i];
		struct cli_json *one = cli_json_object(list, NULL);

		cli_json_text(one, "rule", found->rule);
		cli_json_text(one, "title", rule_title(found->rule));
		if (*found->doctor)
			cli_json_text(one, "doctor", found->doctor);
		cli_json_text(one, "where", found->where);
		cli_json_text(one, "text", found->text);
		cli_json_real(one, "at_s", (double)found->time_ns / 1e9);
		cli_json_integer(one, "cases", found->cases);
	}
}

/* ---- diff ---- */

#define SHOWN_MAX 12 /* items of a section; JSON has all */

static void item_text(const struct diff_item *item, FILE *out)
{
	char a[512], b[512];
	const char *left = trace_shown(item->a, a, sizeof(a));
	const char *right = trace_shown(item->b, b, sizeof(b));

	if (item->section == DIFF_LINT) {
		fprintf(out, "  %s%s%s  %s, in %s only: %s\n", item->what, *item->doctor ? " " : "",
			item->doctor, item->where, *left ? "A" : "B", *left ? left : right);
		return;
	}
	fprintf(out, "  %s%s%s:\n    A: %s\n    B: %s\n", item->where, *item->where ? " " : "",
		item->what, left, right);
	if (*item->doctor)
		fprintf(out, "    -> rule %s of 'tcpx doctor'\n", item->doctor);
}

static const char *section_head(unsigned section)
{
	static const char *const heads[] = {
		"records are missing, no conclusion for",
		"divergence",
		"devices",
		"findings of lint",
		"environment",
		"libraries",
		"timing",
		"counters",
		"remarks",
	};

	return heads[section];
}

static void section_text(const struct trace_diff *diff, unsigned section, FILE *out)
{
	unsigned shown = 0;

	for (unsigned i = 0; i < diff->count; i++) {
		const struct diff_item *item = &diff->items[i];

		if (item->section != section)
			continue;
		if (!shown && section == DIFF_DIVERGENCE)
			fprintf(out, "first divergence:\n");
		else if (!shown)
			fprintf(out, "%s:\n", section_head(section));
		if (shown == 1 && section == DIFF_DIVERGENCE)
			fprintf(out, "after it:\n");
		if (shown++ < SHOWN_MAX)
			item_text(item, out);
	}
	if (shown > SHOWN_MAX)
		fprintf(out, "  ... %u more (--json has all)\n", shown - SHOWN_MAX);
}

static void missing_text(const struct trace_file *file, const char *name, FILE *out)
{
	if (file->missing)
		fprintf(out, "%s: %" PRIu64 " RECORDS ARE MISSING\n", name, file->missing);
}

void trace_diff_text(const struct trace_file *a, const struct trace_file *b,
		     const struct trace_diff *diff, FILE *out)
{
	char buf[1024];

	missing_text(a, "A", out);
	missing_text(b, "B", out);
	fprintf(out, "# A: %s, %" PRIu64 " records\n", trace_shown(a->path, buf, sizeof(buf)),
		a->nrecords);
	fprintf(out, "# B: %s, %" PRIu64 " records\n", trace_shown(b->path, buf, sizeof(buf)),
		b->nrecords);
	fprintf(out, "same for %" PRIu64 " calls\n", diff->same_calls);
	section_text(diff, DIFF_GAP, out);
	section_text(diff, DIFF_CONTEXT, out);
	for (unsigned section = DIFF_DIVERGENCE; section < DIFF_SECTIONS; section++)
		if (section != DIFF_CONTEXT)
			section_text(diff, section, out);
	if (!diff->diverged)
		fprintf(out, "no divergence%s\n",
			diff->counts[DIFF_GAP] ? " in what was compared" : "");
}

void trace_diff_json(const struct trace_diff *diff, struct cli_json *json)
{
	char a[512], b[512];

	cli_json_bool(json, "diverged", diff->diverged);
	cli_json_integer(json, "same_calls", diff->same_calls);
	for (unsigned section = 0; section < DIFF_SECTIONS; section++) {
		struct cli_json *list = cli_json_array(json, trace_diff_section(section));

		for (unsigned i = 0; i < diff->count; i++) {
			const struct diff_item *item = &diff->items[i];
			struct cli_json *one;

			if (item->section != section)
				continue;
			one = cli_json_object(list, NULL);
			cli_json_text(one, "where", item->where);
			cli_json_text(one, "what", item->what);
			cli_json_text(one, "a", trace_shown(item->a, a, sizeof(a)));
			cli_json_text(one, "b", trace_shown(item->b, b, sizeof(b)));
			if (*item->doctor)
				cli_json_text(one, "doctor", item->doctor);
			cli_json_real(one, "at_s", (double)item->time_ns / 1e9);
		}
	}
}

/* ---- both ends ---- */

void trace_links_text(const struct trace_links *l, FILE *out)
{
	if (!l->count) {
		fprintf(out, "no connection has both its ends in these traces\n");
		return;
	}
	if (l->files[1]) {
		fprintf(out, "clocks: B is %+.3f ms from A", (double)l->offset_ns / 1e6);
		if (l->bounded == 3)
			fprintf(out, ", calls allow %.3f to %.3f ms", (double)l->low_ns / 1e6,
				(double)l->high_ns / 1e6);
		fprintf(out, "\n");
	}
	fprintf(out, "%-24s %10s %10s %10s\n", "sender -> receiver", "sent", "received",
		"on the way");
	for (unsigned i = 0; i < l->count; i++) {
		const struct trace_link *link = &l->list[i];
		char name[64];

		snprintf(name, sizeof(name), "%s%s -> %s%s",
			 l->files[1] ? (link->from ? "B." : "A.") : "", link->send->name,
			 l->files[1] ? (link->to ? "B." : "A.") : "", link->receive->name);
		fprintf(out, "%-24s %10" PRIu64 " %10" PRIu64 " %10" PRId64 "\n", name, link->sent,
			link->seen, (int64_t)(link->sent - link->seen));
	}
}

void trace_links_json(const struct trace_links *l, struct cli_json *json)
{
	struct cli_json *list = cli_json_array(json, "connections");

	cli_json_real(json, "clock_offset_s", (double)l->offset_ns / 1e9);
	if (l->bounded & 1)
		cli_json_real(json, "clock_low_s", (double)l->low_ns / 1e9);
	if (l->bounded & 2)
		cli_json_real(json, "clock_high_s", (double)l->high_ns / 1e9);
	for (unsigned i = 0; i < l->count; i++) {
		struct cli_json *one = cli_json_object(list, NULL);

		cli_json_text(one, "sender", l->list[i].send->name);
		cli_json_integer(one, "sender_file", l->list[i].from);
		cli_json_text(one, "receiver", l->list[i].receive->name);
		cli_json_integer(one, "receiver_file", l->list[i].to);
		cli_json_integer(one, "sent", l->list[i].sent);
		cli_json_integer(one, "received", l->list[i].seen);
	}
}
