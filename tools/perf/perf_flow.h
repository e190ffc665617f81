/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers of one direction: prepared once for a row, posted once in each window. */
#ifndef TOOLS_PERF_FLOW_H
#define TOOLS_PERF_FLOW_H

#include <tcpx/transfer.h>

#include "perf_layout.h"
#include "perf_samples.h"

struct perf_flow {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_request *requests; /* one per transfer of a window */
	uint32_t prepared;
	int queue;	    /* ends come from the session's completion queue */
	uint32_t *order;    /* with queue, of posts: a ring as long */
	int64_t *posted_ns; /* with queue, of each request; 0: it is not in flight */
	uint32_t *idle;	    /* a ring of the requests that may be posted, longest idle first */
	uint32_t depth;
	uint64_t size;
	int64_t deadline_ns; /* absolute; 0: none */
	tcpx_error error;    /* detail of the failure that the last call returned */
};

struct perf_flow_opts {
	tcpx_session *session;
	tcpx_peer peer;
	enum tcpx_op op;
	const struct perf_layout *layout;
	tcpx_region local, remote; /* remote: WRITE and READ only */
	uint32_t depth;
	int queue; /* the session has no other user: ends come from its completion queue */
	int pong;  /* each carries a notification, PERF_PONG */
	int share; /* as many requests as depth, on the same slots where there are fewer */
	int64_t deadline_ns;
};

/* Prepares the requests; nothing is left on failure. */
tcpx_status perf_flow_open(struct perf_flow *flow, const struct perf_flow_opts *opts);
void perf_flow_close(struct perf_flow *flow);

/* Posts used requests, at most depth at once, and waits for all: the first used ones, or, when used
 * is more than there are, each again after its end. One sample each from its post to its end;
 * *out_elapsed_ns from the first post to the last end. ERR_CANCELLED: Ctrl-C. */
tcpx_status perf_flow_run(struct perf_flow *flow, uint32_t used, struct perf_samples *samples,
			  int64_t *out_elapsed_ns);

/* Receives: posts the first used ones at once, and waits for them. */
tcpx_status perf_flow_post(struct perf_flow *flow, uint32_t used);
tcpx_status perf_flow_wait(struct perf_flow *flow, uint32_t used);

#endif
