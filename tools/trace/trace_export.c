/* SPDX-License-Identifier: Apache-2.0 */
/* A trace for chrome://tracing and Perfetto, and as a picture. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli_output.h"
#include "trace_view.h"

static void put_quoted(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
	fputc('"', out);
}

static void put_meta(unsigned pid, unsigned tid, const char *what, const char *name, FILE *out)
{
	fprintf(out, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":", pid,
		tid, what);
	put_quoted(name, out);
	fprintf(out, "}},\n");
}

/* A call on its thread's line. */
static void put_call(const struct trace_links *l, unsigned n, const struct trace_record *r,
		     FILE *out)
{
	const struct trace_file *file = l->files[n];
	const struct trace_end *end = trace_end_of(file, r->comm);
	double from_us = (double)(trace_links_ns(l, n, r->time) -
				  (int64_t)l->files[0]->header.start.wall_ns) /
			 1e3;

	fprintf(out,
		"{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"name\":\"%s\","
		"\"cat\":",
		n + 1, r->thread, from_us, (double)r->duration * file->ns_per_tick / 1e3,
		trace_call_name(r->call));
	put_quoted(end ? end->name : "process", out);
	fprintf(out,
		",\"args\":{\"number\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"tag\":%d,\"result\":%d,\"repeats\":%u,\"flags\":%u}},\n",
		r->call >= TRACE_ISEND ? r->number : 0, r->bytes, r->tag, r->result, r->repeats,
		r->flags);
}

/* A request from its post to its end, as an asynchronous slice of its comm. */
static void put_request(const struct trace_links *l, unsigned n, const struct trace_record *r,
			FILE *out)
{
	const struct trace_file *file = l->files[n];
	const struct trace_end *end = trace_end_of(file, r->comm);
	int begins = r->call == TRACE_ISEND || r->call == TRACE_IRECV;
	int ends = r->call == TRACE_TEST && r->flags & TRACE_DONE && r->tag != TRACE_KIND_FLUSH;
	uint64_t ticks = begins ? r->time : r->time + r->duration;

	if (!end || r->part || r->result || r->flags & TRACE_EMPTY || (!begins && !ends))
		return;
	fprintf(out,
		"{\"ph\":\"%s\",\"pid\":%u,\"tid\":%u,\"id\":\"%u.%u.%" PRIu64 "\",\"ts\":%.3f,"
		"\"cat\":\"request\",\"name\":",
		begins ? "b" : "e", n + 1, r->thread, n, r->comm, r->number,
		(double)(trace_links_ns(l, n, ticks) - (int64_t)l->files[0]->header.start.wall_ns) /
			1e3);
	put_quoted(end->name, out);
	fprintf(out, "},\n");
}

void trace_export_chrome(const struct trace_links *l, const struct trace_filter *filter, FILE *out)
{
	char name[300], buf[512];

	fprintf(out, "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
	for (unsigned n = 0; n < 2 && l->files[n]; n++) {
		const struct trace_file *file = l->files[n];

		snprintf(name, sizeof(name), "%s (process %u)",
			 trace_shown(file->path, buf, sizeof(buf)), file->header.pid);
		put_meta(n + 1, 0, "process_name", name, out);
		for (uint64_t i = 0; i < file->nrecords; i++) {
			struct trace_record r = trace_record_at(file, i);

			if (!trace_filter_passes(file, filter, &r) || r.call == TRACE_GAP)
				continue;
			put_call(l, n, &r, out);
			put_request(l, n, &r, out);
		}
	}
	/* an event that ends the list, for the commas */
	fprintf(out, "{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_sort_index\",\"args\":"
		     "{\"sort_index\":1}}\n]}\n");
}

/* ---- picture ---- */

enum {
	LEFT = 190,
	WIDTH = 900,
	ROW = 26,
	TOP = 56,
	BINS = 300, /* of a comm's line */
};

static const char *const fills[] = {"#8c96a6", "#3b7dd8", "#2a9d62", "#7a5fb5", "#b5803c"};

static double x_of(const struct trace_file *file, int64_t ns)
{
	return LEFT + (double)WIDTH * (double)ns / (double)(file->span_ns ? file->span_ns : 1);
}

static int bin_of(int64_t ns, int64_t span)
{
	double bin = (double)ns * BINS / (double)span;

	return bin < 0 ? 0 : bin >= BINS ? BINS - 1 : (int)bin;
}

/* Messages in flight over time, as the height of the line. */
static void draw_flight(const struct trace_file *file, const struct trace_end *end, int y,
			FILE *out)
{
	double flight[BINS] = {0}, most = 0;
	int64_t span = file->span_ns ? file->span_ns : 1, now = 0, last = 0;

	for (uint32_t i = 0; i <= end->nevents; i++) {
		struct trace_record r = {0};
		int64_t at = end->last_ns;

		if (i < end->nevents) {
			r = trace_record_at(file, end->events[i]);
			at = trace_end_ns(file, &r);
		}

		for (int bin = bin_of(last, span); now && bin <= bin_of(at, span); bin++)
			if ((double)now > flight[bin])
				flight[bin] = (double)now;
		last = at > last ? at : last;
		if (i == end->nevents || r.part || r.result || r.flags & TRACE_EMPTY)
			continue;
		now += r.call == TRACE_ISEND || r.call == TRACE_IRECV;
		now -= r.call == TRACE_TEST && r.flags & TRACE_DONE && now > 0 &&
		       r.tag != TRACE_KIND_FLUSH;
	}
	for (unsigned i = 0; i < BINS; i++)
		most = flight[i] > most ? flight[i] : most;
	for (unsigned i = 0; i < BINS && most > 0; i++)
		if (flight[i] > 0)
			fprintf(out,
				"<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
				"fill=\"%s\"/>\n",
				LEFT + (double)WIDTH * i / BINS,
				y + (ROW - 8) * (1 - flight[i] / most), (double)WIDTH / BINS,
				(ROW - 8) * flight[i] / most, fills[end->kind]);
}

static void draw_marks(const struct trace_file *file, const struct trace_end *end, int y, FILE *out)
{
	for (uint32_t i = 0; i < end->nevents; i++) {
		struct trace_record r = trace_record_at(file, end->events[i]);
		double x = x_of(file, trace_end_ns(file, &r));

		if (r.result || r.flags & TRACE_UNFINISHED)
			fprintf(out,
				"<path d=\"M%.1f %d l8 -8 m0 8 l-8 -8\" stroke=\"#c62828\" "
				"stroke-width=\"2\"><title>%s: %s</title></path>\n",
				x - 4, y + ROW - 10, trace_call_name(r.call),
				r.result ? "failed" : "never returned");
	}
}

/* A name of the file's, in XML. */
static void put_escaped_name(const char *text, FILE *out)
{
	for (; *text; text++) {
		if (*text == '<')
			fputs("&lt;", out);
		else if (*text == '&')
			fputs("&amp;", out);
		else
			fputc(*text, out);
	}
}

static void draw_end(const struct trace_file *file, const struct trace_end *end, int y, FILE *out)
{
	double from = x_of(file, end->first_ns), to = x_of(file, end->last_ns);
	char nic[80];
	int foreign = end->kind != END_SEND && end->owner >= 0 && end->owner != end->nic;

	fprintf(out, "<text x=\"8\" y=\"%d\"%s>%s", y + 14, foreign ? " fill=\"#c62828\"" : "",
		end->name);
	fputc(' ', out);
	put_escaped_name(trace_nic_name(file, end->nic, nic, sizeof(nic)), out);
	if (end->gpu >= 0)
		fprintf(out, " GPU%d", end->gpu);
	fprintf(out,
		"</text>\n<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" "
		"fill=\"#eef1f5\" stroke=\"%s\"/>\n",
		from, y, to - from > 1 ? to - from : 1.0, ROW - 8, foreign ? "#c62828" : "#c5ccd6");
	draw_flight(file, end, y, out);
	draw_marks(file, end, y, out);
	if (end->posted)
		fprintf(out, "<text x=\"%d\" y=\"%d\">%" PRIu64 "/%" PRIu64 "</text>\n",
			LEFT + WIDTH + 8, y + 14, end->done, end->posted);
}

void trace_draw(const struct trace_file *file, FILE *out)
{
	unsigned rows = 0;
	int y = TOP;

	for (uint32_t i = 0; i < file->nends; i++)
		rows += file->ends[i].nevents != 0;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%u\" "
		"font-family=\"monospace\" font-size=\"12\">\n" CLI_SVG_DARK
		"<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
		"<text x=\"8\" y=\"18\">process %u: requests in flight of each comm; right: "
		"done/posted"
		"; red: failed, or the NIC is not the GPU's own</text>\n",
		LEFT + WIDTH + 110, TOP + rows * ROW + 12, file->header.pid);
	for (unsigned i = 0; i <= 8; i++) {
		double ms = (double)file->span_ns * i / 8 / 1e6;

		fprintf(out,
			"<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%u\" stroke=\"#e3e6ea\"/>"
			"<text x=\"%.1f\" y=\"%d\" fill=\"#666\">%.*f ms</text>\n",
			LEFT + WIDTH * i / 8.0, LEFT + WIDTH * i / 8.0, TOP - 8, TOP + rows * ROW,
			LEFT + WIDTH * i / 8.0 - 12, TOP - 14, ms < 100 ? 2 : 0, ms);
	}
	for (uint32_t i = 0; i < file->nends; i++)
		if (file->ends[i].nevents) {
			draw_end(file, &file->ends[i], y, out);
			y += ROW;
		}
	fputs("</svg>\n", out);
}
