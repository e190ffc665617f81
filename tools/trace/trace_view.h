/* SPDX-License-Identifier: Apache-2.0 */
/* The forms in which traces are shown: text, JSON, Chrome's and Perfetto's JSON, a picture. */
#ifndef TOOLS_TRACE_VIEW_H
#define TOOLS_TRACE_VIEW_H

#include "cli_json.h"
#include "trace_diff.h"
#include "trace_pair.h"

struct trace_filter {
	const char *comm; /* "recv#0"; NULL: all */
	int call;	  /* -1: all */
	int64_t from_ns, to_ns;
	uint64_t lines; /* most events that are shown */
};

int trace_filter_passes(const struct trace_file *file, const struct trace_filter *filter,
			const struct trace_record *r);

/* Addresses and names of hosts and people become "ip0", "~"; of a copy in buf, or text itself. */
extern int trace_anonymous;
const char *trace_shown(const char *text, char *buf, size_t cap);

void trace_show_text(const struct trace_file *file, FILE *out);
void trace_events_text(const struct trace_file *file, const struct trace_filter *filter, FILE *out);
void trace_show_json(const struct trace_file *file, struct cli_json *json);

void trace_links_text(const struct trace_links *links, FILE *out);
void trace_links_json(const struct trace_links *links, struct cli_json *json);

void trace_lint_text(const struct trace_findings *f, FILE *out);
void trace_lint_json(const struct trace_findings *f, struct cli_json *json);

void trace_diff_text(const struct trace_file *a, const struct trace_file *b,
		     const struct trace_diff *diff, FILE *out);
void trace_diff_json(const struct trace_diff *diff, struct cli_json *json);

/* An array of events; files[1] may be NULL, its clock is corrected by the links' offset. */
void trace_export_chrome(const struct trace_links *links, const struct trace_filter *filter,
			 FILE *out);

/* Comms against time. */
void trace_draw(const struct trace_file *file, FILE *out);

/* tcpx trace run: starts the command under a tracer. Returns an exit code. */
struct trace_run {
	const char *plugin, *folder, *host;
	uint64_t table; /* 0: chosen */
	int quiet;
};
int trace_run(const struct trace_run *run, char **command);

#endif
