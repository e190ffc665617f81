/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a session. */
#ifndef ENGINE_SESSION_SESSION_OPTS_H
#define ENGINE_SESSION_SESSION_OPTS_H

#include <stdatomic.h>
#include <stdint.h>

#include <tcpx/tcpx.h>

struct engine_session;

/* The numbers among the options. For channels and chunk_bytes the two ends of a link use the
 * smaller value; 0: the other end decides. */
struct session_tuning {
	uint32_t channels, chunk_bytes;
	uint32_t inline_bytes; /* a post sends so much itself */
	int64_t silent_ns, stopped_ns;
	_Atomic int64_t goodbye_ns; /* goodbye_wait.h */
	uint64_t notify_budget;
};

/* Checks the caller's options and stores them; the environment fills in what they leave out. */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);

#endif
