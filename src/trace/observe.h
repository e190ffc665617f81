/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records calls of ncclNet, whatever the version of the plugin's table: a wrapper begins a span,
 * forwards the call, and ends the span with the result. The plugin's own pointers identify comms,
 * requests and registrations. No argument or result is changed; errno is kept.
 */
#ifndef TRACE_OBSERVE_H
#define TRACE_OBSERVE_H

#include "trace/recorder.h"

#define TRACE_PARTS_MAX 8u /* most parts of a grouped receive */

struct trace_comm;
struct trace_request;
struct trace_setup;

/* One call. A span without a ring (nothing is recorded, or there is no memory) does nothing. */
struct trace_span {
	struct trace_ring *ring;
	uint64_t start; /* ticks at which the call began */
	struct trace_comm *comm;
	struct trace_request *request;
	struct trace_setup *setup; /* of a connect */
	enum trace_call call;
};

struct trace_part { /* one part of a post */
	uint64_t bytes;
	int tag;
	const void *memory; /* the registration that the plugin returned */
};

/* Begin a span; called before the call is forwarded. trace_begin_connect reads handle at once,
 * because the call may change its bytes. */
void trace_begin(struct trace_span *span, enum trace_call call, const void *comm);
void trace_begin_request(struct trace_span *span, enum trace_call call, const void *request);
void trace_begin_connect(struct trace_span *span, const void *handle);

/* End the span; called after the call. dev: number of the plugin's device. result: the plugin's,
 * 0 on success. out: the object that the call returned; NULL with result 0: the call answered
 * "not yet". */
void trace_ended(struct trace_span *span, int result); /* for calls without other results */
void trace_listened(struct trace_span *span, int dev, int result, const void *out,
		    const void *handle);
void trace_connected(struct trace_span *span, int dev, int result, const void *out);
void trace_accepted(struct trace_span *span, int result, const void *out);
void trace_registered(struct trace_span *span, uint64_t bytes, int type, int result,
		      const void *out);
void trace_deregistered(struct trace_span *span, const void *memory, int result);
/* early: 1: the caller of the plugin accepts an early completion. */
void trace_posted(struct trace_span *span, const struct trace_part *parts, unsigned count,
		  int early, int result, const void *out);
/* done and sizes: as the plugin's test wrote them. sizes may be NULL. */
void trace_tested(struct trace_span *span, int result, int done, const int *sizes);
void trace_consumed(struct trace_span *span, int result);
void trace_closed(struct trace_span *span, int result);

/* For stream channels. direction: an address that identifies a direction of a channel. call:
 * TRACE_STREAM_SEND or TRACE_STREAM_RECV. Spans of its calls begin by trace_begin(). bytes 0 with
 * result 0: nothing could be moved. */
void trace_stream_opened(const void *direction, enum trace_call call);
void trace_streamed(struct trace_span *span, int64_t bytes, int result);
void trace_stream_closed(const void *direction);

/* Ends the span of a call that asked for the properties of a device, and records the device. */
void trace_device(struct trace_span *span, int dev, int result, const char *name,
		  const char *pci_path);

#endif
