/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a measured row, the same code in perf and in serve: buffers, requests, windows. */
#ifndef TOOLS_PERF_SIDE_H
#define TOOLS_PERF_SIDE_H

#include "perf_buffer.h"
#include "perf_flow.h"
#include "perf_layout.h"
#include "perf_message.h"

enum perf_end { PERF_CLIENT = 0, PERF_SERVER = 1 };

/* Index of directions and tokens: [0] source buffer, [1] destination. */
#define PERF_TOKENS_BYTES (2 * TCPX_TOKEN_BYTES)

struct perf_side {
	tcpx_session *session;
	tcpx_peer peer;
	enum perf_end end;
	int64_t deadline_ns;
	struct perf_leave leave; /* called while buffers are filled and compared */
	int row_open;
	struct perf_spec spec;
	struct perf_layout layout;
	struct perf_gpu *gpu;	     /* GPU of the buffers; NULL: host memory */
	struct perf_buffer src, dst; /* kept between rows if they fit */
	tcpx_region remote_src, remote_dst;
	struct perf_flow out; /* transfers that this end initiates */
	struct perf_flow in;  /* RECVs */
};

/* Why a spec is impossible; NULL: it is fine. limit: bytes for all buffers of this end. */
const char *perf_spec_wrong(const struct perf_spec *spec, uint64_t limit);

/* Bytes that the buffers of this end need. */
uint64_t perf_side_bytes(enum perf_end end, const struct perf_spec *spec);

/* Starts a row: layout and buffers. */
tcpx_status perf_side_open(struct perf_side *side, const struct perf_spec *spec,
			   const struct perf_place *place);
/* Writes tokens for the other end; zero bytes if there is no buffer. */
tcpx_status perf_side_export(struct perf_side *side, uint8_t tokens[PERF_TOKENS_BYTES]);
/* Imports the tokens of the other end and prepares the requests. */
tcpx_status perf_side_bind(struct perf_side *side, const uint8_t tokens[PERF_TOKENS_BYTES]);

/* Most transfers of a window. If bytes are compared, each transfer has its own destination.
 * Without the check WRITE and READ wrap around, so that a small working set is measured under
 * load. */
uint64_t perf_side_most(const struct perf_side *side);

/* Before a window: fills the source with the pattern and the destination with poison. */
tcpx_status perf_side_fill(struct perf_side *side, const struct perf_window *window);
/* Posts the receives of a window, if this end has any. */
tcpx_status perf_side_receive(struct perf_side *side, const struct perf_window *window);
/* Waits for them. */
tcpx_status perf_side_received(struct perf_side *side, const struct perf_window *window);
/* Counts wrong bytes of the destination; flips one first if the window asks for it. */
tcpx_status perf_side_check(struct perf_side *side, const struct perf_window *window,
			    struct perf_wrong *out_wrong);

int perf_side_initiates(const struct perf_side *side);
int perf_side_has_dst(const struct perf_side *side);

/* Ends a row and keeps the buffers. */
void perf_side_end(struct perf_side *side);
/* Ends everything. */
void perf_side_close(struct perf_side *side);

#endif
