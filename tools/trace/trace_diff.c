/* SPDX-License-Identifier: Apache-2.0 */
/* Compares two traces, comm by comm, stream by stream. */
#include "trace_diff.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace_pair.h"

#define STREAMS 4u
#define LATE_NS 250000000 /* a pause is late if it is so much longer than the other's ... */
#define LATE_TIMES 8	  /* ... and so many times as long */
#define OLDER_NS 1000000000
#define DEVICES_MAX 256

/* What is compared of an end: each an ordered list of records. */
enum streams { STREAM_SETUP, STREAM_POSTS, STREAM_DONE, STREAM_CONSUMED };

struct stream {
	uint32_t *events; /* indices of records */
	uint32_t count;
};

struct side {
	const struct trace_file *file;
	struct stream (*streams)[STREAMS]; /* by end */
	uint64_t *hashes;		   /* by end */
	uint8_t *taken;
};

struct pairing {
	const struct trace_end *a, *b; /* one may be NULL */
};

struct maker {
	struct side a, b;
	struct pairing *pairs;
	unsigned npairs;
	struct trace_diff *out;
	int failed;
};

const char *trace_diff_section(unsigned section)
{
	static const char *const names[] = {"gap",    "divergence",  "context",
					    "lint",   "environment", "library",
					    "timing", "counter",     "remark"};

	return section < DIFF_SECTIONS ? names[section] : "";
}

static struct diff_item *add_item(struct maker *m, enum diff_sections section, const char *where,
				  int64_t time_ns, const char *what, const char *a, const char *b)
{
	static struct diff_item lost;
	struct trace_diff *out = m->out;
	struct diff_item *more = out->items;

	if (!(out->count & (out->count - 1)))
		more = realloc(out->items, (out->count ? out->count * 2 : 1) * sizeof(*more));
	if (!more) {
		m->failed = 1;
		return &lost;
	}
	out->items = more;
	more = &out->items[out->count++];
	*more = (struct diff_item){.section = section, .doctor = "", .time_ns = time_ns};
	snprintf(more->where, sizeof(more->where), "%s", where);
	text_format(more->what, sizeof(more->what), "%s", what);
	text_format(more->a, sizeof(more->a), "%s", a);
	text_format(more->b, sizeof(more->b), "%s", b);
	out->counts[section]++;
	return more;
}

/* ---- streams ---- */

static int stream_of(const struct trace_record *r)
{
	if (r->flags & (TRACE_EMPTY | TRACE_UNFINISHED))
		return -1;
	switch (r->call) {
	case TRACE_LISTEN:
	case TRACE_CONNECT:
	case TRACE_ACCEPT:
	case TRACE_CLOSE_SEND:
	case TRACE_CLOSE_RECV:
	case TRACE_CLOSE_LISTEN:
		return STREAM_SETUP;
	case TRACE_ISEND:
	case TRACE_IRECV:
		return STREAM_POSTS;
	case TRACE_TEST:
		return r->tag == TRACE_KIND_FLUSH ? -1 : STREAM_DONE;
	case TRACE_CONSUMED:
		return STREAM_CONSUMED;
	case TRACE_STREAM_SEND: /* how many bytes a call moves is timing */
	case TRACE_STREAM_RECV:
		return -1;
	default:
		return r->result ? STREAM_SETUP : -1; /* a registration that failed, say */
	}
}

static int same_event(const struct trace_record *a, const struct trace_record *b)
{
	int setup = stream_of(a) == STREAM_SETUP; /* its numbers are hashes of handles */

	return a->call == b->call && a->result == b->result && a->bytes == b->bytes &&
	       a->tag == b->tag && (setup || a->number == b->number) &&
	       ((a->flags ^ b->flags) & (TRACE_GPU | TRACE_DONE)) == 0 && a->part == b->part &&
	       a->parts == b->parts;
}

static uint64_t mixed(uint64_t hash, uint64_t value)
{
	hash ^= value;
	hash *= 0x9e3779b97f4a7c15u;
	return hash ^ (hash >> 29);
}

static int take_end(struct side *s, const struct trace_end *end, struct stream streams[STREAMS])
{
	uint64_t hash = end->kind;

	for (unsigned k = 0; k < STREAMS; k++) {
		streams[k].events = malloc((end->nevents + 1) * sizeof(uint32_t));
		if (!streams[k].events)
			return -1;
	}
	for (uint32_t i = 0; i < end->nevents; i++) {
		struct trace_record r = trace_record_at(s->file, end->events[i]);
		int k = stream_of(&r);

		if (k >= 0)
			streams[k].events[streams[k].count++] = end->events[i];
	}
	for (unsigned k = 0; k < STREAMS; k++)
		for (uint32_t i = 0; i < streams[k].count; i++) {
			struct trace_record r = trace_record_at(s->file, streams[k].events[i]);

			hash = mixed(hash, r.call | (uint64_t)r.part << 8 |
						   (uint64_t)(uint32_t)r.result << 32);
			hash = mixed(hash, r.bytes);
			hash = mixed(hash, (uint32_t)r.tag);
			hash = mixed(hash, k == STREAM_SETUP ? 0 : r.number);
		}
	s->hashes[end - s->file->ends] = hash;
	return 0;
}

static int side_make(struct side *s, const struct trace_file *file)
{
	s->file = file;
	s->streams = calloc(file->nends + 1, sizeof(*s->streams));
	s->hashes = calloc(file->nends + 1, sizeof(*s->hashes));
	s->taken = calloc(file->nends + 1, 1);
	if (!s->streams || !s->hashes || !s->taken)
		return -1;
	for (uint32_t i = 0; i < file->nends; i++)
		if (file->ends[i].nevents && take_end(s, &file->ends[i], s->streams[i]))
			return -1;
	return 0;
}

static void side_free(struct side *s)
{
	for (uint32_t i = 0; s->streams && i < s->file->nends; i++)
		for (unsigned k = 0; k < STREAMS; k++)
			free(s->streams[i][k].events);
	free(s->streams);
	free(s->hashes);
	free(s->taken);
}

/* ---- which end is which ---- */

static void pair_up(struct maker *m, const struct trace_end *a, const struct trace_end *b)
{
	m->pairs[m->npairs++] = (struct pairing){a, b};
	if (a)
		m->a.taken[a - m->a.file->ends] = 1;
	if (b)
		m->b.taken[b - m->b.file->ends] = 1;
}

/* Equal ones first, for threads make comms in any order; then by appearance. */
static void pair_ends(struct maker *m)
{
	const struct trace_file *a = m->a.file, *b = m->b.file;

	for (int equal = 1; equal >= 0; equal--)
		for (uint32_t i = 0; i < a->nends; i++) {
			uint32_t found = b->nends;

			if (!a->ends[i].nevents || m->a.taken[i])
				continue;
			for (uint32_t k = 0; k < b->nends && found == b->nends; k++)
				if (b->ends[k].nevents && !m->b.taken[k] &&
				    b->ends[k].kind == a->ends[i].kind &&
				    (!equal || m->a.hashes[i] == m->b.hashes[k]))
					found = k;
			if (found < b->nends)
				pair_up(m, &a->ends[i], &b->ends[found]);
			else if (!equal)
				pair_up(m, &a->ends[i], NULL);
		}
	for (uint32_t k = 0; k < b->nends; k++)
		if (b->ends[k].nevents && !m->b.taken[k])
			pair_up(m, NULL, &b->ends[k]);
}

/* ---- calls ---- */

static void event_text(const struct trace_file *file, const struct trace_record *r, char *buf,
		       size_t cap)
{
	size_t len;

	switch (stream_of(r)) {
	case STREAM_SETUP:
		len = text_format(buf, cap, "%s", trace_call_name(r->call));
		break;
	case STREAM_POSTS:
		len = text_format(buf, cap, "%" PRIu64 " bytes, tag %d%s", r->bytes, r->tag,
				  r->flags & TRACE_GPU ? ", GPU memory" : "");
		break;
	case STREAM_DONE:
		len = text_format(buf, cap, "message %" PRIu64 " done", r->number);
		if (r->bytes)
			len += text_format(buf + len, cap - len, ", %" PRIu64 " bytes", r->bytes);
		break;
	default:
		len = text_format(buf, cap, "message %" PRIu64, r->number);
	}
	if (r->result)
		len += text_format(buf + len, cap - len, ", result %d", r->result);
	text_format(buf + len, cap - len, ", %.3f ms", (double)trace_end_ns(file, r) / 1e6);
}

static uint64_t open_requests(const struct trace_end *end)
{
	return end->posted > end->done ? end->posted - end->done : 0;
}

/* Why an end has no further event; "" if it ended as one that is done with its work. */
static void ending_of(const struct side *s, const struct trace_end *end, char *buf, size_t cap)
{
	const struct trace_file *file = s->file;

	*buf = '\0';
	for (uint32_t i = 0; i < end->nevents; i++) {
		struct trace_record r = trace_record_at(file, end->events[i]);

		if (end->kind >= END_OUT)
			return;
		if (r.flags & TRACE_UNFINISHED) {
			text_format(buf, cap, "never: the process ended in %s after %.3f ms",
				    trace_call_name(r.call), (double)trace_end_ns(file, &r) / 1e6);
			return;
		}
		if (r.result) {
			text_format(buf, cap, "never: %s answered %d", trace_call_name(r.call),
				    r.result);
			return;
		}
	}
	if (open_requests(end) && (!end->closed || !file->ended))
		text_format(buf, cap,
			    "never: the process %s after %.3f ms, requests open: %" PRIu64,
			    file->ended ? "ended" : "was killed", (double)file->span_ns / 1e6,
			    open_requests(end));
	else if (open_requests(end))
		text_format(buf, cap, "never: the comm was closed, requests open: %" PRIu64,
			    open_requests(end));
	else if (end->kind == END_RECEIVE && end->consumed && end->consumed < end->done)
		text_format(buf, cap, "never: %" PRIu64 " of %" PRIu64 " messages were consumed",
			    end->consumed, end->done);
}

static const char *stream_call(unsigned k, const struct trace_end *end)
{
	static const char *const names[] = {"setup", "", "test", "irecvConsumed"};

	return k == STREAM_POSTS ? (end->kind == END_SEND ? "isend" : "irecv") : names[k];
}

/* Reads a stream's event `at` into *out_record and describes it in buf. 0: the stream is shorter,
 * and buf says why the end has no further event. */
static int event_at(const struct side *s, const struct trace_end *end, const struct stream *stream,
		    uint32_t at, struct trace_record *out_record, char *buf, size_t cap)
{
	if (at >= stream->count) {
		ending_of(s, end, buf, cap);
		return 0;
	}
	*out_record = trace_record_at(s->file, stream->events[at]);
	event_text(s->file, out_record, buf, cap);
	return 1;
}

/* The streams differ at a place, or one is shorter. 1: said as a divergence. */
static int say_stream(struct maker *m, const struct pairing *p, unsigned k, uint32_t at)
{
	const struct stream *a = &m->a.streams[p->a - m->a.file->ends][k];
	const struct stream *b = &m->b.streams[p->b - m->b.file->ends][k];
	char what[160], ta[240], tb[240];
	struct trace_record ra, rb;
	int in_a = event_at(&m->a, p->a, a, at, &ra, ta, sizeof(ta));
	int in_b = event_at(&m->b, p->b, b, at, &rb, tb, sizeof(tb));
	const struct trace_record *r = in_a ? &ra : &rb;
	enum diff_sections section = DIFF_DIVERGENCE;

	if (!in_a && !in_b)
		return 0;
	if (k == STREAM_SETUP && !*(in_a ? tb : ta))
		text_format(in_a ? tb : ta, sizeof(ta), "never: the process %s after %.3f ms",
			    (in_a ? m->b.file : m->a.file)->ended ? "ended" : "was killed",
			    (double)(in_a ? m->b.file : m->a.file)->span_ns / 1e6);
	if (!in_a && !*ta) {
		text_format(ta, sizeof(ta), "no more: %" PRIu64 " messages", p->a->posted);
		section = DIFF_REMARK;
	} else if (!in_b && !*tb) {
		text_format(tb, sizeof(tb), "no more: %" PRIu64 " messages", p->b->posted);
		section = DIFF_REMARK;
	}
	if (k == STREAM_SETUP)
		text_format(what, sizeof(what), "%s", trace_call_name(r->call));
	else
		text_format(what, sizeof(what), "%s of message %" PRIu64, stream_call(k, p->a),
			    r->number);
	add_item(m, section, p->a->name, trace_end_ns(in_a ? m->a.file : m->b.file, r), what, ta,
		 tb);
	return section == DIFF_DIVERGENCE;
}

static int says_end(const struct side *s, const struct trace_end *end)
{
	char text[240];

	ending_of(s, end, text, sizeof(text));
	return *text != '\0';
}

static void compare_streams(struct maker *m, const struct pairing *p)
{
	for (unsigned k = 0; k < STREAMS; k++) {
		const struct stream *a = &m->a.streams[p->a - m->a.file->ends][k];
		const struct stream *b = &m->b.streams[p->b - m->b.file->ends][k];
		uint32_t at = 0, both = a->count < b->count ? a->count : b->count;

		for (; at < both; at++) {
			struct trace_record ra = trace_record_at(m->a.file, a->events[at]);
			struct trace_record rb = trace_record_at(m->b.file, b->events[at]);

			if (!same_event(&ra, &rb))
				break;
		}
		m->out->same_calls += at;
		if (at == a->count && at == b->count)
			continue;
		/* a comm that was not closed: its requests tell why */
		if (k == STREAM_SETUP && at == both && at &&
		    (says_end(&m->a, p->a) || says_end(&m->b, p->b)))
			continue;
		say_stream(m, p, k, at);
	}
}

static void compare_gone(struct maker *m, const struct pairing *p)
{
	const struct trace_end *end = p->a ? p->a : p->b;
	char text[240];

	text_format(text, sizeof(text), "%" PRIu64 " messages, since %.3f ms", end->posted,
		    (double)end->first_ns / 1e6);
	add_item(m, DIFF_DIVERGENCE, end->name, end->first_ns, "the comm", p->a ? text : "none",
		 p->b ? text : "none");
}

/* ---- devices ---- */

static const char *paired_text(const struct trace_end *end)
{
	if (end->owner == TRACE_DEV_UNKNOWN || end->nic == TRACE_DEV_UNKNOWN)
		return "unknown";
	return end->owner == end->nic ? "owner = nic" : "owner != nic";
}

static void device_text(const struct trace_file *file, const struct trace_end *end, char *buf,
			size_t cap)
{
	char nic[80], owner[80];

	text_format(buf, cap, "nic %s gpu %d owner %s, %s",
		    trace_nic_name(file, end->nic, nic, sizeof(nic)), end->gpu,
		    trace_nic_name(file, end->owner, owner, sizeof(owner)), paired_text(end));
}

/* 1: the names of a device in the two runs contradict what was seen before. */
static int renamed(int map[DEVICES_MAX], int back[DEVICES_MAX], int a, int b)
{
	if (a < 0 || b < 0 || a >= DEVICES_MAX || b >= DEVICES_MAX)
		return (a < 0) != (b < 0);
	if (map[a] < 0 && back[b] < 0) {
		map[a] = b;
		back[b] = a;
	}
	return map[a] != b || back[b] != a;
}

static void compare_devices(struct maker *m)
{
	int maps[4][DEVICES_MAX];

	memset(maps, 0xff, sizeof(maps));
	for (unsigned i = 0; i < m->npairs; i++) {
		const struct pairing *p = &m->pairs[i];
		const char *paired_a, *paired_b;
		char a[240], b[240];
		int other;

		if (!p->a || !p->b || p->a->gap || p->b->gap)
			continue;
		other = renamed(maps[0], maps[1], p->a->nic, p->b->nic) |
			renamed(maps[2], maps[3], p->a->gpu, p->b->gpu);
		/* sending may use any NIC */
		paired_a = p->a->kind == END_SEND ? "" : paired_text(p->a);
		paired_b = p->b->kind == END_SEND ? "" : paired_text(p->b);
		if (!other && !strcmp(paired_a, paired_b))
			continue;
		device_text(m->a.file, p->a, a, sizeof(a));
		device_text(m->b.file, p->b, b, sizeof(b));
		add_item(m, DIFF_CONTEXT, p->a->name, p->a->first_ns,
			 other ? "another device" : "owner of the GPU", a, b)
			->doctor = strcmp(paired_a, paired_b) ? "D01" : "";
	}
}

/* ---- timing ---- */

static void compare_pauses(struct maker *m, const struct pairing *p, unsigned k)
{
	const struct stream *a = &m->a.streams[p->a - m->a.file->ends][k];
	const struct stream *b = &m->b.streams[p->b - m->b.file->ends][k];
	int64_t last_a = 0, last_b = 0, most = 0;
	char what[160], ta[240], tb[240];
	struct trace_record worst;
	int64_t worst_a = 0, worst_b = 0;

	for (uint32_t i = 0; i < a->count && i < b->count; i++) {
		struct trace_record ra = trace_record_at(m->a.file, a->events[i]);
		struct trace_record rb = trace_record_at(m->b.file, b->events[i]);
		int64_t ea = trace_end_ns(m->a.file, &ra), eb = trace_end_ns(m->b.file, &rb);
		int64_t pause_a = ea - last_a, pause_b = eb - last_b;
		int64_t more = llabs(pause_a - pause_b);
		int64_t less = pause_a < pause_b ? pause_a : pause_b;

		if (i && more > most && more > LATE_NS && more > less * LATE_TIMES) {
			most = more;
			worst = ra;
			worst_a = pause_a;
			worst_b = pause_b;
		}
		last_a = ea;
		last_b = eb;
	}
	if (!most)
		return;
	if (k == STREAM_SETUP)
		text_format(what, sizeof(what), "before %s ended", trace_call_name(worst.call));
	else
		text_format(what, sizeof(what), "before %s of message %" PRIu64,
			    stream_call(k, p->a), worst.number);
	text_format(ta, sizeof(ta), "%.3f ms", (double)worst_a / 1e6);
	text_format(tb, sizeof(tb), "%.3f ms", (double)worst_b / 1e6);
	add_item(m, DIFF_TIMING, p->a->name, trace_end_ns(m->a.file, &worst), what, ta, tb);
}

/* ---- context ---- */

static int is_key(const char *key, const char *start)
{
	return !strncmp(key, start, strlen(start));
}

static int before_in_file(const struct trace_file *file, uint32_t index)
{
	for (uint32_t i = 0; i < index; i++)
		if (!strcmp(file->context[i].key, file->context[index].key))
			return 1;
	return 0;
}

/* Variables of the one and not of the other, or with another value. */
static void compare_environment(struct maker *m)
{
	const struct trace_file *a = m->a.file, *b = m->b.file;

	for (uint32_t i = 0; i < a->ncontext; i++) {
		const char *other;

		if (!is_key(a->context[i].key, "env.") || before_in_file(a, i))
			continue;
		other = trace_context_of(b, a->context[i].key);
		if (!other || strcmp(other, a->context[i].value) != 0)
			add_item(m, DIFF_ENVIRONMENT, "", 0, a->context[i].key + 4,
				 a->context[i].value, other ? other : "(not set)");
	}
	for (uint32_t i = 0; i < b->ncontext; i++)
		if (is_key(b->context[i].key, "env.") && !before_in_file(b, i) &&
		    !trace_context_of(a, b->context[i].key))
			add_item(m, DIFF_ENVIRONMENT, "", 0, b->context[i].key + 4, "(not set)",
				 b->context[i].value);
}

/* The build id of an object of the same file name; NULL: it is not loaded there. */
static const char *library_of(const struct trace_file *file, const char *base)
{
	for (uint32_t i = 0; i < file->ncontext; i++) {
		const char *slash = strrchr(file->context[i].key, '/');

		if (is_key(file->context[i].key, "lib.") && slash && !strcmp(slash + 1, base))
			return file->context[i].value;
	}
	return NULL;
}

static void compare_libraries(struct maker *m, const struct trace_file *a,
			      const struct trace_file *b, int swapped)
{
	for (uint32_t i = 0; i < a->ncontext; i++) {
		const char *slash = strrchr(a->context[i].key, '/'), *other;
		const char *mine = a->context[i].value;

		if (!is_key(a->context[i].key, "lib.") || !slash || before_in_file(a, i))
			continue;
		other = library_of(b, slash + 1);
		if (other && (swapped || !strcmp(other, mine)))
			continue;
		if (!*mine)
			mine = "(no build id)";
		if (!other)
			other = "(not loaded)";
		add_item(m, DIFF_LIBRARY, "", 0, slash + 1, swapped ? other : mine,
			 swapped ? mine : other);
	}
}

/* How far a counter rose; -1: not counted. */
static int64_t counted(const struct trace_file *file, const char *rest)
{
	char key[256];
	const char *start, *end;

	snprintf(key, sizeof(key), "counter.start.%s", rest);
	start = trace_context_of(file, key);
	snprintf(key, sizeof(key), "counter.end.%s", rest);
	end = trace_context_of(file, key);
	if (!end)
		return -1;
	return (int64_t)(strtoull(end, NULL, 10) - (start ? strtoull(start, NULL, 10) : 0));
}

/* Counters of GPU packets that rose in the one run and stood still in the other. */
static void compare_counters(struct maker *m)
{
	const struct trace_file *files[] = {m->a.file, m->b.file};

	for (unsigned side = 0; side < 2; side++)
		for (uint32_t i = 0; i < files[side]->ncontext; i++) {
			const char *key = files[side]->context[i].key, *rest;
			int64_t a, b;
			char ta[48], tb[48];

			if (!is_key(key, "counter.end.") || !strstr(key, "devmem") ||
			    before_in_file(files[side], i))
				continue;
			rest = key + strlen("counter.end.");
			a = counted(m->a.file, rest);
			b = counted(m->b.file, rest);
			if ((a > 0) == (b > 0) || (side && a >= 0))
				continue;
			snprintf(ta, sizeof(ta), "+%" PRId64, a < 0 ? 0 : a);
			snprintf(tb, sizeof(tb), "+%" PRId64, b < 0 ? 0 : b);
			add_item(m, DIFF_COUNTER, "", 0, rest, ta, tb);
		}
}

/* ---- lint ---- */

static int has_rule(const struct trace_findings *f, const char *rule)
{
	for (unsigned i = 0; i < f->count; i++)
		if (!strcmp(f->list[i].rule, rule))
			return 1;
	return 0;
}

/* With the rules over both ends, where both are in the trace. */
static void lint_all(struct maker *m, const struct trace_file *file, struct trace_findings *f)
{
	struct trace_links links;

	trace_lint(file, OLDER_NS, f);
	if (trace_links_find(file, NULL, &links))
		m->failed = 1;
	else
		trace_links_lint(&links, f);
	trace_links_free(&links);
}

static void compare_lint(struct maker *m)
{
	struct trace_findings *f;

	if (m->a.file->missing || m->b.file->missing)
		return; /* a finding may be among what the other lost */
	f = calloc(2, sizeof(*f));
	if (!f) {
		m->failed = 1;
		return;
	}
	lint_all(m, m->a.file, &f[0]);
	lint_all(m, m->b.file, &f[1]);
	for (unsigned side = 0; side < 2; side++)
		for (unsigned i = 0; i < f[side].count; i++) {
			const struct trace_finding *found = &f[side].list[i];

			if (has_rule(&f[!side], found->rule) || !strcmp(found->rule, "T12"))
				continue;
			add_item(m, DIFF_LINT, found->where, found->time_ns, found->rule,
				 side ? "" : found->text, side ? found->text : "")
				->doctor = found->doctor;
		}
	free(f);
}

/* ---- all of it ---- */

static int by_section(const void *x, const void *y)
{
	const struct diff_item *a = x, *b = y;

	if (a->section != b->section)
		return a->section < b->section ? -1 : 1;
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return strcmp(a->what, b->what);
}

static void compare_pairs(struct maker *m)
{
	for (unsigned i = 0; i < m->npairs; i++) {
		const struct pairing *p = &m->pairs[i];

		if (!p->a || !p->b) {
			if (!m->a.file->missing && !m->b.file->missing)
				compare_gone(m, p);
			continue;
		}
		if (p->a->gap || p->b->gap) {
			add_item(m, DIFF_GAP, p->a->name, 0, "not compared: records are missing",
				 p->a->gap ? "gap" : "whole", p->b->gap ? "gap" : "whole");
			continue;
		}
		compare_streams(m, p);
		for (unsigned k = 0; k < STREAMS; k++)
			compare_pauses(m, p, k);
	}
}

int trace_diff_make(const struct trace_file *a, const struct trace_file *b, struct trace_diff *out)
{
	struct maker m = {.out = out};

	*out = (struct trace_diff){0};
	m.pairs = calloc((size_t)a->nends + b->nends + 1, sizeof(*m.pairs));
	m.failed = !m.pairs || side_make(&m.a, a) || side_make(&m.b, b);
	if (!m.failed) {
		pair_ends(&m);
		compare_pairs(&m);
		compare_devices(&m);
		compare_lint(&m);
		compare_environment(&m);
		compare_libraries(&m, a, b, 0);
		compare_libraries(&m, b, a, 1);
		compare_counters(&m);
	}
	side_free(&m.a);
	side_free(&m.b);
	free(m.pairs);
	if (m.failed)
		return -1;
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), by_section);
	out->diverged =
		out->counts[DIFF_DIVERGENCE] || out->counts[DIFF_CONTEXT] || out->counts[DIFF_LINT];
	return 0;
}

void trace_diff_free(struct trace_diff *diff)
{
	free(diff->items);
	diff->items = NULL;
	diff->count = 0;
}
