/* SPDX-License-Identifier: Apache-2.0 */
/* Matches the ends of connections by the hash of the handle, messages by their order. */
#include "trace_pair.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A walk over the records of an end that tell of messages. */
struct walk {
	const struct trace_file *file;
	const struct trace_end *end;
	uint32_t at;
};

static const struct trace_record *walk_next(struct walk *w, int posts)
{
	while (w->at < w->end->nevents) {
		const struct trace_record *r = &w->file->records[w->end->events[w->at++]];
		int post = r->call == TRACE_ISEND || r->call == TRACE_IRECV;
		int done = r->call == TRACE_TEST && r->flags & TRACE_DONE &&
			   r->tag != TRACE_KIND_FLUSH;

		if (!r->result && !(r->flags & TRACE_EMPTY) && (posts ? post : done))
			return r;
	}
	return NULL;
}

static const struct trace_record *setup_of(const struct trace_file *file,
					   const struct trace_end *end, unsigned call)
{
	for (uint32_t i = 0; i < end->nevents; i++) {
		const struct trace_record *r = &file->records[end->events[i]];

		if (r->call == call && r->flags & TRACE_DONE)
			return r;
	}
	return NULL;
}

static int add_link(struct trace_links *l, unsigned from, const struct trace_end *send, unsigned to,
		    const struct trace_end *receive)
{
	struct trace_link *more = realloc(l->list, (l->count + 1) * sizeof(*more));

	if (!more)
		return -1;
	l->list = more;
	l->list[l->count++] = (struct trace_link){.send = send,
						  .receive = receive,
						  .from = from,
						  .to = to,
						  .sent = send->posted,
						  .seen = receive->done};
	return 0;
}

/* The n-th receive end of a handle's hash. */
static const struct trace_end *receive_of(const struct trace_file *file, uint64_t link, unsigned n)
{
	for (uint32_t i = 0; i < file->nends; i++)
		if (file->ends[i].nevents && file->ends[i].kind == END_RECEIVE &&
		    file->ends[i].link == link && !n--)
			return &file->ends[i];
	return NULL;
}

static int match_ends(struct trace_links *l, unsigned from, unsigned to)
{
	const struct trace_file *a = l->files[from], *b = l->files[to];

	for (uint32_t i = 0; i < a->nends; i++) {
		const struct trace_end *send = &a->ends[i], *receive;
		unsigned before = 0;

		if (!send->nevents || send->kind != END_SEND || !send->link)
			continue;
		for (uint32_t k = 0; k < i; k++)
			before += a->ends[k].nevents && a->ends[k].kind == END_SEND &&
				  a->ends[k].link == send->link;
		receive = receive_of(b, send->link, before);
		if (receive && add_link(l, from, send, to, receive))
			return -1;
	}
	return 0;
}

/* ---- clocks ---- */

static void bound_low(struct trace_links *l, int64_t ns)
{
	if (!(l->bounded & 1) || ns > l->low_ns)
		l->low_ns = ns;
	l->bounded |= 1;
}

static void bound_high(struct trace_links *l, int64_t ns)
{
	if (!(l->bounded & 2) || ns < l->high_ns)
		l->high_ns = ns;
	l->bounded |= 2;
}

/* before (of file from) happened before after (of file to). */
static void happened(struct trace_links *l, unsigned from, uint64_t before, unsigned to,
		     uint64_t after)
{
	int64_t earlier = trace_wall_ns(l->files[from], before);
	int64_t later = trace_wall_ns(l->files[to], after);

	if (from == to)
		return;
	if (from == 0)
		bound_high(l, later - earlier);
	else
		bound_low(l, earlier - later);
}

static void bound_by_messages(struct trace_links *l, const struct trace_link *link)
{
	struct walk sends = {l->files[link->from], link->send, 0};
	struct walk receives = {l->files[link->to], link->receive, 0};
	const struct trace_record *sent, *seen;

	while ((sent = walk_next(&sends, 1)) && (seen = walk_next(&receives, 0))) {
		while (seen && seen->part)
			seen = walk_next(&receives, 0);
		if (seen && seen->number == sent->number)
			happened(l, link->from, sent->time, link->to, seen->time + seen->duration);
	}
}

static void find_offset(struct trace_links *l)
{
	for (unsigned i = 0; i < l->count; i++) {
		const struct trace_link *link = &l->list[i];
		const struct trace_record *connect =
			setup_of(l->files[link->from], link->send, TRACE_CONNECT);
		const struct trace_record *taken =
			setup_of(l->files[link->to], link->receive, TRACE_ACCEPT);

		if (connect && taken)
			happened(l, link->from, connect->time, link->to,
				 taken->time + taken->duration);
		/* the handle travelled from the listener to the connect */
		for (uint32_t k = 0; connect && k < l->files[link->to]->nends; k++) {
			const struct trace_end *end = &l->files[link->to]->ends[k];
			const struct trace_record *listen;

			if (!end->nevents || end->kind != END_LISTEN ||
			    end->link != link->send->link)
				continue;
			listen = setup_of(l->files[link->to], end, TRACE_LISTEN);
			if (listen)
				happened(l, link->to, listen->time, link->from,
					 connect->time + connect->duration);
		}
		bound_by_messages(l, link);
	}
	l->contradiction = l->bounded == 3 && l->low_ns > l->high_ns;
	if (l->contradiction)
		l->offset_ns = l->low_ns / 2 + l->high_ns / 2;
	else if (l->bounded & 1 && l->low_ns > 0)
		l->offset_ns = l->low_ns;
	else if (l->bounded & 2 && l->high_ns < 0)
		l->offset_ns = l->high_ns;
}

int trace_links_find(const struct trace_file *first, const struct trace_file *second,
		     struct trace_links *out)
{
	*out = (struct trace_links){.files = {first, second}};
	if (match_ends(out, 0, 0))
		return -1;
	if (second && (match_ends(out, 0, 1) || match_ends(out, 1, 0) || match_ends(out, 1, 1)))
		return -1;
	if (second)
		find_offset(out);
	return 0;
}

void trace_links_free(struct trace_links *links)
{
	free(links->list);
	links->list = NULL;
	links->count = 0;
}

int64_t trace_links_ns(const struct trace_links *l, unsigned file, uint64_t ticks)
{
	return trace_wall_ns(l->files[file], ticks) - (file ? l->offset_ns : 0);
}

/* ---- rules ---- */

static void where_of_link(const struct trace_link *link, char *buf, size_t cap)
{
	snprintf(buf, cap, "%s -> %s", link->send->name, link->receive->name);
}

static void compare_posts(const struct trace_links *l, const struct trace_link *link,
			  const char *where, struct trace_findings *f)
{
	struct walk sends = {l->files[link->from], link->send, 0};
	struct walk receives = {l->files[link->to], link->receive, 0};
	const struct trace_record *a, *b;

	if (link->receive->nevents && link->send->nevents)
		while ((a = walk_next(&sends, 1)) && (b = walk_next(&receives, 1))) {
			int64_t ns = trace_begin_ns(l->files[link->to], b);

			if (b->parts > 1 || a->number != b->number)
				return; /* tags choose among the parts of a group */
			if (a->bytes > b->bytes)
				trace_find(f, "T05", "", where, ns,
					   "message %" PRIu64 ": %" PRIu64
					   " bytes are sent, %" PRIu64
					   " are expected: the receive's buffer is overrun",
					   a->number, a->bytes, b->bytes);
			else if (a->tag != b->tag)
				trace_find(f, "T05", "", where, ns,
					   "message %" PRIu64
					   " is sent with tag %d and received with tag %d: "
					   "the two ends post in different orders",
					   a->number, a->tag, b->tag);
		}
}

static void compare_sizes(const struct trace_links *l, const struct trace_link *link,
			  const char *where, struct trace_findings *f)
{
	struct walk sends = {l->files[link->from], link->send, 0};
	struct walk receives = {l->files[link->to], link->receive, 0};
	const struct trace_record *a, *b;

	while ((a = walk_next(&sends, 1)) && (b = walk_next(&receives, 0)))
		if (b->parts == 1 && b->bytes && a->number == b->number && a->bytes != b->bytes)
			trace_find(f, "T05", "", where, trace_end_ns(l->files[link->to], b),
				   "message %" PRIu64 ": %" PRIu64 " bytes were sent, %" PRIu64
				   " arrived",
				   a->number, a->bytes, b->bytes);
}

/* Messages consumed too early: the sender tells how long they are. */
static void lint_early(const struct trace_links *l, const struct trace_link *link,
		       const char *where, struct trace_findings *f)
{
	const struct trace_file *to = l->files[link->to];
	uint64_t count = link->sent < link->receive->nevents ? link->sent : link->receive->nevents;
	struct walk sends = {l->files[link->from], link->send, 0};
	uint64_t *bytes = calloc(count + 1, sizeof(*bytes));
	int64_t *done_ns = calloc(count + 1, sizeof(*done_ns));
	const struct trace_record *r;

	while (bytes && done_ns && (r = walk_next(&sends, 1)))
		if (r->number < count)
			bytes[r->number] = r->bytes;
	for (uint32_t i = 0; bytes && done_ns && i < link->receive->nevents; i++) {
		r = &to->records[link->receive->events[i]];
		if (r->number >= count || r->result)
			continue;
		if (r->call == TRACE_TEST && r->flags & TRACE_DONE && r->tag == TRACE_KIND_RECEIVE)
			done_ns[r->number] = trace_end_ns(to, r);
		else if (r->call == TRACE_CONSUMED && done_ns[r->number])
			trace_find_early(f, where, trace_begin_ns(to, r),
					 trace_begin_ns(to, r) - done_ns[r->number], r->number,
					 bytes[r->number]);
	}
	free(bytes);
	free(done_ns);
}

/* The last call that an end made, for the other end's question. */
static const struct trace_record *last_call(const struct trace_file *file,
					    const struct trace_end *end)
{
	return end->nevents ? &file->records[end->events[end->nevents - 1]] : NULL;
}

/* How long ago a moment of a file was when the trace of the other end ended. */
static int64_t age_at_end(const struct trace_links *l, unsigned from, uint64_t ticks, unsigned to)
{
	const struct trace_file *file = l->files[to];
	int64_t end_ns = (int64_t)file->header.start.wall_ns + file->span_ns;

	return end_ns - (trace_links_ns(l, from, ticks) + (to ? l->offset_ns : 0));
}

static const struct trace_record *post_of(const struct trace_file *file,
					  const struct trace_end *end, uint64_t number)
{
	struct walk posts = {file, end, 0};
	const struct trace_record *r;

	while ((r = walk_next(&posts, 1)) && r->number < number)
		continue;
	return r;
}

/* Sent long ago and not seen; or waited for and not sent. */
static void lint_lost(const struct trace_links *l, const struct trace_link *link, const char *where,
		      struct trace_findings *f, int64_t older_ns)
{
	const struct trace_file *from = l->files[link->from], *to = l->files[link->to];
	const struct trace_record *sent = post_of(from, link->send, link->seen);
	const struct trace_record *waits = post_of(to, link->receive, link->seen);
	const struct trace_record *last;
	int64_t age = sent ? age_at_end(l, link->from, sent->time, link->to) : 0;

	if (sent && age >= older_ns) {
		last = last_call(to, link->receive);
		trace_find(f, "T10", "", where, link->receive->last_ns,
			   "the sender posted %" PRIu64 " messages, the receiver saw %" PRIu64
			   "; message %" PRIu64
			   " is under way for %.3f s; the receiver posted %" PRIu64
			   " receives, its last call was %s at %.3f ms",
			   link->sent, link->seen, sent->number, (double)age / 1e9,
			   link->receive->posted, trace_call_name(last->call),
			   (double)trace_end_ns(to, last) / 1e6);
		return;
	}
	age = waits ? to->span_ns - trace_begin_ns(to, waits) : 0;
	if (sent || !waits || age < older_ns || link->receive->closed)
		return;
	last = last_call(from, link->send);
	trace_find(f, "T10", "", where, trace_begin_ns(to, waits),
		   "the receiver waits for message %" PRIu64
		   " for %.3f s, the sender posted %" PRIu64 "; its last call was %s at %.3f ms",
		   waits->number, (double)age / 1e9, link->sent, trace_call_name(last->call),
		   (double)trace_end_ns(from, last) / 1e6);
}

void trace_links_lint(const struct trace_links *l, struct trace_findings *f)
{
	const int64_t older_ns = 1000000000;
	char where[64];

	for (unsigned i = 0; i < l->count; i++) {
		const struct trace_link *link = &l->list[i];

		if (link->send->gap || link->receive->gap)
			continue;
		where_of_link(link, where, sizeof(where));
		compare_posts(l, link, where, f);
		compare_sizes(l, link, where, f);
		lint_lost(l, link, where, f, older_ns);
		if (link->receive->gpu_memory)
			lint_early(l, link, where, f);
	}
	if (l->contradiction)
		trace_find(f, "T12", "", "clocks", 0,
			   "no offset of the two clocks suits all calls (%.3f to %.3f ms): one of "
			   "them "
			   "was set during the run",
			   (double)l->low_ns / 1e6, (double)l->high_ns / 1e6);
}
