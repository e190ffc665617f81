/* SPDX-License-Identifier: Apache-2.0 */
/* The transfers of one direction: prepared once per row, posted once per window. */
#ifndef TOOLS_PERF_FLOW_H
#define TOOLS_PERF_FLOW_H

#include <tcpx/transfer.h>

#include "base/list.h"
#include "perf_layout.h"
#include "perf_samples.h"

/* A request of a flow with queue. */
struct perf_posted {
	struct list_node node; /* in flight, in the order of the posts */
	int64_t ns;	       /* time of the post */
};

struct perf_flow {
	tcpx_session *session;
	tcpx_peer peer;
	tcpx_request *requests; /* requests, one per transfer of a window */
	uint32_t prepared;
	int queue;		    /* completions come from the queue of the session */
	struct perf_posted *posted; /* with queue: of each request */
	uint32_t *idle;		    /* ring of requests that may be posted, longest idle first */
	uint32_t depth;
	uint64_t size;
	int64_t deadline_ns; /* absolute; 0: none */
	tcpx_error error;    /* error of the last call */
};

struct perf_flow_opts {
	tcpx_session *session;
	tcpx_peer peer;
	enum tcpx_op op;
	const struct perf_layout *layout;
	tcpx_region local, remote; /* remote: for WRITE and READ only */
	uint32_t depth;
	int queue; /* the session has no other user, so its completion queue is used */
	int pong;  /* each carries a notification, PERF_PONG */
	int share; /* depth requests, several on one slot if there are fewer slots */
	int64_t deadline_ns;
};

/* Prepares the requests; on failure none is left. */
tcpx_status perf_flow_open(struct perf_flow *flow, const struct perf_flow_opts *opts);
void perf_flow_close(struct perf_flow *flow);

/* Posts `used` transfers, at most depth at once, and waits for all: the first `used` requests,
 * or, if there are fewer, each again after its completion. Adds one sample per transfer, from
 * post to completion; *out_elapsed_ns is the time from the first post to the last completion.
 * ERR_CANCELLED: Ctrl-C. */
tcpx_status perf_flow_run(struct perf_flow *flow, uint32_t used, struct perf_samples *samples,
			  int64_t *out_elapsed_ns);

/* For receives: posts the first `used` requests at once; waits for them. */
tcpx_status perf_flow_post(struct perf_flow *flow, uint32_t used);
tcpx_status perf_flow_wait(struct perf_flow *flow, uint32_t used);

#endif
