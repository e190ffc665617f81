/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a measured row, the same code in perf and in serve: buffers, requests, windows. */
#ifndef TOOLS_PERF_SIDE_H
#define TOOLS_PERF_SIDE_H

#include "perf_buffer.h"
#include "perf_flow.h"
#include "perf_layout.h"
#include "perf_message.h"

enum perf_end { PERF_CLIENT = 0, PERF_SERVER = 1 };

/* The key's direction and the order of tokens: [0] of the source buffer, [1] of the destination. */
#define PERF_TOKENS_BYTES (2 * TCPX_TOKEN_BYTES)

struct perf_side {
	tcpx_session *session;
	tcpx_peer peer;
	enum perf_end end;
	int64_t deadline_ns;
	struct perf_leave leave; /* asked while buffers are filled and compared */
	int row_open;
	struct perf_spec spec;
	struct perf_layout layout;
	struct perf_gpu *gpu;	     /* of the buffers; NULL: they are host memory */
	struct perf_buffer src, dst; /* kept from row to row when they fit */
	tcpx_region remote_src, remote_dst;
	struct perf_flow out; /* what this end initiates */
	struct perf_flow in;  /* RECVs */
};

/* Why a spec cannot be: NULL when it can. limit: bytes of all buffers of this end. */
const char *perf_spec_wrong(const struct perf_spec *spec, uint64_t limit);

/* What this end's buffers need in total. */
uint64_t perf_side_bytes(enum perf_end end, const struct perf_spec *spec);

/* Starts a row: layout and buffers. */
tcpx_status perf_side_open(struct perf_side *side, const struct perf_spec *spec,
			   const struct perf_place *place);
/* Tokens for the other end; zero bytes where there is no buffer. */
tcpx_status perf_side_export(struct perf_side *side, uint8_t tokens[PERF_TOKENS_BYTES]);
/* Takes the other end's tokens and prepares the requests. */
tcpx_status perf_side_bind(struct perf_side *side, const uint8_t tokens[PERF_TOKENS_BYTES]);

/* How many transfers a window may have: each its own destination where bytes are compared. Without
 * the check WRITE and READ go round and round, so that a small working set is measured in flow. */
uint64_t perf_side_most(const struct perf_side *side);

/* Before a window: the source gets its pattern, the destination poison. */
tcpx_status perf_side_fill(struct perf_side *side, const struct perf_window *window);
/* Posts the receives of a window; nothing where this end has none. */
tcpx_status perf_side_receive(struct perf_side *side, const struct perf_window *window);
/* Waits for them. */
tcpx_status perf_side_received(struct perf_side *side, const struct perf_window *window);
/* Counts wrong bytes of the destination; flips one before when the window says so. */
tcpx_status perf_side_check(struct perf_side *side, const struct perf_window *window,
			    struct perf_wrong *out_wrong);

int perf_side_initiates(const struct perf_side *side);
int perf_side_has_dst(const struct perf_side *side);

/* Ends a row; the buffers stay. */
void perf_side_end(struct perf_side *side);
/* Ends everything. */
void perf_side_close(struct perf_side *side);

#endif
