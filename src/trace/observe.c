/* SPDX-License-Identifier: Apache-2.0 */
/* Turns calls of ncclNet into records: a span begins before a call, and its records are written
 * after the call. */
#include "trace/observe.h"

#include <errno.h>
#include <string.h>

#include "abi/ncclnet.h"
#include "base/siphash.h"
#include "trace/context.h"
#include "trace/device.h"
#include "trace/pointers.h"

/* For the tables below: bits of struct trace_table. */
#define COMM_BITS 13u
#define REQUEST_BITS 16u
#define MEMORY_BITS 14u
#define SETUP_BITS 8u
/* How long, in milliseconds, calls for one purpose must answer "not yet" before the first record
 * about them is written. */
#define EMPTY_FIRST_MS 1u
/* The time between two records about such calls doubles each time, up to this many milliseconds. */
#define EMPTY_MOST_MS 1000u

/* The latest calls for one purpose (a connect, a post, a test), if they all answered "not yet". */
struct waits {
	/* In ticks: `since` is the time when the first of these calls began, `next` the time when
	 * the next record about them is due. */
	uint64_t since, next;
	uint32_t count, every_ms; /* number of these calls; milliseconds between two records */
};

/* A comm, a listener, or one direction of a stream channel. */
struct trace_comm {
	struct trace_entry entry;
	uint32_t id; /* number of the comm in the file */
	int16_t nic, owner, gpu;
	uint64_t posted;    /* number of the next request */
	uint64_t head;	    /* number of the oldest request that is not done */
	uint64_t done;	    /* bit k is set if request head + k is done */
	uint64_t link;	    /* of a listener: hash of its handle */
	struct waits waits; /* posts that answered "not yet"; of a listener: accepts */
};

/* A posted request. */
struct trace_request {
	struct trace_entry entry;
	struct trace_comm *comm;
	uint64_t number;
	struct waits waits;
	/* out_of_order: 1 if a test of this request found an older one of the comm not done. */
	uint8_t parts, kind, out_of_order;
};

struct trace_setup { /* a connect under way, found by the address of its handle */
	struct trace_entry entry;
	uint64_t link;
	struct waits waits;
};

/* A memory registration. */
struct memory {
	struct trace_entry entry;
	uint32_t id;
	int gpu;
};

static struct trace_table comms = TRACE_TABLE(COMM_BITS, struct trace_comm);
static struct trace_table requests = TRACE_TABLE(REQUEST_BITS, struct trace_request);
static struct trace_table setups = TRACE_TABLE(SETUP_BITS, struct trace_setup);
static struct trace_table memories = TRACE_TABLE(MEMORY_BITS, struct memory);
static _Atomic uint32_t comm_ids, memory_ids;

/* ---- records ---- */

/* Writes a GAP record for the records dropped since the last GAP record. Returns 1, or 0 if the
 * ring has no room. In that case the caller must drop its own record too, because the GAP record
 * must come before the caller's record. */
static int put_gap(struct trace_ring *ring)
{
	struct trace_record *slot = trace_ring_room(ring);

	if (!slot)
		return 0;
	*slot = (struct trace_record){
		.time = trace_ticks(),
		.number = ring->missed,
		.comm = TRACE_NONE,
		.thread = ring->thread,
		.call = TRACE_GAP,
		.memory = TRACE_NONE,
		.nic = TRACE_DEV_UNKNOWN,
		.owner = TRACE_DEV_UNKNOWN,
		.gpu = TRACE_DEV_UNKNOWN,
	};
	ring->missed = 0;
	trace_ring_publish(ring);
	return 1;
}

/* Takes the ring's next record for the span and sets the fields that all calls have. The caller
 * sets the other fields and publishes the record. Returns NULL if the ring is full; the record then
 * counts as dropped. */
static inline struct trace_record *put_record(const struct trace_span *span, int result)
{
	struct trace_ring *ring = span->ring;
	const struct trace_comm *comm = span->comm;
	struct trace_record *r;

	if (__builtin_expect(ring->missed != 0, 0) && !put_gap(ring)) {
		trace_ring_miss(ring);
		return NULL;
	}
	r = trace_ring_slot(ring);
	if (!r)
		return NULL;
	r->time = span->start;
	r->number = 0;
	r->bytes = 0;
	r->duration = trace_ticks() - span->start;
	r->comm = comm ? comm->id : TRACE_NONE;
	r->thread = ring->thread;
	r->call = (uint8_t)span->call;
	r->flags = 0;
	r->result = result;
	r->tag = 0;
	r->repeats = 0;
	r->memory = TRACE_NONE;
	r->nic = comm ? comm->nic : TRACE_DEV_UNKNOWN;
	r->owner = comm ? comm->owner : TRACE_DEV_UNKNOWN;
	r->gpu = comm ? comm->gpu : TRACE_DEV_UNKNOWN;
	r->part = 0;
	r->parts = 1;
	return r;
}

/* Records that the thread is no longer in a call. */
static inline void span_leave(struct trace_span *span)
{
	atomic_store_explicit(&span->ring->busy_call, TRACE_GAP, memory_order_release);
}

/* Sets the span's start, and notes which call the thread is in (for write_unfinished in
 * recorder.c). */
static inline void span_enter(struct trace_span *span, enum trace_call call,
			      struct trace_comm *comm)
{
	struct trace_ring *ring = span->ring;

	span->call = call;
	span->comm = comm;
	span->start = trace_ticks();
	atomic_store_explicit(&ring->busy_time, span->start, memory_order_relaxed);
	atomic_store_explicit(&ring->busy_comm, comm ? comm->id : TRACE_NONE, memory_order_relaxed);
	atomic_store_explicit(&ring->busy_call, call, memory_order_release);
}

static uint64_t ticks_of_ms(unsigned ms)
{
	return trace_recorder_hz / 1000 * ms;
}

/* Counts a call that answered "not yet". Returns 1 if a record about these calls is due. */
static inline int waits_more(struct waits *waits, uint64_t now)
{
	if (!waits->count++) {
		waits->since = now;
		waits->every_ms = EMPTY_FIRST_MS;
		waits->next = now + ticks_of_ms(EMPTY_FIRST_MS);
		return 0;
	}
	if (__builtin_expect(now < waits->next, 1))
		return 0;
	waits->every_ms = waits->every_ms * 2 < EMPTY_MOST_MS ? waits->every_ms * 2 : EMPTY_MOST_MS;
	waits->next = now + ticks_of_ms(waits->every_ms);
	return 1;
}

/* Adds to the record the calls that `waits` has counted, and sets `flag` if there were any. The
 * record then begins at the first of these calls. */
static inline void waits_add(struct trace_record *r, const struct waits *waits, uint8_t flag)
{
	if (!waits->count)
		return;
	r->repeats = waits->count;
	r->duration += r->time - waits->since;
	r->time = waits->since;
	r->flags |= flag;
}

/* Handles a call that answered "not yet": counts the call, and writes a record only if one is
 * due. */
static void put_waiting(struct trace_span *span, struct waits *waits, uint64_t number)
{
	struct trace_record *r;

	if (!waits_more(waits, span->start))
		return;
	r = put_record(span, 0);
	if (!r)
		return;
	r->number = number;
	waits_add(r, waits, TRACE_EMPTY);
	trace_ring_publish(span->ring);
}

/* ---- beginning a span ---- */

void trace_begin(struct trace_span *span, enum trace_call call, const void *comm)
{
	span->ring = trace_ring_own();
	if (!span->ring)
		return;
	span_enter(span, call, trace_table_find(&comms, comm));
}

void trace_begin_request(struct trace_span *span, enum trace_call call, const void *request)
{
	span->ring = trace_ring_own();
	if (!span->ring)
		return;
	span->request = trace_table_find(&requests, request);
	span_enter(span, call, span->request ? span->request->comm : NULL);
}

/* Returns a hash of a listener's handle, never 0. Both ends of a connection compute the same hash,
 * so their traces can be matched. The hash does not reveal the handle. The key of the hash is not a
 * secret. */
static uint64_t handle_hash(const void *handle)
{
	static const uint8_t key[SIPHASH_KEY_BYTES] = "tcpx trace link";
	uint64_t link = siphash(key, handle, NCCLNET_HANDLE_BYTES);

	return link ? link : 1;
}

void trace_begin_connect(struct trace_span *span, const void *handle)
{
	span->ring = trace_ring_own();
	if (!span->ring)
		return;
	span->setup = trace_table_add(&setups, handle);
	if (span->setup && !span->setup->link)
		span->setup->link = handle_hash(handle);
	span_enter(span, TRACE_CONNECT, NULL);
}

/* ---- ending a span ---- */

void trace_ended(struct trace_span *span, int result)
{
	if (!span->ring)
		return;
	if (put_record(span, result))
		trace_ring_publish(span->ring);
	span_leave(span);
}

void trace_device(struct trace_span *span, int dev, int result, const char *name,
		  const char *pci_path)
{
	struct trace_record *r;

	if (!span->ring)
		return;
	r = put_record(span, result);
	if (r) {
		r->nic = (int16_t)dev;
		trace_ring_publish(span->ring);
	}
	if (!result && trace_device_learn(dev, name, pci_path))
		trace_context_counter(name);
	span_leave(span);
}

/* Adds a comm. Looks up the GPU that is current on this thread and the NIC that owns it; both are
 * kept for the life of the comm. Returns NULL if the table is full. */
static struct trace_comm *comm_add(const void *pointer, int dev)
{
	struct trace_comm *comm = trace_table_add(&comms, pointer);

	if (!comm)
		return NULL;
	memset((char *)comm + sizeof(comm->entry), 0, sizeof(*comm) - sizeof(comm->entry));
	comm->id = atomic_fetch_add_explicit(&comm_ids, 1, memory_order_relaxed);
	comm->nic = (int16_t)dev;
	comm->gpu = trace_device_gpu();
	comm->owner = trace_device_owner(comm->gpu);
	trace_recorder_context();
	return comm;
}

/* Writes the record of a listen, connect or accept. `number` is the hash of the listener's handle.
 * `given` is 1 if the call returned a comm. */
static void put_setup(struct trace_span *span, int result, uint64_t number,
		      const struct waits *waits, int dev, int given)
{
	struct trace_record *r = put_record(span, result);

	if (!r)
		return;
	r->number = number;
	r->nic = (int16_t)dev;
	if (given)
		r->flags |= TRACE_DONE;
	if (given && !span->comm)
		r->flags |= TRACE_UNKNOWN;
	if (waits)
		waits_add(r, waits, TRACE_RETRIED);
	trace_ring_publish(span->ring);
}

void trace_listened(struct trace_span *span, int dev, int result, const void *out,
		    const void *handle)
{
	uint64_t link = 0;

	if (!span->ring)
		return;
	if (!result && out) {
		link = handle_hash(handle);
		span->comm = comm_add(out, dev);
		if (span->comm)
			span->comm->link = link;
	}
	put_setup(span, result, link, NULL, dev, !result && out);
	span_leave(span);
}

void trace_connected(struct trace_span *span, int dev, int result, const void *out)
{
	struct trace_setup *setup;
	uint64_t link;

	if (!span->ring)
		return;
	setup = span->setup;
	link = setup ? setup->link : 0;
	if (!result && !out && setup) {
		put_waiting(span, &setup->waits, link);
	} else {
		if (!result && out)
			span->comm = comm_add(out, dev);
		put_setup(span, result, link, setup ? &setup->waits : NULL, dev, !result && out);
		if (setup) {
			memset(&setup->waits, 0, sizeof(setup->waits));
			setup->link = 0;
			atomic_store_explicit(&setup->entry.live, 0, memory_order_relaxed);
		}
	}
	span_leave(span);
}

void trace_accepted(struct trace_span *span, int result, const void *out)
{
	struct trace_comm *listener;
	uint64_t link;
	int dev;

	if (!span->ring)
		return;
	listener = span->comm;
	dev = listener ? listener->nic : TRACE_DEV_UNKNOWN;
	link = listener ? listener->link : 0;
	if (!result && !out && listener) {
		put_waiting(span, &listener->waits, link);
	} else {
		if (!result && out)
			span->comm = comm_add(out, dev);
		put_setup(span, result, link, listener ? &listener->waits : NULL, dev,
			  !result && out);
		if (listener)
			memset(&listener->waits, 0, sizeof(listener->waits));
	}
	span_leave(span);
}

void trace_registered(struct trace_span *span, uint64_t bytes, int type, int result,
		      const void *out)
{
	struct trace_record *r;
	struct memory *memory = NULL;

	if (!span->ring)
		return;
	if (!result && out)
		memory = trace_table_add(&memories, out);
	if (memory) {
		memory->id = atomic_fetch_add_explicit(&memory_ids, 1, memory_order_relaxed);
		memory->gpu = type != NCCLNET_PTR_HOST;
	}
	r = put_record(span, result);
	if (r) {
		r->bytes = bytes;
		r->tag = type;
		r->memory = memory ? memory->id : TRACE_NONE;
		r->flags = (uint8_t)((type != NCCLNET_PTR_HOST ? TRACE_GPU : 0) |
				     (span->comm ? 0 : TRACE_UNKNOWN));
		trace_ring_publish(span->ring);
	}
	span_leave(span);
}

void trace_deregistered(struct trace_span *span, const void *pointer, int result)
{
	struct memory *memory;
	struct trace_record *r;

	if (!span->ring)
		return;
	memory = trace_table_find(&memories, pointer);
	r = put_record(span, result);
	if (r) {
		r->memory = memory ? memory->id : TRACE_NONE;
		trace_ring_publish(span->ring);
	}
	if (memory)
		atomic_store_explicit(&memory->entry.live, 0, memory_order_relaxed);
	span_leave(span);
}

/* Adds a request that was posted. The plugin may have used the same pointer for an earlier request.
 * Returns NULL if the table is full. */
static struct trace_request *request_add(const struct trace_span *span, const void *pointer,
					 unsigned parts)
{
	struct trace_request *request = trace_table_add(&requests, pointer);

	if (!request)
		return NULL;
	request->comm = span->comm;
	request->number = span->comm->posted;
	request->waits.count = 0;
	request->parts = (uint8_t)parts;
	request->kind = span->call == TRACE_IRECV   ? TRACE_KIND_RECEIVE
			: span->call == TRACE_ISEND ? TRACE_KIND_SEND
						    : TRACE_KIND_FLUSH;
	request->out_of_order = 0;
	return request;
}

/* Takes a record for one part of a post; the caller publishes it. Returns NULL if the record is
 * dropped. */
static struct trace_record *put_part(const struct trace_span *span, const struct trace_part *part,
				     uint64_t number, int result)
{
	struct trace_record *r = put_record(span, result);
	const struct memory *memory;

	if (!r)
		return NULL;
	memory = trace_table_find(&memories, part->memory);
	r->number = number;
	r->bytes = part->bytes;
	r->tag = part->tag;
	r->memory = memory ? memory->id : TRACE_NONE;
	r->flags = (uint8_t)((memory && memory->gpu ? TRACE_GPU : 0) |
			     (span->comm ? 0 : TRACE_UNKNOWN));
	if (span->comm)
		waits_add(r, &span->comm->waits, TRACE_RETRIED);
	return r;
}

void trace_posted(struct trace_span *span, const struct trace_part *parts, unsigned count,
		  int early, int result, const void *out)
{
	int flush = span->call == TRACE_IFLUSH;
	struct trace_comm *comm;
	uint64_t number;

	if (!span->ring)
		return;
	comm = span->comm;
	number = comm ? comm->posted : 0;
	if (comm && !flush && !result && !out) {
		put_waiting(span, &comm->waits, number);
		span_leave(span);
		return;
	}
	if (comm && !result && out)
		request_add(span, out, count);
	for (unsigned i = 0; i < count && i < TRACE_PARTS_MAX; i++) {
		struct trace_record *r = put_part(span, &parts[i], number, result);

		if (!r)
			continue;
		r->part = (uint8_t)i;
		r->parts = (uint8_t)count;
		r->flags |= early ? TRACE_EARLY : 0;
		trace_ring_publish(span->ring);
	}
	if (comm && !flush) {
		comm->posted += !result && out;
		comm->waits.count = 0;
	}
	span_leave(span);
}

/* Marks a request of the comm as done, and moves head to the oldest request that is not marked. If
 * the request is 64 or more after head, requests at head are given up: they count as done. Returns
 * 1 if an older request was not done. */
static int comm_done(struct trace_comm *comm, uint64_t number)
{
	uint64_t after = number - comm->head;

	if (number < comm->head)
		return 0;
	for (; number - comm->head > 63; comm->head++)
		comm->done >>= 1;
	comm->done |= 1ull << (number - comm->head);
	for (; comm->done & 1; comm->head++)
		comm->done >>= 1;
	return after != 0;
}

/* Handles a test that found its request not done: counts the test, and writes a record only if one
 * is due. */
static void put_empty(struct trace_span *span, struct trace_request *request)
{
	struct trace_record *r;

	if (request->number > span->comm->head)
		request->out_of_order = 1;
	if (!waits_more(&request->waits, span->start))
		return;
	r = put_record(span, 0);
	if (!r)
		return;
	r->number = request->number;
	r->tag = request->kind;
	waits_add(r, &request->waits, TRACE_EMPTY);
	r->flags |= request->out_of_order ? TRACE_OUT_OF_ORDER : 0;
	trace_ring_publish(span->ring);
}

/* Writes the records of a test that ended its request or failed, one for each part. */
static void put_tested(struct trace_span *span, int result, int done, const int *sizes)
{
	struct trace_request *request = span->request;
	unsigned parts = request && request->parts ? request->parts : 1;
	uint8_t flags = done ? TRACE_DONE : 0;

	if (request && done && request->kind != TRACE_KIND_FLUSH &&
	    comm_done(span->comm, request->number))
		request->out_of_order = 1;
	if (!request)
		flags |= TRACE_UNKNOWN;
	else if (request->out_of_order)
		flags |= TRACE_OUT_OF_ORDER;
	for (unsigned i = 0; i < parts; i++) {
		struct trace_record *r = put_record(span, result);

		if (!r)
			continue;
		r->number = request ? request->number : 0;
		r->tag = request ? request->kind : 0;
		/* a size of 0 or less may have been set by the caller, not by the plugin */
		if (done && sizes && r->tag == TRACE_KIND_RECEIVE && sizes[i] > 0)
			r->bytes = (uint64_t)sizes[i];
		r->part = (uint8_t)i;
		r->parts = (uint8_t)parts;
		r->flags = flags;
		if (request)
			waits_add(r, &request->waits, TRACE_RETRIED);
		trace_ring_publish(span->ring);
	}
	if (request && done) /* the entry keeps its key, so that a later irecvConsumed finds it */
		atomic_store_explicit(&request->entry.live, 0, memory_order_relaxed);
}

void trace_tested(struct trace_span *span, int result, int done, const int *sizes)
{
	if (!span->ring)
		return;
	if (result || done)
		put_tested(span, result, done, sizes);
	else if (span->request)
		put_empty(span, span->request);
	span_leave(span);
}

void trace_consumed(struct trace_span *span, int result)
{
	struct trace_request *request;
	struct trace_record *r;

	if (!span->ring)
		return;
	request = span->request;
	r = put_record(span, result);
	if (r) {
		r->number = request ? request->number : 0;
		r->flags = request ? 0 : TRACE_UNKNOWN;
		trace_ring_publish(span->ring);
	}
	span_leave(span);
}

void trace_closed(struct trace_span *span, int result)
{
	if (!span->ring)
		return;
	if (put_record(span, result))
		trace_ring_publish(span->ring);
	if (span->comm)
		atomic_store_explicit(&span->comm->entry.live, 0, memory_order_relaxed);
	span_leave(span);
}

void trace_stream_opened(const void *direction, enum trace_call call)
{
	struct trace_span span;
	struct trace_record *r;

	trace_begin(&span, call, NULL);
	if (!span.ring)
		return;
	span.comm = comm_add(direction, TRACE_DEV_UNKNOWN);
	r = put_record(&span, 0);
	if (r) {
		r->flags = TRACE_DONE;
		trace_ring_publish(span.ring);
	}
	span_leave(&span);
}

void trace_streamed(struct trace_span *span, int64_t bytes, int result)
{
	struct trace_comm *comm;
	struct trace_record *r;

	if (!span->ring)
		return;
	comm = span->comm;
	if (comm && !bytes && !result) {
		put_waiting(span, &comm->waits, comm->posted);
		span_leave(span);
		return;
	}
	r = put_record(span, result);
	if (r) {
		r->number = comm ? comm->posted : 0;
		r->bytes = (uint64_t)bytes;
		if (comm)
			waits_add(r, &comm->waits, TRACE_RETRIED);
		trace_ring_publish(span->ring);
	}
	if (comm) {
		comm->posted++;
		comm->waits.count = 0;
	}
	span_leave(span);
}

void trace_stream_closed(const void *direction)
{
	struct trace_comm *comm = trace_table_find(&comms, direction);

	if (comm)
		atomic_store_explicit(&comm->entry.live, 0, memory_order_relaxed);
}
