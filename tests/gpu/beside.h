/* SPDX-License-Identifier: Apache-2.0 */
/* An application with two GPUs, sessions between them, and work of its own beside the transfers. */
#ifndef BESIDE_H
#define BESIDE_H

#include <tcpx/tcpx.h>

#include "beside_abi.h"
#include "check.h"
#include "fakecuda/fakecuda.h"
#include "sys/cuda.h"

#define BESIDE_PIECE 4096u
#define BESIDE_STRIDE 16384u /* a piece lies in each */

enum beside_kind {
	BESIDE_WRITE_WHOLE,
	BESIDE_WRITE_PIECES,
	BESIDE_READ_WHOLE,
	BESIDE_READ_PIECES,
	BESIDE_KINDS,
};

/* A GPU of the application's, and its session. */
struct beside_end {
	struct sys_cuda_gpu *gpu;
	cuda_stream stream; /* of its own copies; waits for no other */
	cuda_ptr mem;	 /* the source, and behind it the sinks of whole and of scattered bytes */
	uint8_t *image;	 /* pinned, as large as each of them */
	uint8_t *source; /* what lies in the source */
	tcpx_session *session;
	tcpx_region region;
};

/* WRITEs go from end 0 to end 1, READs come back. */
struct beside {
	const struct sys_cuda *api;
	const struct fakecuda *fake; /* NULL: a real driver */
	uint64_t bytes;		     /* of each transfer's memory */
	int local;		     /* over the same-host transport, not tcp */
	struct beside_end end[2];
	unsigned gpus; /* 1: both ends have the same */
	uint8_t *want; /* room for a model of a sink */
	tcpx_peer peer;
	tcpx_region remote;
	tcpx_request requests[BESIDE_KINDS];
	int64_t took_ns[BESIDE_KINDS]; /* from post to end */
	cuda_function meet[2];	       /* beside_meet of each end's GPU; NULL: none in this build */
	int shared_bytes;	       /* the most that a block of it may have */
};

#define BESIDE_MUST(call_)                                                                         \
	do {                                                                                       \
		cuda_result beside_result = (call_);                                               \
		if (beside_result != CUDA_OK)                                                      \
			beside_fail(__FILE__, __LINE__, beside_result, #call_);                    \
	} while (0)
#define BESIDE_OK(call_)                                                                           \
	do {                                                                                       \
		tcpx_status beside_status = (call_);                                               \
		CHECK_MSG(beside_status == TCPX_OK, "%s: %s (%s)", #call_,                         \
			  tcpx_status_name(beside_status), tcpx_last_error()->what);               \
	} while (0)

__attribute__((noreturn)) void beside_fail(const char *file, int line, cuda_result result,
					   const char *call);

/* One a process, never taken down. far: the ordinal of end 1, UINT32_MAX: the last one. Ends the
 * case as skipped where there is no driver or device. */
struct beside *beside_open(uint64_t bytes, int local, uint32_t far);

/* The end's context is current on this thread, which is in relaxed capture mode, until leave. The
 * library is called outside of it, as an application would. */
void beside_enter(struct beside *b, struct beside_end *end, struct sys_cuda_scope *out_scope);

/* Both sessions, their regions, the connection and the requests; and their end. */
void beside_connect(struct beside *b);
void beside_close(struct beside *b);

/* One transfer into a sink that was overwritten before, and every byte of it compared. */
void beside_move(struct beside *b, enum beside_kind kind);
void beside_move_all(struct beside *b);
/* What the last one of each kind took. For information: no verdict comes of it. */
void beside_say(const struct beside *b, const char *when);

/* All kinds at once, each begun again when it has ended, until stop, which compares. next returns
 * behind the end of one. */
void beside_load_begin(struct beside *b);
void beside_load_next(struct beside *b);
void beside_load_stop(struct beside *b);

/* beside_app.c: launches of beside_meet. */
struct beside_run {
	struct beside *b;
	struct beside_end *end;
	cuda_stream stream; /* NULL: the legacy default stream */
	struct beside_mark *mark;
	cuda_ptr mark_gpu, count;
	uint32_t blocks;
};

/* Which stream a launch goes to. */
enum beside_where { BESIDE_LEGACY, BESIDE_DEFAULT, BESIDE_HIGHEST };

/* Memory and stream, before any launch: the driver may wait for the GPU. Skips the case where there
 * is no kernel. */
void beside_run_open(struct beside *b, unsigned end, enum beside_where where,
		     struct beside_run *out_run);
void beside_run_launch(struct beside_run *run, uint32_t blocks, int stay);
/* Until that many blocks are here. */
void beside_run_await(struct beside_run *run, uint32_t blocks);
/* Until all of them are, at one time. */
void beside_run_meet(struct beside_run *run);
int beside_run_busy(struct beside_run *run); /* the stream has not come to its end */
void beside_run_stop(struct beside_run *run);

/* beside_app.c: stream captures. */
struct beside_graph {
	struct beside *b;
	struct beside_end *end;
	cuda_stream stream; /* a blocking one: work on the legacy stream would break its captures */
	cuda_ptr from, to;
	uint8_t *image;
	unsigned rounds;
};
void beside_graph_open(struct beside *b, unsigned end, struct beside_graph *out_graph);
/* Captured in global mode on a thread of that mode, launched, its bytes compared. */
void beside_graph_round(struct beside_graph *graph);

/* CPU time of the library's threads so far; how many they are. say: prints each one's. */
int64_t beside_cpu_ns(unsigned *out_threads, int say);

#endif
