/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records calls of ncclNet, for any version of the plugin's table. A wrapper begins a span,
 * forwards the call, and ends the span with the result. The plugin's own pointers identify comms,
 * requests and registrations. No function changes an argument or a result of the call, and errno is
 * kept.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include "trace/recorder.h"

#define TRACE_PARTS_MAX 8u /* maximum number of parts of a grouped receive */

struct trace_comm;
struct trace_request;
struct trace_setup;

/* One call. A span has no ring, and does nothing, if nothing is recorded or there is no memory. */
struct trace_span {
	struct trace_ring *ring;
	uint64_t start; /* ticks at which the call began */
	struct trace_comm *comm;
	struct trace_request *request;
	struct trace_setup *setup; /* only for a connect */
	enum trace_call call;
};

struct trace_part { /* one part of a post */
	uint64_t bytes;
	int tag;
	const void *memory; /* the registration, as the plugin returned it */
};

/* Begin a span. Called before the call is forwarded. trace_begin_connect reads the bytes of
 * `handle`, because the call may change them. */
void trace_begin(struct trace_span *span, enum trace_call call, const void *comm);
void trace_begin_request(struct trace_span *span, enum trace_call call, const void *request);
void trace_begin_connect(struct trace_span *span, const void *handle);

/* End the span. Called after the call has returned. `dev` is the number of the plugin's device.
 * `result` is the plugin's, 0 on success. `out` is the object that the call returned; NULL with
 * result 0 means that the call answered "not yet", or, for an iflush, that there is nothing to wait
 * for. */
void trace_ended(struct trace_span *span, int result); /* for calls without other results */
void trace_listened(struct trace_span *span, int dev, int result, const void *out,
		    const void *handle);
void trace_connected(struct trace_span *span, int dev, int result, const void *out);
void trace_accepted(struct trace_span *span, int result, const void *out);
void trace_registered(struct trace_span *span, uint64_t bytes, int type, int result,
		      const void *out);
void trace_deregistered(struct trace_span *span, const void *memory, int result);
/* Ends the span of an isend, irecv or iflush. `early` is 1 if the caller of the plugin's irecv
 * accepts an early completion. */
void trace_posted(struct trace_span *span, const struct trace_part *parts, unsigned count,
		  int early, int result, const void *out);
/* `done` and `sizes` are as the plugin's test wrote them; `sizes` may be NULL. */
void trace_tested(struct trace_span *span, int result, int done, const int *sizes);
void trace_consumed(struct trace_span *span, int result);
void trace_closed(struct trace_span *span, int result);

/* For stream channels. `direction` is an address that identifies one direction of a channel.
 * `call` is TRACE_STREAM_SEND or TRACE_STREAM_RECV. trace_begin() with `comm` = `direction` begins
 * the span of a send or receive. If `bytes` and `result` are 0, nothing could be moved. */
void trace_stream_opened(const void *direction, enum trace_call call);
void trace_streamed(struct trace_span *span, int64_t bytes, int result);
void trace_stream_closed(const void *direction);

/* Ends the span of a call that asked for the properties of a device, and records the device. */
void trace_device(struct trace_span *span, int dev, int result, const char *name,
		  const char *pci_path);

#endif
