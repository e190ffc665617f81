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
	struct trace_record record;
};

/* The next one; it lasts until the next call. NULL: no more. */
static const struct trace_record *walk_next(struct walk *w, int posts)
{
	const struct trace_record *r = &w->record;

	while (w->at < w->end->nevents) {
		int post, done;

		w->record = trace_record_at(w->file, w->end->events[w->at++]);
		post = r->call == TRACE_ISEND || r->call == TRACE_IRECV;
		done = r->call == TRACE_TEST && r->flags & TRACE_DONE && r->tag != TRACE_KIND_FLUSH;
		if (!r->result && !(r->flags & TRACE_EMPTY) && (posts ? post : done))
			return r;
	}
	return NULL;
}

/* The call that gave the end, or 0 if there is none. */
static int setup_of(const struct trace_file *file, const struct trace_end *end, unsigned call,
		    struct trace_record *out_record)
{
	for (uint32_t i = 0; i < end->nevents; i++) {
		*out_record = trace_record_at(file, end->events[i]);
		if (out_record->call == call && out_record->flags & TRACE_DONE)
			return 1;
	}
	return 0;
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
	struct walk sends = {.file = l->files[link->from], .end = link->send};
	struct walk receives = {.file = l->files[link->to], .end = link->receive};
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
		struct trace_record connect, taken, listen;
		int connected = setup_of(l->files[link->from], link->send, TRACE_CONNECT, &connect);

		if (connected && setup_of(l->files[link->to], link->receive, TRACE_ACCEPT, &taken))
			happened(l, link->from, connect.time, link->to,
				 taken.time + taken.duration);
		/* the handle travelled from the listener to the connect */
		for (uint32_t k = 0; connected && k < l->files[link->to]->nends; k++) {
			const struct trace_end *end = &l->files[link->to]->ends[k];

			if (!end->nevents || end->kind != END_LISTEN ||
			    end->link != link->send->link)
				continue;
			if (setup_of(l->files[link->to], end, TRACE_LISTEN, &listen))
				happened(l, link->to, listen.time, link->from,
					 connect.time + connect.duration);
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
	struct walk sends = {.file = l->files[link->from], .end = link->send};
	struct walk receives = {.file = l->files[link->to], .end = link->receive};
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
	struct walk sends = {.file = l->files[link->from], .end = link->send};
	struct walk receives = {.file = l->files[link->to], .end = link->receive};
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
	struct walk sends = {.file = l->files[link->from], .end = link->send};
	uint64_t *bytes = calloc(count + 1, sizeof(*bytes));
	int64_t *done_ns = calloc(count + 1, sizeof(*done_ns));
	const struct trace_record *r;

	while (bytes && done_ns && (r = walk_next(&sends, 1)))
		if (r->number < count)
			bytes[r->number] = r->bytes;
	for (uint32_t i = 0; bytes && done_ns && i < link->receive->nevents; i++) {
		struct trace_record e = trace_record_at(to, link->receive->events[i]);

		if (e.number >= count || e.result)
			continue;
		if (e.call == TRACE_TEST && e.flags & TRACE_DONE && e.tag == TRACE_KIND_RECEIVE)
			done_ns[e.number] = trace_end_ns(to, &e);
		else if (e.call == TRACE_CONSUMED && done_ns[e.number])
			trace_find_early(f, where, trace_begin_ns(to, &e),
					 trace_begin_ns(to, &e) - done_ns[e.number], e.number,
					 bytes[e.number]);
	}
	free(bytes);
	free(done_ns);
}

/* The last call that an end made, for the other end's question. An end of a link has one. */
static struct trace_record last_call(const struct trace_file *file, const struct trace_end *end)
{
	return trace_record_at(file, end->events[end->nevents - 1]);
}

/* How long ago a moment of a file was when the trace of the other end ended. */
static int64_t age_at_end(const struct trace_links *l, unsigned from, uint64_t ticks, unsigned to)
{
	const struct trace_file *file = l->files[to];
	int64_t end_ns = (int64_t)file->header.start.wall_ns + file->span_ns;

	return end_ns - (trace_links_ns(l, from, ticks) + (to ? l->offset_ns : 0));
}

/* The first post from a number on, or 0 if there is none. */
static int post_of(const struct trace_file *file, const struct trace_end *end, uint64_t number,
		   struct trace_record *out_post)
{
	struct walk posts = {.file = file, .end = end};
	const struct trace_record *r;

	while ((r = walk_next(&posts, 1)) && r->number < number)
		continue;
	if (r)
		*out_post = *r;
	return r != NULL;
}

/* Sent long ago and not seen; or waited for and not sent. */
static void lint_lost(const struct trace_links *l, const struct trace_link *link, const char *where,
		      struct trace_findings *f, int64_t older_ns)
{
	const struct trace_file *from = l->files[link->from], *to = l->files[link->to];
	struct trace_record sent, waits, last;
	int is_sent = post_of(from, link->send, link->seen, &sent);
	int is_waiting = post_of(to, link->receive, link->seen, &waits);
	int64_t age = is_sent ? age_at_end(l, link->from, sent.time, link->to) : 0;

	if (is_sent && age >= older_ns) {
		last = last_call(to, link->receive);
		trace_find(f, "T10", "", where, link->receive->last_ns,
			   "the sender posted %" PRIu64 " messages, the receiver saw %" PRIu64
			   "; message %" PRIu64
			   " is under way for %.3f s; the receiver posted %" PRIu64
			   " receives, its last call was %s at %.3f ms",
			   link->sent, link->seen, sent.number, (double)age / 1e9,
			   link->receive->posted, trace_call_name(last.call),
			   (double)trace_end_ns(to, &last) / 1e6);
		return;
	}
	age = is_waiting ? to->span_ns - trace_begin_ns(to, &waits) : 0;
	if (is_sent || !is_waiting || age < older_ns || link->receive->closed)
		return;
	last = last_call(from, link->send);
	trace_find(f, "T10", "", where, trace_begin_ns(to, &waits),
		   "the receiver waits for message %" PRIu64
		   " for %.3f s, the sender posted %" PRIu64 "; its last call was %s at %.3f ms",
		   waits.number, (double)age / 1e9, link->sent, trace_call_name(last.call),
		   (double)trace_end_ns(from, &last) / 1e6);
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
