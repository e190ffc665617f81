/* SPDX-License-Identifier: Apache-2.0 */
/* A trace as text and as JSON: its comms, its calls, the oldest request that is not done. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "trace_view.h"

struct call_count {
	uint64_t calls, repeats, errors;
	double total_ns, most_ns;
};

int trace_filter_passes(const struct trace_file *file, const struct trace_filter *filter,
			const struct trace_record *r)
{
	const struct trace_end *end = trace_end_of(file, r->comm);

	if (filter->comm && (!end || strcmp(end->name, filter->comm) != 0))
		return 0;
	if (filter->call >= 0 && r->call != filter->call)
		return 0;
	return trace_end_ns(file, r) >= filter->from_ns && trace_begin_ns(file, r) <= filter->to_ns;
}

/* ---- anonymous ---- */

int trace_anonymous;

static int is_address(const char *text, size_t *out_len)
{
	size_t len = strspn(text, "0123456789.");
	unsigned dots = 0;

	for (size_t i = 0; i < len; i++)
		dots += text[i] == '.';
	*out_len = len;
	return dots == 3 && len >= 7;
}

/* The number of an address: the same for the same one. */
static unsigned address_number(const char *text, size_t len)
{
	static char known[64][16];
	static unsigned count;

	for (unsigned i = 0; i < count; i++)
		if (strlen(known[i]) == len && !memcmp(known[i], text, len))
			return i;
	if (count == 64 || len > 15)
		return 99;
	memcpy(known[count], text, len);
	return count++;
}

/* A home folder at the start of a path: the user's own, and others' below /home. */
static size_t home_length(const char *path)
{
	const char *home = getenv("HOME");
	size_t len = home ? strlen(home) : 0;

	if (len > 1 && !strncmp(path, home, len) && path[len] == '/')
		return len;
	return strncmp(path, "/home/", 6) ? 0 : 6 + strcspn(path + 6, "/ ");
}

const char *trace_shown(const char *text, char *buf, size_t cap)
{
	size_t used = 0, len;

	if (!trace_anonymous)
		return text;
	for (const char *at = text; *at && used + 24 < cap;) {
		int start = at == text || strchr(" =/,:[", at[-1]) != NULL;

		if (start && is_address(at, &len)) {
			used += (size_t)snprintf(buf + used, cap - used, "ip%u",
						 address_number(at, len));
			at += len;
		} else if (start && (len = home_length(at))) {
			at += len;
			buf[used++] = '~';
		} else {
			buf[used++] = *at++;
		}
	}
	buf[used] = '\0';
	return buf;
}

/* ---- text ---- */

static void count_calls(const struct trace_file *file, struct call_count counts[TRACE_CALL_COUNT])
{
	for (uint64_t i = 0; i < file->nrecords; i++) {
		struct trace_record r = trace_record_at(file, i);
		double ns = (double)r.duration * file->ns_per_tick;
		struct call_count *c;

		if (r.call >= TRACE_CALL_COUNT || r.flags & TRACE_EMPTY || r.part)
			continue;
		c = &counts[r.call];
		c->calls++;
		c->repeats += r.repeats;
		c->errors += r.result != 0;
		c->total_ns += ns;
		c->most_ns = ns > c->most_ns ? ns : c->most_ns;
	}
}

static void head_text(const struct trace_file *file, FILE *out)
{
	const char *name = trace_context_of(file, "plugin.name");
	const char *version = trace_context_of(file, "plugin.version");
	const char *path = trace_context_of(file, "plugin.path");
	const char *left_out = trace_context_of(file, "plugin.left_out");
	char buf[1024];

	if (file->missing)
		fprintf(out,
			"%" PRIu64 " RECORDS ARE MISSING: nothing is concluded across the gap "
			"(a larger TCPX_TRACE_RECORDS helps)\n",
			file->missing);
	fprintf(out, "# %s: process %u, %" PRIu64 " records, %.3f s, %u threads, clock %s\n",
		trace_shown(file->path, buf, sizeof(buf)), file->header.pid, file->nrecords,
		(double)file->span_ns / 1e9, file->nthreads,
		file->header.flags & TRACE_CLOCK_TSC ? "TSC" : "CLOCK_MONOTONIC");
	if (name)
		fprintf(out, "# plugin: %s, table v%s, %s\n", name, version ? version : "?",
			path ? trace_shown(path, buf, sizeof(buf)) : "");
	if (left_out)
		fprintf(out, "# not traced: %s\n", left_out);
	if (file->stopped == TRACE_READ_MALFORMED)
		fprintf(out, "# the file is damaged after its first %u blocks of records\n",
			file->nblocks);
	else if (!file->ended)
		fprintf(out, "# no end: the process was killed, or runs still\n");
}

static const char *rate_text(const struct trace_end *end, char *buf, size_t cap)
{
	double seconds = (double)(end->last_ns - end->first_ns) / 1e9;

	if (!end->bytes || seconds <= 0)
		return "-";
	snprintf(buf, cap, "%.3f", (double)end->bytes / seconds / 1e9);
	return buf;
}

static void ends_text(const struct trace_file *file, FILE *out)
{
	char nic[80], owner[80], size[BYTES_TEXT_MAX], rate[32], gpu[16];

	fprintf(out, "%-10s %-8s %4s %-8s %9s %9s %9s %9s %8s %9s\n", "comm", "nic", "gpu", "owner",
		"posted", "done", "consumed", "bytes", "GB/s", "since ms");
	for (uint32_t i = 0; i < file->nends; i++) {
		const struct trace_end *end = &file->ends[i];

		if (!end->nevents)
			continue;
		snprintf(gpu, sizeof(gpu), "%d", end->gpu);
		fprintf(out,
			"%-10s %-8s %4s %-8s %9" PRIu64 " %9" PRIu64 " %9" PRIu64
			" %9s %8s %9.3f%s%s%s\n",
			end->name, trace_nic_name(file, end->nic, nic, sizeof(nic)),
			end->gpu < 0 ? "-" : gpu,
			trace_nic_name(file, end->owner, owner, sizeof(owner)), end->posted,
			end->done, end->consumed, bytes_format(end->bytes, size, sizeof(size)),
			rate_text(end, rate, sizeof(rate)), (double)end->first_ns / 1e6,
			end->owner >= 0 && end->owner != end->nic && end->kind != END_SEND
				? "  owner != nic"
				: "",
			end->errors ? "  errors" : "", end->gap ? "  gap" : "");
	}
}

static void calls_text(const struct trace_file *file, FILE *out)
{
	struct call_count counts[TRACE_CALL_COUNT] = {0};

	count_calls(file, counts);
	fprintf(out, "%-14s %10s %12s %8s %12s %12s\n", "call", "calls", "found none", "errors",
		"mean us", "most us");
	for (unsigned i = 1; i < TRACE_CALL_COUNT; i++)
		if (counts[i].calls)
			fprintf(out,
				"%-14s %10" PRIu64 " %12" PRIu64 " %8" PRIu64 " %12.3f %12.3f\n",
				trace_call_name(i), counts[i].calls, counts[i].repeats,
				counts[i].errors,
				counts[i].total_ns / (double)counts[i].calls / 1e3,
				counts[i].most_ns / 1e3);
}

/* The request that waits longest, and its end; NULL: none waits. Of each end the number done tells
 * the first that is not. */
static const struct trace_end *oldest_open(const struct trace_file *file,
					   struct trace_record *out_post)
{
	const struct trace_end *oldest = NULL;

	for (uint32_t i = 0; i < file->nends; i++) {
		const struct trace_end *end = &file->ends[i];

		if (!end->nevents || end->closed || end->done >= end->posted || end->gap)
			continue;
		for (uint32_t k = 0; k < end->nevents; k++) {
			struct trace_record r = trace_record_at(file, end->events[k]);

			if ((r.call != TRACE_ISEND && r.call != TRACE_IRECV) || r.result ||
			    r.flags & TRACE_EMPTY || r.number < end->done)
				continue;
			if (!oldest || r.time < out_post->time) {
				oldest = end;
				*out_post = r;
			}
			break;
		}
	}
	return oldest;
}

void trace_show_text(const struct trace_file *file, FILE *out)
{
	struct trace_record post;
	const struct trace_end *oldest = oldest_open(file, &post);

	head_text(file, out);
	ends_text(file, out);
	fputc('\n', out);
	calls_text(file, out);
	if (oldest)
		fprintf(out,
			"oldest unfinished request: message %" PRIu64 " of %s, %s of %" PRIu64
			" bytes, tag %d, waiting for %.3f s\n",
			post.number, oldest->name, trace_call_name(post.call), post.bytes, post.tag,
			(double)(file->span_ns - trace_begin_ns(file, &post)) / 1e9);
}

static void flags_text(const struct trace_record *r, FILE *out)
{
	static const char *const names[] = {"empty", "done",	"not-head", "UNFINISHED",
					    "early", "unknown", "gpu",	    ""};

	for (unsigned i = 0; i < 8; i++)
		if (r->flags & (1u << i) && *names[i])
			fprintf(out, " %s", names[i]);
}

static void event_line(const struct trace_file *file, const struct trace_record *r, FILE *out)
{
	const struct trace_end *end = trace_end_of(file, r->comm);
	char nic[80];

	fprintf(out, "%12.6f %3u %-10s %-13s", (double)trace_begin_ns(file, r) / 1e6, r->thread,
		end ? end->name : "-", trace_call_name(r->call));
	if (r->call == TRACE_GAP)
		fprintf(out, " %" PRIu64 " records are missing", r->number);
	else if (r->call == TRACE_LISTEN || r->call == TRACE_CONNECT || r->call == TRACE_ACCEPT)
		fprintf(out, " nic %s link %04x", trace_nic_name(file, r->nic, nic, sizeof(nic)),
			(unsigned)(r->number & 0xffff));
	else if (r->call >= TRACE_ISEND && r->call <= TRACE_TEST)
		fprintf(out, " #%" PRIu64 " %" PRIu64 " bytes", r->number, r->bytes);
	else if (r->call == TRACE_CONSUMED)
		fprintf(out, " #%" PRIu64, r->number);
	else if (r->bytes)
		fprintf(out, " %" PRIu64 " bytes", r->bytes);
	if (r->call == TRACE_ISEND || r->call == TRACE_IRECV)
		fprintf(out, " tag %d", r->tag);
	if (r->parts > 1)
		fprintf(out, " part %u/%u", r->part + 1u, r->parts);
	if (r->repeats)
		fprintf(out, " after %u empty", r->repeats);
	flags_text(r, out);
	if (r->result)
		fprintf(out, " RESULT %d", r->result);
	fprintf(out, " %.3f us\n", (double)r->duration * file->ns_per_tick / 1e3);
}

void trace_events_text(const struct trace_file *file, const struct trace_filter *filter, FILE *out)
{
	uint64_t shown = 0, more = 0;

	fprintf(out, "%12s %3s %-10s %s\n", "ms", "thr", "comm", "call");
	for (uint64_t i = 0; i < file->nrecords; i++) {
		struct trace_record r = trace_record_at(file, i);

		if (!trace_filter_passes(file, filter, &r))
			continue;
		if (shown < filter->lines) {
			event_line(file, &r, out);
			shown++;
		} else {
			more++;
		}
	}
	if (more)
		fprintf(out, "... %" PRIu64 " more (--events N)\n", more);
}

/* ---- JSON ---- */

static void end_json(const struct trace_file *file, const struct trace_end *end,
		     struct cli_json *list)
{
	struct cli_json *one = cli_json_object(list, NULL);
	char nic[80], owner[80];

	cli_json_text(one, "comm", end->name);
	cli_json_text(one, "nic", trace_nic_name(file, end->nic, nic, sizeof(nic)));
	cli_json_text(one, "owner", trace_nic_name(file, end->owner, owner, sizeof(owner)));
	if (end->gpu >= 0)
		cli_json_integer(one, "gpu", (uint64_t)end->gpu);
	else
		cli_json_null(one, "gpu");
	cli_json_integer(one, "posted", end->posted);
	cli_json_integer(one, "done", end->done);
	cli_json_integer(one, "consumed", end->consumed);
	cli_json_integer(one, "bytes", end->bytes);
	cli_json_integer(one, "errors", end->errors);
	cli_json_bool(one, "closed", (int)end->closed);
	cli_json_bool(one, "gap", (int)end->gap);
	cli_json_real(one, "first_s", (double)end->first_ns / 1e9);
	cli_json_real(one, "last_s", (double)end->last_ns / 1e9);
}

void trace_show_json(const struct trace_file *file, struct cli_json *json)
{
	struct call_count counts[TRACE_CALL_COUNT] = {0};
	struct cli_json *list, *one;
	char buf[2048];

	cli_json_text(json, "file", trace_shown(file->path, buf, sizeof(buf)));
	cli_json_integer(json, "process", file->header.pid);
	cli_json_integer(json, "records", file->nrecords);
	cli_json_integer(json, "missing", file->missing);
	cli_json_bool(json, "ended", file->ended);
	cli_json_bool(json, "tsc", file->header.flags & TRACE_CLOCK_TSC);
	cli_json_real(json, "seconds", (double)file->span_ns / 1e9);
	list = cli_json_array(json, "comms");
	for (uint32_t i = 0; i < file->nends; i++)
		if (file->ends[i].nevents)
			end_json(file, &file->ends[i], list);
	count_calls(file, counts);
	list = cli_json_array(json, "calls");
	for (unsigned i = 1; i < TRACE_CALL_COUNT; i++) {
		if (!counts[i].calls)
			continue;
		one = cli_json_object(list, NULL);
		cli_json_text(one, "call", trace_call_name(i));
		cli_json_integer(one, "count", counts[i].calls);
		cli_json_integer(one, "empty", counts[i].repeats);
		cli_json_integer(one, "errors", counts[i].errors);
		cli_json_real(one, "mean_us", counts[i].total_ns / (double)counts[i].calls / 1e3);
		cli_json_real(one, "most_us", counts[i].most_ns / 1e3);
	}
	one = cli_json_object(json, "context");
	for (uint32_t i = 0; i < file->ncontext; i++)
		cli_json_text(one, file->context[i].key,
			      trace_shown(file->context[i].value, buf, sizeof(buf)));
}
