/* SPDX-License-Identifier: Apache-2.0 */
/* The lessons of earlier failures as rules over one trace. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace_find.h"

#define HOT_CALLS 1000u	 /* retries of a setup ... */
#define HOT_RATE 20000.0 /* ... so many in a second are a hot loop */
#define REGISTERED 16u	 /* registrations of a comm ... */
#define RING 16u	 /* bounce slots of a comm with a device queue */
#define CONSUME_NS 1000	 /* no kernel or copy engine starts and is seen to end in less ... */
#define CONSUME_RATE 64	 /* ... and no CPU copies more bytes in a nanosecond */

static const struct trace_rule rules[] = {
	{"T01", "a received message is done and never consumed"},
	{"T02", "a request is tested while an older one of its comm is not done"},
	{"T03", "a message is consumed before its copy can be over"},
	{"T04", "a tag or a listen comm is used again"},
	{"T05", "the two ends differ in size or order of messages"},
	{"T06", "connect or accept is retried in a hot loop"},
	{"T07", "memory is registered per transfer"},
	{"T08", "listen and connect use different devices, or the GPU changes between them"},
	{"T09", "the GPU receives through a NIC that is not its own"},
	{"T10", "a request waits"},
	{"T11", "a call failed"},
	{"T12", "records are missing"},
	{"T13", "the process ended inside a call"},
	{"T14", "a message is larger than the plugin's chunk"},
};

const struct trace_rule *trace_rule(unsigned index)
{
	return index < sizeof(rules) / sizeof(rules[0]) ? &rules[index] : NULL;
}

void trace_find(struct trace_findings *f, const char *rule, const char *doctor, const char *where,
		int64_t time_ns, const char *format, ...)
{
	struct trace_finding *found;
	va_list args;

	for (unsigned i = 0; i < f->count; i++) {
		if (strcmp(f->list[i].rule, rule) != 0 || strcmp(f->list[i].where, where) != 0)
			continue;
		f->list[i].cases++;
		return;
	}
	if (f->count == TRACE_FINDINGS_MAX) {
		f->left_out++;
		return;
	}
	found = &f->list[f->count++];
	*found = (struct trace_finding){
		.rule = rule, .doctor = doctor, .time_ns = time_ns, .cases = 1};
	snprintf(found->where, sizeof(found->where), "%s", where);
	va_start(args, format);
	text_vformat(found->text, sizeof(found->text), format, args);
	va_end(args);
}

/* What is known of one request of an end. */
struct request {
	int64_t posted_ns, done_ns, last_test_ns;
	uint64_t bytes, tests;
	int tag;
	uint8_t posted, done, consumed, refused, told; /* told: bytes is what arrived */
};

struct lint {
	const struct trace_file *file;
	const struct trace_end *end;
	struct trace_findings *f;
	struct request *requests;
	uint64_t count;
	int64_t older_ns;
	int queue; /* the plugin has a device queue */
};

static struct request *request_of(struct lint *l, uint64_t number)
{
	return number < l->count ? &l->requests[number] : NULL;
}

void trace_find_early(struct trace_findings *f, const char *where, int64_t time_ns,
		      int64_t since_ns, uint64_t number, uint64_t bytes)
{
	if (since_ns >= CONSUME_NS ||
	    bytes <= (uint64_t)CONSUME_RATE * (uint64_t)(since_ns > 0 ? since_ns : 1))
		return;
	trace_find(f, "T03", "", where, time_ns,
		   "message %" PRIu64 " (%" PRIu64 " bytes) is consumed %" PRId64
		   " ns after it was done: no copy is over by then, so its pages are overwritten "
		   "while "
		   "they are read; call irecvConsumed after the copy's event",
		   number, bytes, since_ns);
}

static void lint_consumed(struct lint *l, const struct trace_record *r, struct request *q)
{
	int64_t begin = trace_begin_ns(l->file, r);

	if (r->result) {
		q->refused = 1;
		return;
	}
	q->consumed = 1;
	/* what was posted may be far more than what arrived: an empty message needs no copy */
	if (l->end->gpu_memory && q->done && q->told)
		trace_find_early(l->f, l->end->name, begin, begin - q->done_ns, r->number,
				 q->bytes);
}

static void lint_tested(struct lint *l, const struct trace_record *r, struct request *q)
{
	if (r->flags & TRACE_OUT_OF_ORDER && l->queue)
		trace_find(l->f, "T02", "", l->end->name, trace_begin_ns(l->file, r),
			   "message %" PRIu64 " is tested while an older one is not done; this "
			   "plugin answers such a test with an error or never: test in order of "
			   "posting",
			   r->number);
	q->last_test_ns = trace_end_ns(l->file, r);
	q->tests = r->repeats;
	if (!(r->flags & TRACE_DONE))
		return;
	q->done = 1;
	q->done_ns = trace_end_ns(l->file, r);
	if (r->bytes) {
		q->bytes = r->bytes;
		q->told = 1;
	}
}

/* Fills the requests of an end from its records. */
static void lint_events(struct lint *l)
{
	for (uint32_t i = 0; i < l->end->nevents; i++) {
		struct trace_record r = trace_record_at(l->file, l->end->events[i]);
		struct request *q = request_of(l, r.number);
		int post = r.call == TRACE_ISEND || r.call == TRACE_IRECV;

		if (r.result && r.call != TRACE_CONSUMED)
			continue;
		if (post && q && !(r.flags & TRACE_EMPTY)) {
			q->posted = 1;
			q->posted_ns = trace_end_ns(l->file, &r);
			q->bytes += r.bytes;
			q->tag = r.tag;
		} else if (r.call == TRACE_TEST && q && r.tag != TRACE_KIND_FLUSH) {
			lint_tested(l, &r, q);
		} else if (r.call == TRACE_CONSUMED && q) {
			lint_consumed(l, &r, q);
		}
	}
}

static void lint_unconsumed(struct lint *l)
{
	uint64_t left = 0, first = 0, later = 0; /* later: consumed, or the plugin refused it */

	if (!l->queue || l->end->kind != END_RECEIVE)
		return;
	for (uint64_t i = 0; i < l->count; i++) {
		const struct request *q = &l->requests[i];

		later += left && (q->consumed || q->refused);
		if (q->done && !q->consumed)
			first = left++ ? first : i;
	}
	/* the last ones may be on their way when the comm is closed */
	if (left && (later || left >= RING || (l->end->closed && l->end->consumed)))
		trace_find(l->f, "T01", "", l->end->name, l->requests[first].done_ns,
			   "%" PRIu64
			   " received messages were never consumed, the first is %" PRIu64
			   "%s; their bounce pages are lost, and the comm stalls after %u",
			   left, first, later ? ", though later ones were" : "", RING);
	else if (left && l->end->posted && !l->end->consumed)
		trace_find(
			l->f, "T01", "", l->end->name, l->requests[first].done_ns,
			"no received message was consumed (%" PRIu64
			" done); call irecvConsumed after each copy, or the comm stalls after %u",
			left, RING);
}

/* A program that closes what it opened has no request open when it ends. */
static void lint_abandoned(struct lint *l)
{
	for (uint64_t i = 0; i < l->count && l->file->ended && !l->end->closed; i++) {
		const struct request *q = &l->requests[i];

		if (!q->posted || q->done)
			continue;
		trace_find(l->f, "T13", "", l->end->name, q->posted_ns,
			   "the process ended while message %" PRIu64
			   " of a comm that was not closed "
			   "was open (%" PRIu64 " posted, %" PRIu64
			   " done); look for the plugin's last words",
			   i, l->end->posted, l->end->done);
		return;
	}
}

static void lint_waiting(struct lint *l)
{
	for (uint64_t i = 0; i < l->count; i++) {
		const struct request *q = &l->requests[i];
		int64_t until = l->end->closed ? l->end->last_ns : l->file->span_ns;
		int64_t age = until - q->posted_ns;

		if (!q->posted || q->done || age < l->older_ns)
			continue;
		trace_find(l->f, "T10", "", l->end->name, q->posted_ns,
			   "message %" PRIu64 " (%" PRIu64
			   " bytes, tag %d) waits for %.3f s, tested %" PRIu64
			   " times; look at the peer's trace for its last call",
			   i, q->bytes, q->tag, (double)age / 1e9, q->tests);
		return; /* the oldest says it all */
	}
}

static int by_tag(const void *a, const void *b)
{
	const struct request *x = *(const struct request *const *)a,
			     *y = *(const struct request *const *)b;

	if (x->tag != y->tag)
		return x->tag < y->tag ? -1 : 1;
	return x->posted_ns < y->posted_ns ? -1 : x->posted_ns > y->posted_ns;
}

/* A tag in flight twice, where tags are otherwise distinct. A host that does not use tags has one
 * for all messages. */
static void lint_tags(struct lint *l)
{
	const struct request **sorted = calloc(l->count + 1, sizeof(struct request *));
	uint64_t n = 0, distinct = 0;

	for (uint64_t i = 0; sorted && i < l->count; i++)
		if (l->requests[i].posted)
			sorted[n++] = &l->requests[i];
	if (!sorted || n < 2)
		goto out;
	qsort(sorted, n, sizeof(*sorted), by_tag);
	for (uint64_t i = 0; i < n; i++)
		distinct += !i || sorted[i]->tag != sorted[i - 1]->tag;
	for (uint64_t i = 1; i < n && distinct * 2 > n; i++) {
		const struct request *a = sorted[i - 1], *b = sorted[i];

		if (a->tag != b->tag || (a->done && a->done_ns <= b->posted_ns))
			continue;
		trace_find(
			l->f, "T04", "", l->end->name, b->posted_ns,
			"tag %d of message %td is used again for message %td before that is done",
			a->tag, a - l->requests, b - l->requests);
	}
out:
	free(sorted);
}

static void lint_sizes(struct lint *l)
{
	const char *text = trace_context_of(l->file, "env.NCCL_DYNAMIC_CHUNK_SIZE");
	uint64_t chunk = text ? strtoull(text, NULL, 10) : 0;

	for (uint64_t i = 0; chunk && l->queue && i < l->count; i++)
		if (l->end->kind == END_SEND && l->requests[i].bytes > chunk)
			trace_find(l->f, "T14", "", l->end->name, l->requests[i].posted_ns,
				   "message %" PRIu64 " has %" PRIu64
				   " bytes, NCCL_DYNAMIC_CHUNK_SIZE is %" PRIu64
				   ": a message of several chunks loses bounce pages; send pieces",
				   i, l->requests[i].bytes, chunk);
}

static void lint_requests(struct lint *l)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < l->end->nevents; i++) {
		struct trace_record r = trace_record_at(l->file, l->end->events[i]);

		if ((r.call == TRACE_ISEND || r.call == TRACE_IRECV) && r.number < UINT32_MAX &&
		    r.number + 1 > count)
			count = r.number + 1;
	}
	if (count > (uint64_t)l->end->nevents + 1)
		count = l->end->nevents + 1; /* numbers of a damaged file */
	l->count = count;
	l->requests = calloc(count + 1, sizeof(*l->requests));
	if (!l->requests)
		return;
	lint_events(l);
	lint_unconsumed(l);
	lint_abandoned(l);
	lint_waiting(l);
	lint_tags(l);
	lint_sizes(l);
	free(l->requests);
}

/* ---- setup, registrations, devices ---- */

static void lint_hot(struct lint *l, const struct trace_record *r)
{
	double seconds = (double)r->duration * l->file->ns_per_tick / 1e9;

	if (r->repeats < HOT_CALLS || (double)r->repeats < HOT_RATE * seconds)
		return;
	trace_find(l->f, "T06", "", l->end->name, trace_begin_ns(l->file, r),
		   "%s was called %u times in %.3f s before it had a comm; pause between the calls",
		   trace_call_name(r->call), r->repeats, seconds);
}

static void lint_registrations(struct lint *l)
{
	uint64_t registered = 0, dropped = 0;
	int64_t first = 0;

	for (uint32_t i = 0; i < l->end->nevents; i++) {
		struct trace_record r = trace_record_at(l->file, l->end->events[i]);

		if (r.call == TRACE_REG || r.call == TRACE_REG_DMABUF) {
			first = registered++ ? first : trace_begin_ns(l->file, &r);
		} else if (r.call == TRACE_DEREG) {
			dropped++;
		}
	}
	if (registered >= REGISTERED && dropped * 2 >= registered &&
	    registered * 2 >= l->end->posted)
		trace_find(l->f, "T07", "", l->end->name, first,
			   "%" PRIu64 " registrations for %" PRIu64
			   " messages; register a buffer once and keep it",
			   registered, l->end->posted);
}

static void lint_pairing(struct lint *l)
{
	const struct trace_end *end = l->end;
	char nic[80], owner[80];

	if (end->kind == END_SEND || end->owner == TRACE_DEV_UNKNOWN || end->owner == end->nic ||
	    end->nic == TRACE_DEV_UNKNOWN)
		return;
	trace_find(l->f, "T09", "D01", end->name, end->first_ns,
		   "GPU %d receives through %s, its own NIC is %s: packets are steered to the "
		   "owner and arrive without GPU data; export TCPX_NIC=%s, or use another GPU",
		   end->gpu, trace_nic_name(l->file, end->nic, nic, sizeof(nic)),
		   trace_nic_name(l->file, end->owner, owner, sizeof(owner)),
		   trace_nic_name(l->file, end->owner, owner, sizeof(owner)));
}

static const struct trace_end *listener_of(const struct trace_file *file,
					   const struct trace_end *receive)
{
	for (uint32_t i = 0; i < file->nends; i++)
		if (file->ends[i].nevents && file->ends[i].kind == END_LISTEN &&
		    file->ends[i].link == receive->link)
			return &file->ends[i];
	return NULL;
}

static void lint_listener(struct lint *l)
{
	const struct trace_end *listener = listener_of(l->file, l->end);

	if (l->end->kind != END_RECEIVE || !listener)
		return;
	if (listener->gpu != l->end->gpu && listener->gpu >= 0 && l->end->gpu >= 0)
		trace_find(
			l->f, "T08", "D02", l->end->name, l->end->first_ns,
			"listen was called with GPU %d current, accept with GPU %d: data lands in "
			"the one and is looked for in the other; set the device before both",
			listener->gpu, l->end->gpu);
	for (uint32_t i = 0; i < l->file->nends; i++) {
		const struct trace_end *other = &l->file->ends[i];

		if (other->nevents && other->kind == END_RECEIVE && other->link == l->end->link &&
		    other->ordinal < l->end->ordinal)
			trace_find(l->f, "T04", "", l->end->name, l->end->first_ns,
				   "accept on %s gave %s, and gave %s before; a listen comm serves "
				   "one connection",
				   listener->name, l->end->name, other->name);
	}
}

static void lint_devices(const struct trace_file *file, struct trace_findings *f)
{
	const struct trace_end *listens = NULL, *connects = NULL;
	char a[80], b[80];

	for (uint32_t i = 0; i < file->nends; i++) {
		const struct trace_end *end = &file->ends[i];

		if (!end->nevents || end->nic == TRACE_DEV_UNKNOWN)
			continue;
		for (uint32_t k = 0; k < file->nends; k++)
			if (file->ends[k].nevents && file->ends[k].nic == end->nic &&
			    (file->ends[k].kind == END_SEND) != (end->kind == END_SEND))
				return; /* a device of both */
		if (end->kind == END_LISTEN && !listens)
			listens = end;
		if (end->kind == END_SEND && !connects)
			connects = end;
	}
	if (listens && connects)
		trace_find(f, "T08", "", connects->name, connects->first_ns,
			   "this process listens on %s and connects through %s, on no device both",
			   trace_nic_name(file, listens->nic, a, sizeof(a)),
			   trace_nic_name(file, connects->nic, b, sizeof(b)));
}

/* ---- the trace as a whole ---- */

static const char *where_of(const struct trace_file *file, const struct trace_record *r, char *buf,
			    size_t cap)
{
	const struct trace_end *end = trace_end_of(file, r->comm);

	snprintf(buf, cap, "%s", end ? end->name : "process");
	return buf;
}

static void lint_records(const struct trace_file *file, struct trace_findings *f)
{
	char where[64];

	for (uint64_t i = 0; i < file->nrecords; i++) {
		struct trace_record r = trace_record_at(file, i);

		if (r.call == TRACE_STREAM_SEND || r.call == TRACE_STREAM_RECV)
			continue; /* an error is how a connection ends */
		if (r.flags & TRACE_UNFINISHED)
			trace_find(f, "T13", "", where_of(file, &r, where, sizeof(where)),
				   trace_begin_ns(file, &r),
				   "the process ended inside %s (thread %u), %.3f ms after it was "
				   "called; see the plugin's last lines",
				   trace_call_name(r.call), r.thread,
				   (double)r.duration * file->ns_per_tick / 1e6);
		else if (r.result)
			trace_find(f, "T11", "", where_of(file, &r, where, sizeof(where)),
				   trace_begin_ns(file, &r), "%s answered %d%s",
				   trace_call_name(r.call), r.result,
				   r.result == 2 ? " (system error: the peer's socket is closed?)"
						 : "");
	}
}

void trace_lint(const struct trace_file *file, int64_t older_ns, struct trace_findings *f)
{
	f->count = f->left_out = 0;
	if (file->missing)
		trace_find(f, "T12", "", "file", 0,
			   "%" PRIu64 " records are missing; nothing is concluded of comms whose "
			   "threads lost some (TCPX_TRACE_RECORDS is the size of their rings)",
			   file->missing);
	lint_records(file, f);
	for (uint32_t i = 0; i < file->nends; i++) {
		struct lint l = {.file = file,
				 .end = &file->ends[i],
				 .f = f,
				 .older_ns = older_ns,
				 .queue = trace_has_queue(file)};

		if (!l.end->nevents)
			continue;
		lint_pairing(&l);
		lint_listener(&l);
		if (l.end->gap)
			continue;
		for (uint32_t k = 0; k < l.end->nevents; k++) {
			struct trace_record r = trace_record_at(file, l.end->events[k]);

			if (r.call == TRACE_ACCEPT || r.call == TRACE_CONNECT)
				lint_hot(&l, &r);
		}
		lint_registrations(&l);
		lint_requests(&l);
	}
	if (!file->missing)
		lint_devices(file, f);
}
