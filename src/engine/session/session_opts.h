/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a session. */
#ifndef ENGINE_SESSION_SESSION_OPTS_H
#define ENGINE_SESSION_SESSION_OPTS_H

#include <stdatomic.h>
#include <stdint.h>

#include <tcpx/tcpx.h>

struct engine_session;

/* Numbers among the options. A peer may want others: with each the two sides agree on a value. */
struct session_tuning {
	uint32_t channels;    /* to each peer, at most */
	uint32_t chunk_bytes; /* 0: as the peer wants */
	uint32_t inline_bytes;
	int64_t silent_ns, stopped_ns;
	_Atomic int64_t goodbye_ns; /* goodbye_wait.h */
	uint64_t notify_budget;
};

/* Checks the caller's options and stores them; the environment fills in what they leave out. */
tcpx_status session_options(struct engine_session *session, const tcpx_session_opts *opts);

#endif
