/* SPDX-License-Identifier: Apache-2.0 */
/* One row of the table: windows of transfers of one size, measured and compared. */
#ifndef TOOLS_PERF_ROW_H
#define TOOLS_PERF_ROW_H

#include "perf_client.h"
#include "perf_meter.h"
#include "perf_place.h"
#include "perf_side.h"

/* Values of --op; latency is a WRITE at depth 1, with half of its time. */
enum perf_op {
	PERF_OP_WRITE,
	PERF_OP_READ,
	PERF_OP_SEND,
	PERF_OP_NOTIFY,
	PERF_OP_LATENCY,
	PERF_OP_PINGPONG
};

/* Operations that show half of a round trip, with one transfer in flight. */
static inline int perf_one_way(uint64_t op)
{
	return op == PERF_OP_LATENCY || op == PERF_OP_NOTIFY || op == PERF_OP_PINGPONG;
}

struct perf_row_plan {
	enum perf_op op;
	uint64_t size, batch, depth, working_set;
	uint64_t iters; /* 0: by time */
	double seconds; /* seconds of the row if iters is 0 */
	struct perf_place local, remote;
	int bidir, check, inject, perf_lines;
	int settle; /* runs the warm-up window only, reports nothing */
	uint64_t seed;
};

struct perf_result {
	uint64_t iters;	     /* transfers, with bidir of both directions */
	uint64_t elapsed_ns; /* clocked */
	double bytes_per_second;
	/* time of a transfer from post to completion; one way for latency and notify */
	struct perf_summary time;
	uint64_t wrong_bytes, first_wrong;
	struct perf_meter local, remote;
};

/* Checks that the other end accepts such a row. */
tcpx_status perf_row_check(const struct perf_client *client, const struct perf_row_plan *plan);

/* Runs a row. side keeps its buffers between rows. progress is called before each timed window
 * with the share done (0 .. 1) and the rate so far. */
tcpx_status perf_row_run(struct perf_client *client, struct perf_side *side,
			 const struct perf_row_plan *plan,
			 void (*progress)(void *arg, double share, double bytes_per_second),
			 void *arg, struct perf_result *out);

/* Runs a window of --op pingpong: posts each of the first `used` WRITEs when the one before was
 * answered. */
tcpx_status perf_pong_run(struct perf_client *client, struct perf_flow *flow, uint32_t used,
			  struct perf_samples *samples, int64_t *out_elapsed_ns);

/* As perf_row_run(), for --op notify. */
tcpx_status perf_echo_run(struct perf_client *client, const struct perf_row_plan *plan,
			  void (*progress)(void *arg, double share, double bytes_per_second),
			  void *arg, struct perf_result *out);

#endif
