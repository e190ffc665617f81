/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What calls of ncclNet mean, independent of the table's version: a wrapper begins a span, forwards
 * the call, and tells the result. Comms, requests and registrations are known by their pointers,
 * which stay the plugin's. No argument or result is changed; errno is kept.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include "trace/recorder.h"

#define TRACE_PARTS_MAX 8u

struct trace_comm;
struct trace_request;
struct trace_setup;

/* One call. Of a span without a ring nothing is recorded. */
struct trace_span {
	struct trace_ring *ring;
	uint64_t start;
	struct trace_comm *comm;
	struct trace_request *request;
	struct trace_setup *setup;
	enum trace_call call;
};

struct trace_part { /* of a post */
	uint64_t bytes;
	int tag;
	const void *memory; /* registration */
};

/* Begin, before the call is forwarded. handle: its bytes may be changed by the call. */
void trace_begin(struct trace_span *span, enum trace_call call, const void *comm);
void trace_begin_request(struct trace_span *span, enum trace_call call, const void *request);
void trace_begin_connect(struct trace_span *span, const void *handle);

/* End, after it. dev: device of the plugin. out: what the call gave, NULL: "not yet". */
void trace_ended(struct trace_span *span, int result); /* calls without more to say */
void trace_listened(struct trace_span *span, int dev, int result, const void *out,
		    const void *handle);
void trace_connected(struct trace_span *span, int dev, int result, const void *out);
void trace_accepted(struct trace_span *span, int result, const void *out);
void trace_registered(struct trace_span *span, uint64_t bytes, int type, int result,
		      const void *out);
void trace_deregistered(struct trace_span *span, const void *memory, int result);
/* early: the host accepts an early completion. */
void trace_posted(struct trace_span *span, const struct trace_part *parts, unsigned count,
		  int early, int result, const void *out);
/* done and sizes as test wrote them; sizes may be NULL. */
void trace_tested(struct trace_span *span, int result, int done, const int *sizes);
void trace_consumed(struct trace_span *span, int result);
void trace_closed(struct trace_span *span, int result);

/* A direction of a stream channel, named by an address: TRACE_STREAM_SEND or TRACE_STREAM_RECV. A
 * span of it begins by trace_begin(). bytes 0 and result 0: nothing could move. */
void trace_stream_opened(const void *direction, enum trace_call call);
void trace_streamed(struct trace_span *span, int64_t bytes, int result);
void trace_stream_closed(const void *direction);

/* A device's properties were asked for. */
void trace_device(struct trace_span *span, int dev, int result, const char *name,
		  const char *pci_path);

#endif
